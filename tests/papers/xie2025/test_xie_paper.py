"""xie2025's figures: registered, drawn, and what they measure checked against something else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.core.recipe import Init
from iclearn.core.rng import stream
from iclearn.engines.simulate import simulate
from iclearn.models import LSA, LSATogether
from iclearn.papers.collect import load_paper
from iclearn.papers.xie2025 import (
    fig_covariance,
    fig_dynamics,
    fig_floor,
    fig_heads,
    fig_noise,
    fig_prior_mean,
    fig_training,
    setup,
)
from iclearn.papers.xie2025.examples import changed
from iclearn.papers.xie2025.gradient_noise import PROMPTS, gradient_deviations
from iclearn.papers.xie2025.judges import judge_cells, judge_optima
from iclearn.papers.xie2025.sampled_check import sampled_losses
from iclearn.papers.xie2025.setup import (
    DIM,
    YQ,
    exact_twin,
    law_of,
    online_recipe,
    paper_task,
    rest_of,
)
from iclearn.tasks.gram_moments import gram_form
from iclearn.theory.xie2025 import best_loss, gd_step, minimal_heads, optimal_weights, optimum

FIGURES = load_paper("xie2025").figures


def test_paper_is_registered_with_distinct_figures_and_claims() -> None:
    assert [f.id for f in FIGURES] == [
        "fig_heads", "fig_floor", "fig_prior_mean", "fig_guess", "fig_training", "fig_context", "fig_covariance",
        "fig_noise", "fig_bayes", "fig_dynamics",
    ]  # fmt: skip
    for figure in FIGURES:
        assert len({c.id for c in figure.claims}) == len(figure.claims)
        assert figure.setup
        assert all(c.reason for c in figure.claims)
    stated = {c.id for f in FIGURES for c in f.claims if c.source == "paper"}
    assert stated == {
        "no_more", "no_more_trained", "never_gd", "yq_is_gd", "yq_trained", "yq_trained_3", "yq_becomes_gd",
        "in_paper_steps", "others_do_not",
    }  # fmt: skip


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.id)
def test_figures_are_drawn_from_their_examples(example_of, figure) -> None:
    drawn = figure.draw(example_of(figure))
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in drawn.axes)
    plt.close(drawn)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.id)
def test_what_was_decided_with_data_in_view_is_in_the_register(figure) -> None:
    if not all(claim.before for claim in figure.claims):
        assert figure.choices


def test_the_sampled_recipe_is_the_papers() -> None:
    recipe = online_recipe(3.0, 0)
    assert (recipe.steps, recipe.optimizer.lr, recipe.optimizer.batch_size) == (5000, 5e-4, 2048)
    assert recipe.optimizer.rule == "adam"
    law = law_of(recipe.task)  # type: ignore[arg-type]
    assert np.linalg.norm(law.mean) == pytest.approx(3.0)
    assert np.array_equal(law.inputs, np.eye(10))


def test_initial_weights_have_the_papers_size() -> None:
    model = LSATogether((LSA(20),)).initial(paper_task(1.0), Init(0.1), 0, jnp.float32)
    assert float(jnp.std(model.q)) == pytest.approx(0.1, rel=0.05)


def test_one_seed_is_inconclusive_and_a_loss_below_the_optimum_contradicts() -> None:
    loss = xr.DataArray(np.full((2, 6), 1.0), dims=("norm", "seed"))
    assert judge_optima(loss, 1.0, 1e-3).verdict == "reproduced"
    assert judge_optima(loss.isel(seed=[0]), 1.0, 1e-3).verdict == "inconclusive"
    assert judge_optima(loss * 1.01, 1.0, 1e-3).verdict == "contradicted"
    assert judge_optima(loss, 1.00001, 1e-3).verdict == "contradicted"
    assert judge_cells(loss > 0, 0, finite=loss * np.nan).verdict == "failed"


def test_cells_that_still_fall_are_unfinished() -> None:
    data = fig_heads.example()
    falling = changed(data, "measured/late", lambda a: a + 0.01, member="11")
    falling = changed(falling, "measured/earlier", lambda a: a + 0.02, member="11")
    words = {c.id: c.judged(falling).verdict for c in fig_heads.FIGURE.claims}
    assert words["reached"] == "unfinished"
    assert words["reached_one"] == "reproduced"
    late = changed(fig_prior_mean.example(), "measured/late", lambda a: a + 0.02, member="yq", norm=3.0)
    late = changed(late, "measured/earlier", lambda a: a + 0.04, member="yq", norm=3.0)
    words = {c.id: c.judged(late).verdict for c in fig_prior_mean.FIGURE.claims}
    assert (words["yq_trained"], words["yq_trained_3"]) == ("reproduced", "unfinished")
    moving = fig_training.example()
    far = lambda a: a * 0 + 0.4 * (1.5 - a["record"] / 5000)  # noqa: E731
    moving = changed(moving, "path/guess_distance", far, seed=[0, 1])
    words = {c.id: c.judged(moving).verdict for c in fig_training.FIGURE.claims}
    assert (words["yq_becomes_gd"], words["in_paper_steps"]) == ("reproduced", "unfinished")


def test_gradient_deviations_are_those_of_autodiff() -> None:
    task, spec = paper_task(1.0), LSATogether((YQ, LSA(2)))
    group = spec.initial(task, Init(0.3), 0, jnp.float64)
    batch = task.fresh(0, jax.random.fold_in(stream(0, "check"), 2), PROMPTS, "float64")

    def gradient(prompt, target):
        return jax.grad(lambda model: jnp.sum((model.predict(prompt) - target) ** 2))(group)

    each = jax.lax.map(lambda pair: gradient(*pair), (batch.prompt, batch.target), batch_size=512)
    squares = jax.tree.map(lambda a: jnp.sqrt(jnp.mean(a**2, 0)), each)
    expected = sum(np.asarray(a).reshape(2, -1).sum(1) for a in jax.tree.leaves(squares))
    assert gradient_deviations(group, task) == pytest.approx(expected, rel=1e-7)  # last bits of float32 prompts


def test_rest_of_a_run_names_its_members_and_floor() -> None:
    trace = simulate(online_recipe(1.0, 3, (YQ, LSA(2)), 1e-3, batch_size=16, steps=100))
    found = rest_of(trace)
    assert {name: value.shape for name, value in found.items()} == dict.fromkeys(
        ("loss", "late", "earlier", "floor"), (2,)
    )
    sums = gradient_deviations(LSATogether((YQ, LSA(2))).rebuild(DIM, trace.weights()), paper_task(1.0))
    assert found["floor"] == pytest.approx(1e-3 / (4 * np.sqrt(16)) * sums)
    twin = exact_twin(online_recipe(1.0, 3, (YQ,)), 50)
    assert (twin.steps, twin.engine, twin.optimizer.batch_size, twin.seed) == (50, "population", None, 3)


def test_exact_training_ends_at_the_optimum_in_every_seed(monkeypatch) -> None:
    monkeypatch.setattr(setup, "STAGES", ((1e-2, 1500), (1e-3, 500)))
    task = paper_task(1.0, dim=2, context=3)
    losses, _ = setup.train_exactly(task, LSA(2), range(2))
    assert losses == pytest.approx([best_loss(law_of(task), 2).loss] * 2, rel=1e-5)
    guess = np.array([0.3, -0.2])
    losses, models = setup.train_exactly(task, LSA(2), range(2), guess)
    assert losses == pytest.approx([best_loss(law_of(task), 2, guess).loss] * 2, rel=1e-5)
    assert np.array_equal(np.asarray(models.guess), np.broadcast_to(guess, (2, 1, 2)))


def test_the_matched_prior_makes_plain_descent_optimal_and_no_other_here_does() -> None:
    for name in fig_covariance.CASES:
        law = law_of(fig_covariance.case_task(name))
        saved = gd_step(law, law.mean).loss - optimum(law).step_loss
        if name in fig_covariance.EVEN:
            assert abs(saved) < 1e-12
        else:
            assert saved > 0.05


def test_both_branches_of_the_heads_needed_are_met() -> None:
    needed = {minimal_heads(fig_noise.law(fig_noise.STRONG, m)) for m in fig_noise.LARGE}
    assert needed == {DIM, DIM + 1}


def test_the_exponents_of_the_floor_are_read_off() -> None:
    found = fig_floor.exponents(fig_floor.example())
    assert found == pytest.approx(np.broadcast_to([1.0, -0.5], (3, 2)), abs=0.08)


def test_a_flow_is_read_as_guess_step_and_loss() -> None:
    flow = fig_dynamics.readings([simulate(fig_dynamics.recipe(0.5, 1e-3, 7).replace(steps=256))], 0.5)
    early = float(np.interp(0.2, fig_dynamics.CLOCK, flow["guess"].values[0]))
    assert early == pytest.approx(1 - np.exp(-0.2), abs=3e-3)
    height, drops, time = fig_dynamics.plateau_of(fig_dynamics.example()[fig_dynamics.key(1e-9, 0.3)]["loss"].values[0])
    assert (height, drops) == (pytest.approx(DIM, rel=1e-4), 1)
    assert time == pytest.approx(np.log(1e9) / 3.2446, rel=0.01)


def test_predictions_lie_apart_by_the_root_of_the_difference_of_losses() -> None:
    """The gradient step from w* is the least squares solution, so that squared distances to it are loss differences."""
    task = paper_task(3.0)
    law, form = law_of(task), gram_form(task, 0, "float64")
    best, step = optimal_weights(law), optimal_weights(law, law.mean)
    models = [LSA(len(w.p), "given", tuple(w.guess)).rebuild(DIM, {"p": w.p, "q": w.q}) for w in (best, step)]
    difference = models[0].coefficients() - models[1].coefficients()
    squared = float(form(difference) - form(0 * difference)) + 2 * float(jnp.sum(_cross(form) * difference))
    assert np.sqrt(squared) == pytest.approx(fig_training.apart(DIM), rel=1e-9)


def _cross(form):
    """E[φ y_q], from the gradient of the loss at zero."""
    zero = jnp.zeros((form.moments.cross.size, 1))
    return -0.5 * jax.grad(lambda c: form(c))(zero)


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
