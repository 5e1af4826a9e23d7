"""The population engine: the loss integrated over infinitely many prompts in closed form (P = ∞).

L(W) = E y² − 2 tr(Wᵀ E[β yᵀ…]) + tr(Wᵀ E[ββᵀ] W Λ), kept in its Kronecker structure, so a step costs D³ and not D⁴
(zhang2025 spec, section 4). It is the loss of the reduced model; full attention follows it as long as its zero blocks
are zero, which infinitely many prompts with a symmetric prior preserve.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.errors import MissingClosedForm
from ..models.base import AbstractReducibleModel
from ..models.features import Normalize, attention_scale
from ..tasks.base import AbstractTask
from ..tasks.expectations import QuadraticForm, quadratic_form
from .base import AbstractEngine, average, numpy_of


def form_loss(form: QuadraticForm, w: Float[Array, "output dim dim output"]) -> Float[Array, ""]:
    """The loss of W[o, j, i, t], a mean over the outputs t."""
    num = w.shape[-1]
    folded = jnp.einsum("oipk,pbkt->oibt", form.second, w)
    squared = jnp.einsum("ojit,oibt,bj->", w, folded, form.inputs)
    return form.constant + (squared - 2 * jnp.einsum("ojit,oijt->", w, form.cross)) / num


class PopulationEngine(AbstractEngine[AbstractReducibleModel]):
    train: QuadraticForm
    tests: tuple[QuadraticForm, ...]

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: AbstractReducibleModel, key: Key[Array, ""]) -> Float[Array, ""]:
        return form_loss(self.train, model.cubic_coefficients())

    def test_losses(self, model: AbstractReducibleModel) -> Float[Array, " test_set"]:
        w = model.cubic_coefficients()
        losses = [form_loss(form, w) for form in self.tests]
        return jnp.stack(losses) if losses else jnp.zeros((0,), w.dtype)

    def minimum(self) -> Any:
        """At W Λ = E[ββᵀ]⁻¹ E[β w Λ…]: the quadratic form's own minimum."""
        xp = numpy_of(self.train.constant)
        form = jax.tree.map(lambda a: xp.asarray(a, float), self.train)
        size = form.second.shape[0] * form.second.shape[1]
        num = form.cross.shape[-1]
        second = form.second.reshape(size, size)
        cross = form.cross.reshape(size, -1, num)
        solved = xp.linalg.solve(second, cross.reshape(size, -1)).reshape(cross.shape)
        best = xp.einsum("sjt,jk->skt", solved, xp.linalg.inv(form.inputs))
        return form.constant - xp.einsum("sjt,sjt->", cross, best) / num


def population_engine(
    task: AbstractTask, model: AbstractReducibleModel, normalize: Normalize, seed: int, dtype: Any
) -> PopulationEngine:
    """Closed-form losses of the task's training law and of its test laws."""
    laws = task.label_laws(seed)
    blocks = model.zero_blocks()
    if blocks:
        # Finite means break the symmetry w → −w that keeps the zero blocks of full attention at zero.
        symmetric = len(laws) == 1 and not np.any(np.asarray(laws[0].mean))
        if not symmetric:
            raise MissingClosedForm(
                "under a task prior with a non-zero mean (or an in-context mix) full attention leaves the reduced "
                "model, and its population loss has no closed form here: use engine moments or samples with a finite "
                "number of prompts, or a *_reduced model"
            )
        if any(bool(np.any(np.asarray(block) != 0)) for block in blocks):
            raise MissingClosedForm(
                "the population loss has a closed form only while the zero blocks are zero: set init zero_blocks, or "
                "use engine moments or samples"
            )
    return population_forms(task, normalize, seed, dtype)


def population_forms(task: AbstractTask, normalize: Normalize, seed: int | Array, dtype: Any) -> PopulationEngine:
    """The engine for weights of which it is known that they stay within the reduced model; can be vmapped."""
    cov = task.covariance_matrix(seed)

    def collect(which: str) -> QuadraticForm:
        law = task.label_laws(seed, which)
        prefixes = task.prefixes and which == "train"
        lengths = range(1, task.context_len + 1) if prefixes else (task.context_len,)
        scales = [float(attention_scale(normalize, float(n))) for n in lengths]
        forms = [
            quadratic_form(law, cov, jnp.asarray(float(n)), jnp.asarray(scale))
            for n, scale in zip(lengths, scales, strict=True)
        ]
        return average(forms, dtype)

    return PopulationEngine(collect("train"), tuple(collect(which) for which in task.tests))
