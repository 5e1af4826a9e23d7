"""`python -m iclearn` is the command line."""

import sys

from .cli import console

if __name__ == "__main__":
    sys.exit(console())
