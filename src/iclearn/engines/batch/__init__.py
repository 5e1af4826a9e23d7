"""Many runs that differ in numbers only, trained side by side: vmapped, unrolled number by number, or in one kernel."""
