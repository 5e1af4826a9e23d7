"""Raventós, Paul, Chen, Ganguli 2023 (arXiv 2306.15063): pre-training task diversity and non-Bayesian in-context learning."""
