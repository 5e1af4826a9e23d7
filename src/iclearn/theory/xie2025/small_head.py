"""yq-LSA from small weights: a guess that relaxes freely, and a small head that grows beside it.

Under τẆ = −½ ∂L/∂W with a head of size ε the guess obeys w_q' = w* − w_q up to ε², and the head, to first order,
p' = A·Q and Q' = Aᵀ·p, where A is the map of (b, j) to a with entries E[G_ab (w − w_q)_j] (Q acts on [x_q; w_q·x_q]).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from .law import Law
from .lsa_loss import LSAWeights
from .token_moments import gram_moments

HALF = float(np.log(2))  # the time at which a free guess holds half of w*, in τ
_STEPS = 60  # Runge-Kutta steps up to HALF: an error below 1e-6


def _tables(law: Law) -> tuple[Float[np.ndarray, "entry entry"], Float[np.ndarray, "entry entry dim"]]:
    """E[G] and E[G_ab w_j] in full."""
    moments = gram_moments(law)
    rows, cols = np.triu_indices(law.dim + 1)
    gram = np.zeros((law.dim + 1, law.dim + 1))
    cross = np.zeros((law.dim + 1, law.dim + 1, law.dim))
    gram[rows, cols] = gram[cols, rows] = moments.second[0, 1:]
    cross[rows, cols] = cross[cols, rows] = moments.cross[1:]
    return gram, cross


def _lifted(driving: Float[np.ndarray, "entry entry dim"], guess: Float[np.ndarray, " dim"]) -> np.ndarray:
    return np.concatenate([driving, (driving @ guess)[..., None]], -1)


def head_growth_rate(law: Law, share: float) -> float:
    """How fast a small head grows while the guess is w_q = share·w*, in 1/τ: the largest singular value of A.

    At w* = 0 and white inputs it is √d.
    """
    gram, cross = _tables(law)
    guess = share * law.mean
    driving = _lifted(cross - gram[:, :, None] * guess, guess)
    return float(np.linalg.norm(driving.reshape(law.dim + 1, -1), 2))


def carried_share(law: Law, start: LSAWeights, time: float = HALF) -> float:
    """The share of w* that a small head carries after a time, followed to first order from its initial weights.

    A head adds x_q·a to the mean prediction, a_j = Σ_ab p_a E[G_ab] (Q [I; w_qᵀ])_bj; the share is a·w*/‖w*‖².
    """
    gram, cross = _tables(law)
    p, q, first = np.asarray(start.p)[0], np.asarray(start.q)[0], np.asarray(start.guess)

    def slope(at: float, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        guess = law.mean + (first - law.mean) * np.exp(-at)
        driving = _lifted(cross - gram[:, :, None] * guess, guess)
        return np.tensordot(driving, q, 2), np.tensordot(p, driving, 1)

    width = time / _STEPS
    for at in width * np.arange(_STEPS):
        p1, q1 = slope(at, p, q)
        p2, q2 = slope(at + width / 2, p + width / 2 * p1, q + width / 2 * q1)
        p3, q3 = slope(at + width / 2, p + width / 2 * p2, q + width / 2 * q2)
        p4, q4 = slope(at + width, p + width * p3, q + width * q3)
        p, q = p + width / 6 * (p1 + 2 * p2 + 2 * p3 + p4), q + width / 6 * (q1 + 2 * q2 + 2 * q3 + q4)
    guess = law.mean + (first - law.mean) * np.exp(-time)
    carried = p @ gram @ (q[:, :-1] + np.outer(q[:, -1], guess))
    return float(carried @ law.mean / (law.mean @ law.mean))


def takeover_norm(start: LSAWeights, context_len: int) -> float:
    """The norm m of w* = m·𝟏/√d above which a head from these weights carries the mean before the guess does.

    Guess and head race to half of w*: the guess alone is there at t = τ ln 2. The turn is the m at which the head,
    followed to first order, is there at the same time. White inputs and prior; the initial weights must be small.
    """
    dim = np.asarray(start.guess).size

    def lead(norm: float) -> float:
        share = carried_share(Law.isotropic(dim, context_len, norm), start)
        return float(np.log(max(share, 1e-300)) - np.log(0.5))

    above = 0.02
    while lead(above) < 0:
        above *= 1.4
    return float(brentq(lead, above / 1.4, above, xtol=1e-4))  # type: ignore[arg-type]
