"""iclearn: the theory of in-context learning in attention."""
__version__ = "0.1.0"
