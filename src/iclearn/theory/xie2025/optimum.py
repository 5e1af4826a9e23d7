"""The best linear self-attention can do with enough heads: loss, function, weights, number of heads (our derivation).

Take w* off the labels (y' = y − w*·x; a linear map of tokens, so attention stays attention), and write S for the sample
covariance of the context's inputs, δ = w − w*, Δ = w* − w_q. The law does not change when δ and the noise change sign,
which splits the regression of the target (δ + Δ)·x_q on sym(G') ⊗ x_q into two:

* odd: δ from β' = (1/C) Σ y'_i x_i, whose best map is F = E[δβ'ᵀ] E[β'β'ᵀ]⁻¹ = ΣΛR⁻¹, R = E[SΣS] + σ²Λ/C: a
  preconditioned gradient step from w*, and a plain one with η* where Λ and Σ are multiples of I;
* even: the constant Δ from S and q' = (1/C) Σ y'², neither of which is constant. A share ρ of ‖Δ‖²_Λ stays.

So L* = tr ΛΣ − tr(ΛFΛΣ) + ρ ΔᵀΛΔ. Without noise ρ = 2/(Cd+2) whatever Σ: see `constant_fit`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .law import Law, eigenvalues, product, solved
from .lsa_loss import LSAWeights, fold_symmetric


class Optimum(NamedTuple):
    """The least loss of linear self-attention and its two parts; see `optimum`.

    Args:
        loss: `step_loss` + `gap`.
        step_loss: the loss of one preconditioned gradient step from w*.
        gap: what a guess other than w*·x_q adds.
    """

    loss: float
    step_loss: float
    gap: float


class ConstantFit(NamedTuple):
    """The even regression 1 ≈ τ tr(SΛ⁻¹) + κ (q' − tr SΣ); see `constant_fit`.

    Args:
        trace: τ.
        label: κ.
        residual: ρ, the mean square of what is left.
    """

    trace: float
    label: float
    residual: float


def constant_fit(law: Law) -> ConstantFit:
    """How well the number 1 is a linear function of G: what is left of a wrong guess, per unit of ΔᵀΛΔ.

    tr(SΛ⁻¹) has mean d and second moment d² + 2d/C, so alone it leaves ρ₀ = 2/(Cd+2). q' − tr SΣ has mean σ² and
    second moment e, and helps only where there is noise: ρ = ρ₀ − (σ²ρ₀)²/(e − σ⁴(1−ρ₀)).

    Args:
        law: of the task.

    Returns:
        τ, κ and ρ.

    >>> round(constant_fit(Law.isotropic(dim=10, context_len=10)).residual, 6)  # 2/(Cd+2)
    0.019608
    """
    dim, context, noise = law.dim, law.context_len, law.noise
    turned = product(law.inputs, law.prior)
    total, square = law.label_variance, float(np.einsum("ij,ji->", turned, turned))
    alone = 2 / (context * dim + 2)
    quartic = 2 * ((1 + 1 / context) * square + total**2 / context)
    left = noise**2 * (alone + 2 / context) + 4 * noise * total / context + quartic  # e − σ⁴(1−ρ₀)
    label = noise * alone / left
    trace = context / (context * dim + 2) * (1 - label * noise)
    return ConstantFit(trace, label, alone - noise * alone * label)


def step_matrix(law: Law) -> Float[np.ndarray, "dim dim"]:
    """The best linear map from β' to w − w*: F = ΣΛR⁻¹, R = (1+1/C) ΛΣΛ + (tr ΛΣ + σ²) Λ/C.

    At Λ = Σ = I it is η*·I with η* = C/(C+d+1+σ²).

    Args:
        law: of the task.

    Returns:
        (dim, dim) F.

    >>> step_matrix(Law.isotropic(dim=2, context_len=3)).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    inputs, prior, context = law.inputs, law.prior, law.context_len
    # R = Λ·[(1+1/C) ΣΛ + (tr ΛΣ + σ²)/C·I], so F = (ΣΛ)·[…]⁻¹·Λ⁻¹ is a function of ΣΛ, times Λ⁻¹
    turned = product(prior, inputs)
    bracket = (1 + 1 / context) * turned + (law.label_variance + law.noise) / context * np.eye(law.dim)
    return solved(inputs, solved(bracket.T, turned.T)).T


def optimum(law: Law, guess: ArrayLike | None = None) -> Optimum:
    """The least loss over any number of heads with a fixed guess g = w_q·x_q, in closed form.

    L* = tr ΛΣ − tr(ΛFΛΣ) + ρ ΔᵀΛΔ, with F of `step_matrix`, ρ of `constant_fit` and Δ = w* − w_q. At Λ = Σ = I without
    noise L* = d(d+1)/(C+d+1) + 2‖w*−w_q‖²/(Cd+2). It takes `minimal_heads` heads.

    Args:
        law: of the task.
        guess: (dim) w_q (None: 0).

    Returns:
        The loss and its two parts.

    >>> best = optimum(Law.isotropic(dim=10, context_len=10, prior_norm=3))
    >>> round(best.step_loss, 6), round(best.gap, 6), round(best.loss, 6)
    (5.238095, 0.176471, 5.414566)
    """
    offset, prior = law.whitened(guess)
    values = eigenvalues(prior)
    # s − s²/((1+1/C)s + (tr+σ²)/C), written without the difference
    spread = (values.sum() + law.noise) / law.context_len
    tail = values / law.context_len + spread
    step_loss = float(np.sum(values * tail / (values + tail)))
    gap = constant_fit(law).residual * float(offset @ offset)
    return Optimum(step_loss + gap, step_loss, gap)


def _forms(law: Law, guess: ArrayLike | None) -> Float[np.ndarray, "dim entry entry"]:
    """Symmetric A_j with ŷ = g + Σ_j ⟨A_j, G'⟩ x_qj at the optimum, G' the Gram matrix of tokens [x; y']."""
    dim, fit, offset = law.dim, constant_fit(law), law.mean - law.guess(guess)
    forms = np.zeros((dim, dim + 1, dim + 1))
    inner = fit.trace * solved(law.inputs, np.eye(law.dim)) - fit.label * law.prior
    forms[:, :dim, :dim] = np.multiply.outer(offset, inner)
    forms[:, :dim, dim] = forms[:, dim, :dim] = step_matrix(law) / 2
    forms[:, dim, dim] = fit.label * offset
    return forms


def _untwist(law: Law) -> Float[np.ndarray, "entry entry"]:
    """T with [x; y'] = T [x; y]: takes w* off the labels."""
    twist = np.eye(law.dim + 1)
    twist[-1, :-1] = -law.mean
    return twist


def optimum_coefficients(law: Law, guess: ArrayLike | None = None) -> Float[np.ndarray, "entry dim"]:
    """The function that attains `optimum`, as W in ŷ = [1; sym(G)]ᵀ W x_q.

    At Λ = Σ = I without noise it predicts with the weights w_q + C/(Cd+2) tr(S)(w*−w_q) + η* S(w−w*).

    Args:
        law: of the task.
        guess: (dim) w_q (None: 0).

    Returns:
        (entry, dim) W.

    >>> optimum_coefficients(Law(np.zeros(1), context_len=3)).ravel().round(12).tolist()  # 3/5 G_xy
    [0.0, 0.0, 0.6, 0.0]
    """
    twist = _untwist(law)
    forms = np.einsum("ca,jce,eb->abj", twist, _forms(law, guess), twist)
    return np.vstack([law.guess(guess), fold_symmetric(forms)])


def _blind_direction(law: Law, guess: ArrayLike | None) -> Float[np.ndarray, " entry"] | None:
    """A vector v with vᵀA_jv = 0 for every j (see `minimal_heads`), or None where there is none; Δ ≠ 0."""
    fit, offset = constant_fit(law), law.mean - law.guess(guess)
    inner = fit.trace * solved(law.inputs, np.eye(law.dim)) - fit.label * law.prior
    pulled = solved(step_matrix(law), offset)
    bent = float(pulled @ inner @ pulled)
    discriminant = 1 - 4 * fit.label * bent
    if discriminant < 0:
        return None
    # v = [−α F⁻¹Δ; 1], α a root of α² bent − α + κ = 0; the smaller one, 0 without noise
    alpha = 2 * fit.label / (1 + np.sqrt(discriminant))
    vector = np.append(-alpha * pulled, 1.0)
    return vector / np.linalg.norm(vector)


def minimal_heads(law: Law, guess: ArrayLike | None = None) -> int:
    """The least number of heads that attains `optimum`: 1 if w_q = w*, else d, or d+1 with strong noise.

    H heads compute Σ_h sym(p_h r_hjᵀ) for each j; such matrices vanish on V = {p_1 … p_H}^⊥, and every family that does
    is of this form. So the optimum's A_j = [[Δ_j X, ½F_j], [½F_j, κΔ_j]] need a common isotropic subspace of dimension
    d+1−H. X = τΛ⁻¹ − κΣ is positive definite, so a plane, which meets {v_y = 0}, never is one if Δ ≠ 0: H ≥ d. A line
    is one iff 4κ (F⁻¹Δ)ᵀX(F⁻¹Δ) ≤ 1: always without noise (κ = 0), and with noise unless ‖Δ‖ is large. The paper shows
    that d+1 heads suffice.

    Args:
        law: of the task.
        guess: (dim) w_q (None: 0).

    Returns:
        The number of heads.

    >>> [minimal_heads(Law.isotropic(10, 10, m, noise)) for m, noise in [(0, 0), (3, 0), (3, 1), (40, 1)]]
    [1, 10, 10, 11]
    """
    if not np.any(law.mean - law.guess(guess)):
        return 1
    return law.dim if _blind_direction(law, guess) is not None else law.dim + 1


def optimal_weights(law: Law, guess: ArrayLike | None = None) -> LSAWeights:
    """Weights of `minimal_heads` heads that attain `optimum`; one of the many that compute the same function.

    With the guess w_q = w* it is one head, p = [−w*; 1], Q [I; w*ᵀ] = [Fᵀ; 0]: the gradient step from w*. With another
    and no noise it is d heads that read the inputs only, p_h = [e_h; 0] (up to sign).

    Args:
        law: of the task.
        guess: (dim) w_q (None: 0).

    Returns:
        The weights.

    >>> optimal_weights(Law.isotropic(dim=3, context_len=4, prior_norm=1.0)).p.shape
    (3, 4)
    """
    dim, weights = law.dim, law.guess(guess)
    span = np.eye(dim + 1)
    if not np.any(law.mean - weights):
        span = span[:, -1:]
    elif (blind := _blind_direction(law, guess)) is not None:
        span = np.linalg.qr(np.column_stack([blind, span]))[0][:, 1:]
    # Σ_h p_h r_hᵀ = Π A (2 − Π) has the symmetric part A if A vanishes beside the span that Π projects on
    reach = 2 * np.eye(dim + 1) - span @ span.T
    twist = _untwist(law)
    lifted = np.einsum("ea,eb,jbc,ch->haj", twist, reach, _forms(law, guess), span)
    q = np.zeros((span.shape[1], dim + 1, dim + 1))
    q[:, :, :dim] = lifted
    return LSAWeights((twist.T @ span).T, q, weights)


def yq_optimum(law: Law) -> LSAWeights:
    """The global optimum of yq-LSA (one head, trainable guess w_q): one gradient step from w*, exactly.

    For every w_q the loss is at least step_loss + ρ‖w*−w_q‖²_Λ with ρ > 0, so w_q = w* and the function is unique;
    weights are so up to p → cp, Q → Q/c and Q → Q + r[−w*; 1]ᵀ. Its loss is ``optimum(law).step_loss``.

    Args:
        law: of the task.

    Returns:
        The weights.

    >>> yq_optimum(Law(np.array([2.0]), context_len=3)).p
    array([[-2.,  1.]])
    """
    return optimal_weights(law, law.mean)


def one_direction_loss(law: Law) -> float:
    """Loss of the best yq-LSA whose head reads a single direction v of the inputs: p = [v; 0], guess w*.

    It predicts δ·x_q from the number vᵀSδ alone, δ = w − w*, so that the loss is tr ΛΣ − max_v vᵀΛΣΛΣΛv / vᵀRv with R
    as in `step_matrix`. A stationary point of training: a saddle, or (found numerically) a minimum where one
    eigenvalue of Λ^½ΣΛ^½ is more than half of its trace.

    >>> round(one_direction_loss(Law.isotropic(10, 10)), 6)  # d − η*
    9.52381
    """
    values = np.linalg.eigvalsh(law.whitened()[1])
    spread = (values.sum() + law.noise) / law.context_len
    return float(values.sum() - np.max(values**2 / ((1 + 1 / law.context_len) * values + spread)))
