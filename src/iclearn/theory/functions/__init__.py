"""Function classes in context (Garg et al. 2022 and after): errors that are known without training or sampling labels.

All errors are excess errors (against labels without noise), divided by the dimension d, for inputs N(0, I) and tasks
w ~ N(0, I) unless said; `context` is the number of pairs before the query.
"""

# isort: off
from .closed_forms import (
    averaging_error, averaging_error_in_context, bayes_error_one_dimension, least_squares_error, linear_limit,
    renormalized_error,
)  # fmt: skip
from .ridge_errors import Estimate, ridge_error
from .shifted_laws import LinearLaw, least_squares_under, linear_law, opposite_query_moment, zero_error

__all__ = [
    "Estimate", "LinearLaw", "averaging_error", "averaging_error_in_context", "bayes_error_one_dimension",
    "least_squares_error", "least_squares_under", "linear_law", "linear_limit", "opposite_query_moment",
    "renormalized_error", "ridge_error", "zero_error",
]  # fmt: skip
