"""Depth: what L layers of linear attention can do (ahn2023, oswald2023, fu2024, vladymyrov2024, looped transformers).

Ahn, Cheng, Daneshmand, Sra, NeurIPS 2023, arXiv 2306.00297; von Oswald et al., ICML 2023, arXiv 2212.07677; Fu et al.,
NeurIPS 2024, arXiv 2310.17086; Vladymyrov et al., NeurIPS 2024, arXiv 2402.14180; Gatmiry et al., ICML 2024,
arXiv 2410.08292. Formulas are derived where they stand; docs/depth.md has them together.
"""

# isort: off
from .basins import Minimum, flow_losses, nearest_minimum, two_layer_minima
from .noise import constant_ridge_loss, oracle_ridge_loss, ridge_loss
from .one_layer import OneLayer, UniformStep, one_layer, uniform_loss, uniform_step
from .optima import Best, gdpp_loss, gdpp_minima, gdpp_minimum, krylov, tied_descent, tied_gdpp
from .rates import loop_exponent, looped_losses, newton_losses, sample_spectra
from .sampled_spectra import (
    SampledBest, sampled_krylov, sampled_loss, sampled_tied_descent, sampled_tied_gdpp, uniform_spectra,
)  # fmt: skip
from .spectral import (
    filter_loss, gdpp_gain, gdpp_residual, newton_residual, ridge_residual, second_layer_loss,
)  # fmt: skip
from .summary import summary
from .wishart import pfaffian_moments, recursion_moments

__all__ = [
    "Best", "Minimum", "OneLayer", "SampledBest", "UniformStep", "constant_ridge_loss", "filter_loss", "flow_losses",
    "gdpp_gain", "gdpp_loss", "gdpp_minima", "gdpp_minimum", "gdpp_residual", "krylov", "loop_exponent",
    "looped_losses", "nearest_minimum", "newton_losses", "newton_residual", "one_layer", "oracle_ridge_loss",
    "pfaffian_moments", "recursion_moments", "ridge_loss", "ridge_residual", "sample_spectra", "sampled_krylov",
    "sampled_loss", "sampled_tied_descent", "sampled_tied_gdpp", "second_layer_loss", "summary", "tied_descent",
    "tied_gdpp", "two_layer_minima", "uniform_loss", "uniform_spectra", "uniform_step",
]  # fmt: skip
