"""oswald2023: von Oswald et al., Transformers learn in-context by gradient descent (ICML 2023, arXiv 2212.07677)."""
