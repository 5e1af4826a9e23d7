"""The step of small linear models as a list of contractions: the one description for XLA, Pallas and LLVM.

A head of reduced attention adds v_h U_h to U, the coefficients of β x_qᵀ, with U_h = Σ_r k_hr q_hrᵀ or U_h itself; one
of full attention adds p_h ⊗ U_h to a tensor T over G_ab x_j, of which only T_ab + T_ba counts because G is symmetric.
The loss is a quadratic form of these coefficients, its derivative ("force") is linear in them, and the gradient of
every weight follows by the chain rule. Each of these is an einsum of two operands, so the whole step is a short list of
them, whatever the sizes. `batch.unrolled` writes them out number by number; `compiled` prints them as straight lines or
as loops.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Form = Literal["diagonal", "kronecker", "moments"]


class Contraction(NamedTuple):
    """out[…] = Σ left[…] · right[…].

    Args:
        out: name of the array that is made.
        subscripts: as einsum has them; letters are h (head), r (rank), i, k (entries of β), j, l (entries of x_q), a, b
            (entries of a token).
        left: name of the first operand.
        right: name of the second.

    >>> Contraction("left", "h,hri->hri", "value", "key").parts
    ('h', 'hri', 'hri')
    """

    out: str
    subscripts: str
    left: str
    right: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """Letters of the first operand, of the second, and of the result."""
        operands, _, out = self.subscripts.partition("->")
        first, _, second = operands.partition(",")
        return first, second, out


class Sizes(NamedTuple):
    """What a written-out step depends on.

    Args:
        dim: D.
        num_heads: H.
        rank: R of separate keys and queries; 0 for merged key-query weights.
        form: of the loss: ``diagonal`` (infinitely many prompts, in the eigenbasis of the inputs), ``kronecker`` (the
            same in any basis) or ``moments`` (of P prompts).
        gram: whether the model is full attention, whose coefficients belong to G ⊗ x_q instead of β x_qᵀ.

    >>> Sizes(4, 5, 1, "diagonal").num_weights, Sizes(4, 5, 1, "moments", gram=True).num_weights
    (45, 70)
    """

    dim: int
    num_heads: int
    rank: int
    form: Form
    gram: bool = False

    @property
    def full(self) -> bool:
        """Whether the form is that of P prompts."""
        return self.form == "moments"

    @property
    def rows(self) -> int:
        """Rows of the coefficients: entries of β, or pairs a ≤ b of entries of a token."""
        return len(pair_indices(self.dim + 1)) if self.gram else self.dim

    def length(self, letters: str) -> int:
        """Entries of an array with these axes."""
        spans = {"h": self.num_heads, "r": max(1, self.rank), "a": self.dim + 1, "b": self.dim + 1}
        return math.prod(spans.get(letter, self.dim) for letter in letters)

    def shape(self, letters: str) -> tuple[int, ...]:
        """The shape of an array with these axes."""
        return tuple(self.length(letter) for letter in letters)

    @property
    def num_weights(self) -> int:
        """Weights of a run."""
        return sum(self.length(axes) for axes in weight_axes(self).values())

    @property
    def num_numbers(self) -> int:
        """Numbers of a run's form: scale and constant first, then the cross term, then the second moments."""
        d = self.dim
        if self.form == "diagonal":
            return 2 + d + d * d
        if self.form == "kronecker":
            return 2 + 3 * d * d
        return 2 + self.rows * d + len(pair_indices(d)) * len(pair_indices(self.rows))

    @property
    def form_products(self) -> int:
        """Multiplications of the derivative of the form."""
        d = self.dim
        return {"diagonal": d * d, "kronecker": 2 * d**3, "moments": (self.rows * d) ** 2}[self.form]

    @property
    def products(self) -> int:
        """Multiplications of a step, of the largest contractions."""
        if self.gram:
            steps = [*forward(self), *backward(self)]
            return sum(self.length("".join(sorted(set(s.parts[0] + s.parts[1])))) for s in steps) + self.form_products
        return self.num_heads * (3 * max(1, self.rank) * self.dim**2) + self.form_products


def pair_indices(dim: int) -> list[tuple[int, int]]:
    """All (i, j) with i ≤ j < dim, in order."""
    return [(i, j) for i in range(dim) for j in range(i, dim)]


def pair_places(dim: int) -> dict[tuple[int, int], int]:
    """The place of (i, j), in either order, among `pair_indices`."""
    pairs = pair_indices(dim)
    return {pair: n for n, pair in enumerate(pairs)} | {(j, i): n for n, (i, j) in enumerate(pairs)}


def weight_axes(sizes: Sizes) -> dict[str, str]:
    """Name → axes of every weight array, in the order in which a run's numbers hold them.

    Args:
        sizes: what the step depends on.

    Returns:
        The axes as letters (`Contraction`).

    >>> weight_axes(Sizes(4, 5, 1, "diagonal"))
    {'value': 'h', 'key': 'hri', 'query': 'hrj'}
    """
    value, row = ("ha", "b") if sizes.gram else ("h", "i")
    if sizes.rank == 0:
        return {"value": value, "kq": f"h{row}j"}
    return {"value": value, "key": f"hr{row}", "query": "hrj"}


def table_axes(sizes: Sizes) -> str:
    """Axes of what heads add up to, and of the force on it: U_ij, or T_abj of full attention."""
    return "abj" if sizes.gram else "ij"


def forward(sizes: Sizes) -> list[Contraction]:
    """From the weights to ``table``: U, or T of full attention.

    Args:
        sizes: what the step depends on.

    Returns:
        The contractions, in order.
    """
    if sizes.gram:
        made = [Contraction("kq", "hrb,hrj->hbj", "key", "query")] if sizes.rank else []
        return [*made, Contraction("table", "ha,hbj->abj", "value", "kq")]
    if sizes.rank == 0:
        return [Contraction("table", "h,hij->ij", "value", "kq")]
    return [
        Contraction("left", "h,hri->hri", "value", "key"),
        Contraction("table", "hri,hrj->ij", "left", "query"),
    ]


def backward(sizes: Sizes) -> list[Contraction]:
    """From ``force``, the derivative of the loss by the table, to ``d_`` and the name of every weight.

    Args:
        sizes: what the step depends on.

    Returns:
        The contractions, in order; they may use what `forward` has made.
    """
    if sizes.gram:
        pulled = [
            Contraction("d_value", "abj,hbj->ha", "force", "kq"),
            Contraction("d_kq", "ha,abj->hbj", "value", "force"),
        ]
        separate = [
            Contraction("d_key", "hbj,hrj->hrb", "d_kq", "query"),
            Contraction("d_query", "hbj,hrb->hrj", "d_kq", "key"),
        ]
        return pulled + (separate if sizes.rank else [])
    if sizes.rank == 0:
        return [
            Contraction("d_value", "hij,ij->h", "kq", "force"),
            Contraction("d_kq", "h,ij->hij", "value", "force"),
        ]
    return [
        Contraction("pulled", "ij,hrj->hri", "force", "query"),
        Contraction("d_query", "ij,hri->hrj", "force", "left"),
        Contraction("d_key", "h,hri->hri", "value", "pulled"),
        Contraction("d_value", "hri,hri->h", "key", "pulled"),
    ]


def kronecker_force() -> list[Contraction]:
    """From U to E[ββᵀ] U Λ, in any basis."""
    return [
        Contraction("folded", "ik,kj->ij", "second", "table"),
        Contraction("force", "il,lj->ij", "folded", "inputs"),
    ]
