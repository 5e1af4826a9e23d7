"""What the Bayes-optimal predictor, the posterior mean, leaves of E(ŷ − y_q)²."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre
from scipy.special import eval_genlaguerre, gammaln

from .law import Law, eigenvalues

_NODES = 20
MOST_EIGENVALUES = 200  # beyond, Laguerre polynomials leave the range of float64
SAMPLED = 2e10  # multiplications for contexts that are sampled, about, where LEAST_SAMPLES do not take more
LEAST_SAMPLES = 100


class BayesLoss(NamedTuple):
    """A loss with its standard error; see `bayes_loss`.

    Args:
        loss: E tr(Λ Cov(w | context)).
        standard_error: 0 where the value is exact.
    """

    loss: float
    standard_error: float


def _panel_quadrature(
    edges: Float[np.ndarray, " edge"],
) -> tuple[Float[np.ndarray, "panel node"], Float[np.ndarray, "panel node"], Float[np.ndarray, "node node"]]:
    """Gauss-Legendre nodes and weights on each panel, and the matrix of ∫ from its left end to each node."""
    nodes, weights = legendre.leggauss(_NODES)
    basis = legendre.legvander(nodes, _NODES - 1)
    integrals = legendre.legint(np.eye(_NODES), lbnd=-1)
    running = legendre.legvander(nodes, _NODES) @ integrals @ np.linalg.inv(basis)
    half = np.diff(edges)[:, None] / 2
    return edges[:-1, None] + half * (1 + nodes), half * weights, running


def wishart_expectation(
    function: Callable[[np.ndarray], np.ndarray], dim: int, num: int, smallest: float = 1.0
) -> float:
    """E Σ_i f(λ_i) over the min(dim, num) non-zero eigenvalues of ZᵀZ, Z a (num, dim) matrix of standard normals.

    The eigenvalues have density ∝ Π|λ_i − λ_j| Π λ_i^a e^{−λ_i/2}, a = (|num − dim| − 1)/2. By de Bruijn's identity
    E Π(1 + t f(λ_i)) is a ratio of Pfaffians of A_ij = ∬ sgn(y − x) p_i(x) p_j(y) dμ(x) dμ(y), dμ weighted by 1 + t f,
    so that E Σ f = ½ tr(A⁻¹ dA/dt) at t = 0, with a border of ∫ p_i dμ if the size is odd. The p_i are Laguerre
    polynomials; λ = u² makes the weight smooth, and panels of Gauss-Legendre nodes integrate to rounding error.

    Args:
        function: f, for arrays of any shape.
        dim: number of columns of Z.
        num: number of rows of Z.
        smallest: a scale of λ at and above which f varies.

    Returns:
        The expectation.

    >>> round(wishart_expectation(lambda x: x, dim=3, num=5), 10)  # E tr ZᵀZ
    15.0
    """
    size, power = min(dim, num), abs(num - dim)
    fine = np.sqrt(smallest)
    end = np.sqrt(dim) + np.sqrt(num) + 11  # the largest singular value exceeds this with probability < e^-60
    first = min(fine, 1.0) / 4
    panels = 4 + int(6 * np.log10(1 / first))
    edges = np.concatenate([[0.0], np.geomspace(first, 1.0, panels), np.linspace(1.0, end, 60)[1:]])
    u, weight, running = _panel_quadrature(edges)
    x = u**2
    degree = np.arange(size)[:, None, None]
    norm = 0.5 * (gammaln(degree + 1) - gammaln(degree + power + 1))
    density = eval_genlaguerre(degree, power, x) * np.exp(norm - x / 2 + power * np.log(u))
    values = function(x)

    def skew(plain: np.ndarray, other: np.ndarray) -> np.ndarray:
        """∬ sgn(y − x) plain_i(x) other_j(y)"""
        whole = np.sum(other * weight, -1)
        before = np.cumsum(whole, -1) - whole
        half = (np.diff(edges) / 2)[:, None]
        cumulated = before[:, :, None] + np.einsum("ipn,mn->ipm", other, running) * half
        return np.einsum("ipn,jpn->ij", plain * weight, whole.sum(-1)[:, None, None] - 2 * cumulated)

    form = skew(density, density)
    change = skew(density * values, density) + skew(density, density * values)
    if size % 2:
        edge, moved = np.sum(density * weight, (1, 2)), np.sum(density * values * weight, (1, 2))
        form = np.block([[form, edge[:, None]], [-edge[None], np.zeros((1, 1))]])
        change = np.block([[change, moved[:, None]], [-moved[None], np.zeros((1, 1))]])
    return float(np.trace(np.linalg.solve(form, change)) / 2)


def _sampled(values: Float[np.ndarray, " dim"], context: int, noise: float, num: int, seed: int) -> BayesLoss:
    """E tr(Λ Cov(w | context)) as a mean over contexts, where Λ^½ΣΛ^½ has these eigenvalues."""
    rng, root, dim = np.random.default_rng(seed), np.sqrt(values), values.size
    chunk = max(1, 2_000_000 // (dim * context))
    losses = []
    for start in range(0, num, chunk):
        inputs = rng.standard_normal((min(chunk, num - start), context, dim)) * root
        if context < dim:
            kernel = inputs @ inputs.swapaxes(1, 2) + noise * np.eye(context)
            explained = np.einsum("kci,kci,i->k", inputs, np.linalg.solve(kernel, inputs), values)
            losses.append(values.sum() - explained)
        else:
            kernel = np.eye(dim) + inputs.swapaxes(1, 2) @ inputs / noise
            losses.append(np.einsum("kii,i->k", np.linalg.inv(kernel), values))
    drawn = np.concatenate(losses)
    return BayesLoss(float(drawn.mean()), float(drawn.std(ddof=1) / np.sqrt(num)))


def bayes_loss(law: Law, num_samples: int | None = None, seed: int = 0) -> BayesLoss:
    """Loss of the posterior mean, the best any predictor can do: E tr(Λ (Σ⁻¹ + XᵀX/σ²)⁻¹), for every w*.

    X are the inputs of the context. Exact where Λ^½ΣΛ^½ = s·I: s·max(d − C, 0) without noise, and with noise
    `wishart_expectation` of σ²/(σ² + sλ), for up to 200 eigenvalues. Zero without noise at C ≥ d. Elsewhere a mean
    over sampled contexts.

    Args:
        law: of the task.
        num_samples: contexts to sample where there is no exact form (None: as many as take seconds).
        seed: of the samples.

    Returns:
        The loss and its standard error.

    >>> round(bayes_loss(Law.isotropic(10, 10, noise=1.0)).loss, 3)
    2.855
    """
    dim, context, noise = law.dim, law.context_len, law.noise
    scale, size = law.isotropic_scale, min(dim, context)
    if noise == 0 and (context >= dim or scale is not None):
        return BayesLoss((scale or 0.0) * max(dim - context, 0), 0.0)
    if scale is not None and size <= MOST_EIGENVALUES:
        ratio = noise / scale
        left = wishart_expectation(lambda x: ratio / (ratio + x), dim, context, smallest=ratio)
        return BayesLoss(scale * (max(dim - context, 0) + left), 0.0)
    affordable = int(np.clip(SAMPLED / (dim * context * size), LEAST_SAMPLES, 50_000))
    num = affordable if num_samples is None else num_samples
    return _sampled(eigenvalues(law.whitened()[1]), context, noise, num, seed)
