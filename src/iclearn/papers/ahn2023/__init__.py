"""ahn2023: Ahn, Cheng, Daneshmand, Sra, Transformers learn to implement preconditioned gradient descent (NeurIPS 2023)."""
