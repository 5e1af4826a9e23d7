"""What Python does for the page: train the setting that it shows, find plateaus, and hand over numbers to compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.recipe import Record
from ..core.rng import random_rotation, stream
from ..core.status import Status
from ..core.trace import Trace
from ..engines.simulate import simulate
from ..papers.li2024.measures import evaluate
from ..probes.plateaus import find_plateaus
from ..theory.base import theory_of
from .bundle import encoded
from .settings import Setting

_POINTS = 2000  # of the curve in which plateaus are looked for
_RECORDS, _DOCUMENTS = 21, 200  # at which, and on as many of which, a softmax layer is compared with a gradient step


def flat_weights(setting: Setting, trace: Trace) -> np.ndarray:
    """The final weights of a run in the eigenbasis of the inputs, in the page's order.

    Args:
        setting: one that the page can train.
        trace: its run.

    Returns:
        v of all heads, then keys and queries (head, rank, dim), or for merged attention U (head, dim, dim), the key's
        index first.
    """
    weights, dim = trace.weights(), len(setting.eigenvalues)
    basis = np.asarray(random_rotation(stream(setting.seed, "covariance"), dim))
    value = weights["value"][:, 0, -1]
    if setting.family == "merged":
        pairs = np.einsum("hji,ia,jb->hab", weights["kq"][:, :, :dim], basis, basis)
        return np.concatenate([value, pairs.ravel()])
    key, query = weights["key"][:, :, :dim] @ basis, weights["query"] @ basis
    return np.concatenate([value, key.ravel(), query.ravel()])


class Superseded(Exception):
    """A run that nobody waits for any more."""


def run_for_page(setting: Setting, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Train a setting and say what came out, as plain values for the page.

    Args:
        setting: any.
        wanted: asked every half second or so whether somebody still waits; if not, `Superseded` is raised.

    Returns:
        ``loss`` (and, where the page trains the same, ``weights``) as base64 of float64; ``plateaus``; the theory's
        ``levels`` and their ``names``; ``measures`` of a softmax layer beside a gradient step (`document_measures`);
        how the run ended (``sentence``), by which ``engine`` and in how many ``seconds``.

    >>> answer = run_for_page(Setting(eigenvalues=(0.6, 0.4), heads=2, steps=50))
    >>> answer["engine"], len(answer["levels"])
    ('population', 3)
    """
    recipe, documents = setting.recipe(), setting.kind == "documents"
    if documents:
        recipe = recipe.replace(record=Record(weights=_RECORDS, candidates=_RECORDS))
    begin = time.perf_counter()

    def look(step: int, steps: int, loss: float) -> None:
        if not wanted():
            raise Superseded

    trace = simulate(recipe, progress=look)
    loss = trace.loss.values.astype(float)
    thin = np.unique(np.linspace(0, len(loss) - 1, min(len(loss), _POINTS)).round().astype(int))
    try:
        found = () if trace.status is Status.DIVERGED else find_plateaus(loss[thin], time=thin).plateaus
    except IclearnError:  # too few steps, or a loss that rises
        found = ()
    theory = theory_of(recipe)
    levels = None if theory is None else theory.levels(recipe)
    return {
        "loss": encoded(loss),
        "weights": encoded(flat_weights(setting, trace)) if setting.in_page else "",
        "plateaus": [{"start": p.start, "end": p.end, "height": p.height} for p in found],
        "levels": [] if levels is None else np.asarray(levels.heights).tolist(),
        "names": [] if levels is None else list(levels.names),
        "measures": document_measures(trace) if documents and trace.status is not Status.DIVERGED else None,
        "sentence": trace.sentence,
        "engine": trace.provenance["engine"],
        "seconds": time.perf_counter() - begin,
    }


def document_measures(trace: Trace) -> dict[str, Any]:
    """A softmax layer beside one step of gradient descent, over its training, on documents it was not trained on.

    Args:
        trace: a run on softmax regression, with records.

    Returns:
        ``steps``, and there the layer's ``loss``, its relative distance ``apart`` from the gradient step's weights, and
        their ``cosine``; and of the gradient step its ``descent`` loss and its length ``eta``.
    """
    found = evaluate([trace.recipe], [trace], 1, _DOCUMENTS).isel(repetition=0)
    return {
        "steps": found["step"].values.tolist(), "loss": found["loss"].values.tolist(),
        "apart": (found["model_diff"] / found["gd_norm"]).values.tolist(), "cosine": found["model_cos"].values.tolist(),
        "descent": float(found["gd_loss"]), "eta": float(found["gd_lr"]),
    }  # fmt: skip
