"""Training of small linear models on a processor by generated code, compiled by Numba where it is installed."""
