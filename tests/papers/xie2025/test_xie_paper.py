"""xie2025's figures: registered, drawn, and judges that can say no."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.core.recipe import Init
from iclearn.models import LSA, LSATogether
from iclearn.papers.collect import load_paper
from iclearn.papers.xie2025 import (
    fig_bayes,
    fig_context,
    fig_covariance,
    fig_dynamics,
    fig_guess,
    fig_heads,
    fig_noise,
    fig_prior_mean,
    fig_training,
)
from iclearn.papers.xie2025.sampled_check import sampled_losses
from iclearn.papers.xie2025.setup import CONTEXT, DIM, HEADS, NAMES, NORMS, law_of, online_recipe, paper_task
from iclearn.tasks.gram_moments import gram_form
from iclearn.theory.xie2025 import Law, bayes_loss, best_loss, gd_step, optimal_weights, optimum

STEP = DIM * (DIM + 1) / (CONTEXT + DIM + 1)


def verdicts(figure, data) -> dict[str, str]:
    return {v.claim: v.verdict for v in figure.judge("xie2025", data)}


def all_reproduced(figure, data) -> None:
    for verdict in figure.judge("xie2025", data):
        assert verdict.verdict == "reproduced", (verdict.claim, verdict.measured)
    plt.close(figure.draw(data))


def ideal(norm: float) -> np.ndarray:
    law = Law.isotropic(DIM, CONTEXT, norm)
    return np.array([STEP, *(best_loss(law, h).loss for h in HEADS)])


def measured() -> xr.DataArray:
    """What three seeds of training should give: the optima and half a percent of noise above them."""
    rng = np.random.default_rng(0)
    table = np.stack([ideal(m) * (1.002 + 0.0005 * rng.uniform(size=(3, 7))) for m in NORMS])
    return xr.DataArray(
        table, dims=("norm", "seed", "member"), coords={"norm": list(NORMS), "member": [str(n) for n in NAMES]}
    )


def heads_data() -> dict:
    exact = np.stack([fig_heads.theory(m) for m in NORMS])
    values = measured()
    checked = values.sel(norm=list(fig_heads.CHECKED)).isel(seed=0)
    check = xr.Dataset(
        {"loss": (("norm", "member"), checked.values + 0.002), "error": (("norm", "member"), np.full((3, 7), 0.002))}
    )
    return {
        "exact": xr.DataArray(
            exact, dims=("norm", "member"), coords={"norm": list(NORMS), "member": list(fig_heads.ALL_HEADS)}
        ),
        "measured": values,
        "check": check,
    }


def test_paper_is_registered_with_distinct_figures_and_claims() -> None:
    paper = load_paper("xie2025")
    assert [f.id for f in paper.figures] == [
        "fig_heads", "fig_prior_mean", "fig_guess", "fig_training", "fig_context", "fig_covariance", "fig_noise",
        "fig_bayes", "fig_dynamics",
    ]  # fmt: skip
    for figure in paper.figures:
        assert len({c.id for c in figure.claims}) == len(figure.claims)
        assert figure.setup
    stated = {c.id for f in paper.figures for c in f.claims if c.source == "paper"}
    assert {"no_more", "never_gd", "yq_is_gd"} <= stated


def test_the_sampled_recipe_is_the_papers() -> None:
    recipe = online_recipe(3.0, 0)
    assert (recipe.steps, recipe.optimizer.lr, recipe.optimizer.batch_size) == (5000, 5e-4, 2048)
    assert recipe.optimizer.rule == "adam"
    law = law_of(recipe.task)  # type: ignore[arg-type]
    assert np.linalg.norm(law.mean) == pytest.approx(3.0)
    assert np.array_equal(law.inputs, np.eye(10))


def test_heads_judged() -> None:
    all_reproduced(fig_heads.FIGURE, heads_data())
    more = heads_data()
    more["measured"].loc[{"member": "20"}] -= 0.05
    assert verdicts(fig_heads.FIGURE, more)["no_more"] == "contradicted"
    assert verdicts(fig_heads.FIGURE, more)["reached"] == "contradicted"
    reaches = heads_data()
    reaches["measured"].loc[{"member": "20", "norm": 3.0}] = STEP
    assert verdicts(fig_heads.FIGURE, reaches)["never_gd"] == "contradicted"
    fewer = heads_data()
    fewer["exact"].loc[{"member": 9, "norm": 3.0}] = fewer["exact"].sel(member=10, norm=3.0)
    assert verdicts(fig_heads.FIGURE, fewer)["exactly_d"] == "contradicted"
    assert verdicts(fig_heads.FIGURE, fewer)["few_heads"] == "contradicted"
    biased = heads_data()
    biased["check"]["loss"][1, 2] += 0.02
    assert verdicts(fig_heads.FIGURE, biased)["sampled"] == "contradicted"


def prior_data() -> dict:
    table = []
    for m in fig_prior_mean.GRID:
        law = Law.isotropic(DIM, CONTEXT, m)
        table.append([STEP + 1e-7, best_loss(law, 1).loss, best_loss(law, DIM).loss])
    exact = xr.DataArray(
        np.array(table), dims=("norm", "member"), coords={"norm": list(fig_prior_mean.GRID), "member": ["yq", "1", "d"]}
    )
    return {"exact": exact, "measured": measured()}


def test_prior_mean_judged() -> None:
    all_reproduced(fig_prior_mean.FIGURE, prior_data())
    doctored = prior_data()
    doctored["exact"].loc[{"member": "d"}] += 0.02
    found = verdicts(fig_prior_mean.FIGURE, doctored)
    assert found["slope"] == found["size"] == "contradicted"
    doctored = prior_data()
    doctored["exact"].loc[{"member": "yq", "norm": 10.0}] += 0.01
    doctored["measured"].loc[{"member": "yq", "norm": 3.0}] += 0.1
    found = verdicts(fig_prior_mean.FIGURE, doctored)
    assert found["yq_is_gd"] == found["yq_trained"] == "contradicted"


def test_guess_judged() -> None:
    loss = np.array([[fig_guess.theory(o, h) for h in fig_guess.HEAD_COUNTS] for o in fig_guess.OFFSETS])
    table = xr.Dataset(
        {
            "loss": (("offset", "num_heads"), loss),
            "descent": ("offset", [fig_guess.descent(o) for o in fig_guess.OFFSETS]),
        },
        {"offset": list(fig_guess.OFFSETS), "num_heads": list(fig_guess.HEAD_COUNTS)},
    )
    all_reproduced(fig_guess.FIGURE, {"table": table})
    wrong = table.copy(deep=True)
    wrong["loss"][3] += 0.1
    wrong["descent"][1] *= 1 + 1e-9
    assert set(verdicts(fig_guess.FIGURE, {"table": wrong}).values()) == {"contradicted"}


def test_context_judged() -> None:
    data = {which: fig_context.expected(which) * (1 + 1e-6) for which in ("contexts", "dims")}
    all_reproduced(fig_context.FIGURE, data)
    for factor in (0.999, 1.002):
        wrong = {which: table * np.array([1, 1, factor]) for which, table in data.items()}
        assert set(verdicts(fig_context.FIGURE, wrong).values()) == {"contradicted"}


def test_covariance_judged() -> None:
    data = {"loss": fig_covariance.theory()[:, :2] * (1 + 1e-7)}
    all_reproduced(fig_covariance.FIGURE, data)
    plain = fig_covariance.theory()
    wrong = {"loss": np.stack([plain[:, 2], plain[:, 1]], 1)}  # as if yq-LSA were the plain gradient step
    assert set(verdicts(fig_covariance.FIGURE, wrong).values()) == {"contradicted"}


def test_the_matched_prior_makes_plain_descent_optimal_and_no_other_here_does() -> None:
    for name in fig_covariance.CASES:
        law = law_of(fig_covariance.case_task(name))
        saved = gd_step(law, law.mean).loss - optimum(law).step_loss
        if name in ("Λ = Σ = I", "Σ matched"):
            assert abs(saved) < 1e-12
        else:
            assert saved > 0.05


def test_noise_judged() -> None:
    losses = []
    for noise in fig_noise.NOISES:
        best = optimum(fig_noise.law(noise))
        losses.append([best.step_loss, best.loss, best.loss])
    data = {"loss": np.array(losses)}
    all_reproduced(fig_noise.FIGURE, data)
    wrong = {"loss": data["loss"] * np.array([1, 1.001, 1.002])}
    assert set(verdicts(fig_noise.FIGURE, wrong).values()) == {"contradicted"}


def test_bayes_judged() -> None:
    curves = np.array([[bayes_loss(fig_bayes.law(c, n)).loss for c in fig_bayes.CONTEXTS] for n in fig_bayes.NOISES])
    at = curves[:, fig_bayes.CONTEXTS.index(CONTEXT)]
    assert at[1:] == pytest.approx([1.62808, 2.85513], abs=1e-5)
    table = xr.Dataset(
        {"sampled": ("noise", at), "error": ("noise", [0.0, 0.01, 0.01]), "bayes": (("noise", "context"), curves)},
        {"noise": list(fig_bayes.NOISES), "context": list(fig_bayes.CONTEXTS)},
    )
    all_reproduced(fig_bayes.FIGURE, {"table": table})
    wrong = table.copy(deep=True)
    wrong["sampled"][1] += 0.05
    wrong["bayes"][2] *= 3
    assert set(verdicts(fig_bayes.FIGURE, {"table": wrong}).values()) == {"contradicted"}


def flow_trace(norm: float, guess_time: float, step_time: float) -> SimpleNamespace:
    """A yq-LSA whose guess and step are half learned at these times."""
    record = np.arange(0, fig_dynamics.STEPS + 1, 10)
    time = record * fig_dynamics.END / fig_dynamics.STEPS
    guess = np.outer(1 - 0.5 ** (time / guess_time), np.full(DIM, norm / np.sqrt(DIM)))
    eta = (1 - 0.5 ** (time / step_time)) * CONTEXT / (CONTEXT + DIM + 1)
    q = np.zeros((len(time), 1, DIM + 1, DIM + 1))
    q[:, 0, :DIM, :DIM] = eta[:, None, None] * np.eye(DIM)
    p = np.zeros((len(time), 1, DIM + 1))
    p[:, 0, -1] = 1
    data = xr.Dataset(
        {
            "weight_guess": (("record", "input"), guess),
            "weight_p": (("record", "head", "entry"), p),
            "weight_q": (("record", "head", "entry", "query_entry"), q),
        },
        {"record": record},
    )
    return SimpleNamespace(
        data=data, final_loss=STEP * 1.001, loss=xr.DataArray(np.linspace(9, STEP, fig_dynamics.STEPS))
    )


def test_dynamics_judged() -> None:
    def flows(swap: bool) -> dict:
        found = {}
        for scale, norms in fig_dynamics.SWEEPS.items():
            for norm in norms:
                early = (norm < fig_dynamics.crossover(scale)) != swap
                found[fig_dynamics.key(scale, norm)] = [
                    flow_trace(norm, *((np.log(2), 2.0) if early else (3.0, 1.0)))
                ] * 2
        return found

    all_reproduced(fig_dynamics.FIGURE, flows(swap=False))
    wrong = flows(swap=True)
    wrong[fig_dynamics.key(1e-3, 4.0)][0].final_loss = 1.2 * STEP
    assert set(verdicts(fig_dynamics.FIGURE, wrong).values()) == {"contradicted"}


def test_growth_rate_without_a_mean_is_the_root_of_dim() -> None:
    assert fig_dynamics.growth_rate(1e-9, 0.0) == pytest.approx(np.sqrt(DIM), rel=1e-6)
    assert fig_dynamics.crossover(1e-6) > fig_dynamics.crossover(1e-3)


def training_data() -> dict:
    names = [str(n) for n in fig_training.SHOWN]
    record, seeds = np.array([0, 2500, 5000]), 3
    shape = (seeds, len(names), 3)
    distance = np.full(shape, 3.0)
    distance[:, 0, 1:], distance[:, 1:, 1:] = 0.05, 0.5
    cosine = np.where(distance < 0.1, 0.9999, 0.9)
    dims = ("seed", "member", "record")
    path = xr.Dataset(
        {
            "prediction": (dims, distance), "prediction_error": (dims, 0.01 * distance), "cosine": (dims, cosine),
            "sensitivity": (dims, distance), "loss": (dims, 5.3 + distance),
            "guess_distance": (("seed", "record"), np.full((seeds, 3), 0.1)),
            "start_distance": (("seed", "record"), np.full((seeds, 3), 0.1)),
            "step": (("seed", "record"), np.full((seeds, 3), 0.475)),
        },
        {"record": record, "member": names},
    )  # fmt: skip
    guess = np.full((seeds, 3, DIM), 2.3)
    large = xr.Dataset(
        {
            "slow_loss": (("seed", "record"), np.full((seeds, 3), 13.9)),
            "fast_loss": (("seed", "record"), np.full((seeds, 3), 5.26)),
            "slow_guess": (("seed", "record", "input"), guess), "fast_guess": (("seed", "record", "input"), guess),
        },
        {"record": record},
    )  # fmt: skip
    best = np.stack([ideal(m) for m in NORMS])
    return {"path": path, "large": large, "twins": best + 0.001, "sampled": np.repeat(best[:, None] + 0.002, seeds, 1)}


def test_training_judged() -> None:
    all_reproduced(fig_training.FIGURE, training_data())
    wrong = training_data()
    wrong["path"]["prediction"][:] = 1.0
    wrong["large"]["slow_loss"][:] = 5.3
    wrong["twins"] = wrong["twins"] - 0.01
    assert set(verdicts(fig_training.FIGURE, wrong).values()) == {"contradicted"}


def test_control_variates_sharpen_and_do_not_bias() -> None:
    task = paper_task(3.0)
    best = optimal_weights(law_of(task))
    rng = np.random.default_rng(0)
    q = best.q + 0.004 * rng.normal(size=best.q.shape)
    weights = {"p": best.p[None], "q": q[None], "guess": np.zeros((1, DIM))}
    spec = LSATogether((LSA(DIM),))
    model = spec.rebuild(DIM, {n: jnp.asarray(w, jnp.float32) for n, w in weights.items()})
    exact = float(gram_form(task, 0, "float64")(spec.rebuild(DIM, weights).coefficients()))
    loss, error = sampled_losses(model, task, 1 << 16, 0)
    assert abs(loss[0] - exact) < 4 * error[0]
    assert error[0] < 0.3 * np.sqrt(2) * exact / 256  # a squared Gaussian error alone would have √2·loss/√prompts


def test_initial_weights_have_the_papers_size() -> None:
    model = LSATogether((LSA(20),)).initial(paper_task(1.0), Init(0.1), 0, jnp.float32)
    assert float(jnp.std(model.q)) == pytest.approx(0.1, rel=0.05)
