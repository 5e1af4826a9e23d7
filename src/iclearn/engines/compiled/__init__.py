"""Training of small linear models on a processor by generated code, compiled where Numba is installed."""
