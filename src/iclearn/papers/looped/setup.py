"""What looped trains and computes: recipes, and tables of optima, of trained ends and of layers looped on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.trace import Trace
from ...models.transformer import LinearTransformer
from ...tasks.covariance import Covariance
from ...tasks.regression import LinearRegression
from ...tasks.varied_regression import VariedRegression
from ...theory.depth import krylov, loop_exponent, looped_losses, sample_spectra, tied_descent, tied_gdpp

DIM = 5
LOOPS = (1, 2, 3, 4, 6, 8)
CONTEXTS = (10, 20, 50, 100, 200, 500, 1000)
SPECTRUM = (1.0, 1.0, 0.25, 0.0625, 1.0)  # of the inputs' covariance, rotated; Σ_w = Σ⁻¹
TRAINED = {"L = 2, N = 20": (2, 20), "L = 2, N = 200": (2, 200)}
CASES = tuple(TRAINED)
STEPS, GDPP_STEPS = 24_000, 4000
SPECTRA, SAMPLED_CONTEXT = 40_000, 20
RUN_ON = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
GDPP_LOOPS = (2, 4)  # loops that GD++ is trained for
DESCENT_LOOPS = 4  # and gradient descent


def matrix_recipe(case: str, seed: int) -> Recipe:
    """A looped layer of gradient descent with a full matrix on the population loss, inputs of covariance Σ."""
    layers, context = TRAINED[case]
    task = VariedRegression(
        dim=DIM, context_len=context, covariance=Covariance.eigenvalues(SPECTRUM, rotate=True), inverse_prior=True,
        num_prompts=None,
    )  # fmt: skip
    optimizer = Optimizer("adam", lr=0.05, halve_every=STEPS // 8)
    model = LinearTransformer(layers=layers, blocks="gd", tied=True)
    return Recipe(
        task=task, model=model, init=Init(1e-2), optimizer=optimizer, steps=STEPS, seed=seed, record=Record(2, 2)
    )


def gdpp_recipe(loops: int, seed: int) -> Recipe:
    """A looped layer of GD++ with scalar weights on the population loss."""
    task = LinearRegression(
        dim=DIM, context_len=SAMPLED_CONTEXT, covariance=Covariance.white(trace=None), num_prompts=None
    )
    optimizer = Optimizer("adam", lr=0.02, betas=(0.9, 0.9), halve_every=GDPP_STEPS // 8)
    model = LinearTransformer(layers=loops, scalar=True, tied=True)
    return Recipe(
        task=task, model=model, init=Init(0.3), optimizer=optimizer, steps=GDPP_STEPS, seed=seed, record=Record(2, 2)
    )


def measured(traces: Sequence[Trace]) -> xr.Dataset:
    """Where trained matrices end, as M = Σ^½ A Σ^½, which is a*I at a*Σ⁻¹ and I at Σ⁻¹."""
    rows = []
    for index, trace in enumerate(traces):
        layers, context = list(TRAINED.values())[index * len(TRAINED) // len(traces)]
        values, vectors = np.linalg.eigh(trace.data["covariance"].values)
        root = vectors * np.sqrt(values) @ vectors.T
        end = root @ trace.weights(-1)["a"][0, 0] @ root
        best = tied_descent(DIM, context, layers)
        rows.append((*shares(end, best.steps[0]), trace.final_loss / best.loss - 1))
    return ends_table(np.array(rows).reshape(len(TRAINED), -1, 4))


def shares(end: np.ndarray, step: float) -> tuple[float, float, float]:
    """‖M − a*I‖/‖a*I‖, ‖M − I‖/‖I‖ and ‖M − Mᵀ‖/2‖M‖."""
    eye, norm = np.eye(len(end)), np.linalg.norm
    return (
        float(norm(end - step * eye) / norm(step * eye)), float(norm(end - eye) / norm(eye)),
        float(norm(end - end.T) / 2 / norm(end)),
    )  # fmt: skip


def ends_table(rows: np.ndarray) -> xr.Dataset:
    names = ("distance", "inverse", "turn", "excess")
    variables = {name: (("case", "seed"), rows[..., i]) for i, name in enumerate(names)}
    return xr.Dataset(variables, {"case": list(TRAINED), "seed": np.arange(rows.shape[1])})


def optima() -> xr.Dataset:
    """The best looped and the best untied step sizes: exact, over loops and context lengths."""
    sizes = [(context, loops) for context in CONTEXTS for loops in LOOPS]
    shape = (len(CONTEXTS), len(LOOPS))
    best = [tied_descent(DIM, *size) for size in sizes]
    untied = [krylov(DIM, *size).loss for size in sizes]
    gdpp = [tied_gdpp(DIM, SAMPLED_CONTEXT, loops).loss for loops in LOOPS if 1 < loops <= 4]
    axes = ("context", "loops")
    return xr.Dataset(
        {
            "step": (axes, np.array([b.steps[0] for b in best]).reshape(shape)),
            "tied": (axes, np.array([b.loss for b in best]).reshape(shape)),
            "untied": (axes, np.array(untied).reshape(shape)),
            "gdpp": ("gdpp_loops", np.array(gdpp)),
        },
        {"context": list(CONTEXTS), "loops": list(LOOPS), "gdpp_loops": [loop for loop in LOOPS if 1 < loop <= 4]},
    )


def run_on(steps: np.ndarray, curvature: np.ndarray) -> xr.Dataset:
    """Trained layers looped beyond their loops, over the same sampled spectra.

    Args:
        steps: (trained loops, seed) η.
        curvature: (trained loops, seed) γ.
    """
    spectra = sample_spectra(DIM, SAMPLED_CONTEXT, SPECTRA)
    some = spectra[:4000]  # medians need no more
    median = np.array([
        [medians(some, float(eta), float(gamma)) for eta, gamma in zip(*pair, strict=True)]
        for pair in zip(steps, curvature, strict=True)
    ])  # fmt: skip
    rate = tied_descent(DIM, SAMPLED_CONTEXT, DESCENT_LOOPS).steps[0]
    plain = [looped_losses(spectra, rate, 0.0, loops) for loops in RUN_ON if loops <= 64]
    axes = ("trained_loops", "seed")
    return xr.Dataset(
        {
            "median": ((*axes, "run_loops"), median),
            "power": (axes, np.vectorize(loop_exponent)(steps, curvature)),
            "descent_median": ("descent_loops", [float(np.median(losses)) for losses in plain]),
            "descent_mean": ("descent_loops", [float(np.mean(losses)) for losses in plain]),
        },
        {
            "trained_loops": list(GDPP_LOOPS), "seed": np.arange(steps.shape[1]), "run_loops": list(RUN_ON),
            "descent_loops": [loops for loops in RUN_ON if loops <= 64],
        },
    )  # fmt: skip


def medians(spectra: np.ndarray, eta: float, gamma: float) -> list[float]:
    return [float(np.median(looped_losses(spectra, eta, gamma, loops))) for loops in RUN_ON]
