"""Prompts of in-context linear regression: their laws, exact corrections, mixes, test sets and prefixes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.prompt import Batch
from iclearn.tasks import Covariance, LinearRegression
from iclearn.tasks.regression import RegressionSource

SIGMAS = 5  # standard errors allowed; with some 10² numbers compared, a right program fails once in 10⁴ seeds
# Few shapes, so that few programs are compiled: a small set for exact statements, a large one for laws.
SMALL = LinearRegression(dim=2, context_len=4, num_prompts=30)
LARGE = SMALL.replace(num_prompts=12_000)


def everything(task: LinearRegression, seed: int = 0, which: str = "train", dtype=jnp.float64) -> Batch:
    batch = task.source(seed, dtype, which).everything()
    assert isinstance(batch, Batch)
    return batch


def task_vectors(batch: Batch) -> np.ndarray:
    """w of every prompt, (prompts, dim, output), by regression of the noiseless labels on the inputs."""
    x, y = np.asarray(batch.prompt.x), np.asarray(batch.prompt.y)
    gram = np.einsum("pni,pnj->pij", x, x)
    return np.linalg.solve(gram, np.einsum("pni,pno->pio", x, y))


def within(sample: np.ndarray, expected: np.ndarray | float, axis: int = 0) -> None:
    """The mean of independent samples along the axis is `expected` within SIGMAS standard errors."""
    error = sample.std(axis, ddof=1) / np.sqrt(sample.shape[axis])
    off = np.abs(sample.mean(axis) - expected) / error
    assert off.max() < SIGMAS, f"{off.max():.1f} standard errors away"


def test_inputs_and_tasks_have_their_closed_form_moments():
    prior = Covariance.matrix([[1.0, 0.4], [0.4, 2.0]])
    task = LARGE.replace(prior_mean=(1.0, -2.0), prior_covariance=prior)
    batch = everything(task)
    cov = np.asarray(task.covariance_matrix(0))
    np.testing.assert_allclose(np.linalg.eigvalsh(cov)[::-1], [2 / 3, 1 / 3], rtol=1e-12)
    x = np.concatenate([batch.prompt.x, batch.prompt.query[:, None]], 1)
    within(x, 0.0)
    within(np.einsum("pti,ptj->ptij", x, x), cov)
    within(np.einsum("pi,pj->pij", x[:, 0], x[:, -1]), 0.0)
    w = task_vectors(batch)[:, :, 0]
    within(w, np.array(task.prior_mean))
    centered = w - np.array(task.prior_mean)
    within(np.einsum("pi,pj->pij", centered, centered), np.array(prior.parameters).reshape(2, 2))
    within(np.einsum("pi,pj->pij", w - w.mean(0), x[:, 0]), 0.0)
    np.testing.assert_allclose(batch.target[:, 0], np.einsum("pi,pi->p", w, x[:, -1]), atol=1e-9)
    np.testing.assert_allclose(batch.weight, 1 / 12_000)
    assert bool(batch.prompt.mask.all())


def test_noise_is_on_the_context_labels_alone():
    clean, noisy = everything(LARGE), everything(LARGE.replace(noise=0.25))
    np.testing.assert_array_equal(clean.prompt.x, noisy.prompt.x)
    np.testing.assert_array_equal(clean.target, noisy.target)
    noise = np.asarray(noisy.prompt.y - clean.prompt.y)[:, :, 0]
    within(noise, 0.0)
    within(noise**2, 0.25)
    within(noise[:, 0] * noise[:, 1], 0.0)
    within(noise * np.asarray(clean.prompt.y)[:, :, 0], 0.0)


@pytest.mark.parametrize("out_dim", [1, 2])
def test_centering_and_whitening_are_exact(out_dim):
    prior = Covariance.matrix([[2.0, 0.5], [0.5, 1.0]])
    plain = SMALL.replace(out_dim=out_dim, center=True, whiten=True)
    for task, mean, cov in [
        (plain, np.zeros(2), np.eye(2)),
        (plain.replace(prior_mean=(3.0, -1.0), prior_covariance=prior), [3.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]),
    ]:
        batch = everything(task)
        x = np.concatenate([batch.prompt.x, batch.prompt.query[:, None]], 1)
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-14)
        w = task_vectors(batch)
        for output in range(out_dim):
            np.testing.assert_allclose(w[:, :, output].mean(0), mean, atol=1e-10)
            np.testing.assert_allclose(np.cov(w[:, :, output], rowvar=False), cov, atol=1e-10)


def test_centering_and_whitening_hold_over_many_blocks():
    task = LARGE.replace(center=True, whiten=True)
    assert task.source(0, jnp.float64).num_blocks == 3
    batch = everything(task)
    np.testing.assert_allclose(np.asarray(batch.prompt.x).mean(0), 0, atol=1e-14)
    w = task_vectors(batch)[:, :, 0]
    np.testing.assert_allclose(w.mean(0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(w, rowvar=False), np.eye(2), atol=1e-10)


def test_corrections_are_off_by_default():
    batch = everything(SMALL)
    assert np.abs(np.asarray(batch.prompt.x).mean(0)).max() > 1e-3
    assert np.abs(np.cov(task_vectors(batch)[:, :, 0], rowvar=False) - np.eye(2)).max() > 1e-3


@pytest.mark.parametrize(("fraction", "own"), [(0.6, 18), (0.29, 8), (0.01, 0), (1.0, 30)])
def test_a_mix_has_its_share_of_own_task_vectors_first(fraction, own):
    task = SMALL.replace(in_context=fraction, center=True)
    w = task_vectors(everything(task))[:, :, 0]
    shared = w[own:]
    np.testing.assert_allclose(shared, np.broadcast_to(shared[:1], shared.shape), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(shared, axis=1), np.sqrt(2), atol=1e-9)
    distinct = np.linalg.norm(w[:own, None] - w[None, :own], axis=-1)[np.triu_indices(own, 1)]
    assert (distinct > 1e-6).all()


def test_in_weight_prompts_have_noise_for_labels_and_the_fixed_task_for_a_target():
    task = LARGE.replace(in_context=0.0)
    batch = everything(task)
    y, x = np.asarray(batch.prompt.y)[:, :, 0], np.asarray(batch.prompt.x)
    within(y, 0.0)
    within(y**2, 1.0)
    within(y[:, :, None] * x, 0.0)
    within(y * np.asarray(batch.target), 0.0)
    query = np.asarray(batch.prompt.query)
    w, residual, _, _ = np.linalg.lstsq(query, np.asarray(batch.target)[:, 0], rcond=None)
    assert residual[0] < 1e-20
    np.testing.assert_allclose(np.linalg.norm(w), np.sqrt(2), rtol=1e-10)


def test_test_sets_are_in_weight_and_in_context_whatever_the_training_set():
    mix = SMALL.replace(in_context=0.5, test_prompts=30, center=True)
    assert mix.tests == ("in_weight", "in_context")
    assert mix.replace(test_prompts=0).tests == ()
    shared = task_vectors(everything(mix))[-1, :, 0]
    in_weight, in_context = (everything(mix, which=which) for which in mix.tests)
    np.testing.assert_allclose(in_weight.target[:, 0], np.asarray(in_weight.prompt.query) @ shared, atol=1e-9)
    w = task_vectors(in_context)[:, :, 0]
    np.testing.assert_allclose(np.cov(w, rowvar=False), np.eye(2), atol=1e-9, err_msg="public code whitens it")
    for batch in (in_weight, in_context):
        assert batch.target.shape == (30, 1)
        np.testing.assert_allclose(np.asarray(batch.weight).sum(), 1)
        np.testing.assert_allclose(np.asarray(batch.prompt.x).mean(0), 0, atol=1e-14)
    assert np.abs(np.asarray(in_weight.prompt.x) - np.asarray(in_context.prompt.x)).max() > 0.1
    assert np.abs(np.asarray(in_weight.prompt.x) - np.asarray(everything(mix).prompt.x)).max() > 0.1


def test_raw_mixes_have_raw_test_sets():
    raw = SMALL.replace(in_context=0.5, test_prompts=30)
    w = task_vectors(everything(raw, which="in_context"))[:, :, 0]
    assert np.abs(np.cov(w, rowvar=False) - np.eye(2)).max() > 1e-3


def test_the_fixed_task_depends_on_the_seed_and_not_on_the_mix():
    def fixed(seed, fraction):
        return task_vectors(everything(SMALL.replace(in_context=fraction), seed))[-1, :, 0]

    np.testing.assert_allclose(fixed(0, 0.25), fixed(0, 0.75), atol=1e-9)
    assert np.abs(fixed(0, 0.5) - fixed(1, 0.5)).max() > 1e-2


def test_outputs_are_labels_of_independent_task_vectors():
    batch = everything(LARGE.replace(out_dim=2))
    assert batch.target.shape == (12_000, 2)
    w = task_vectors(batch)
    np.testing.assert_allclose(batch.target, np.einsum("pio,pi->po", w, batch.prompt.query), atol=1e-8)
    within(np.einsum("pio,pjq->poiqj", w, w), np.einsum("oq,ij->oiqj", np.eye(2), np.eye(2)))


def test_prefixes_are_the_same_prompts_cut_short():
    source = SMALL.replace(noise=0.3, prefixes=True).source(3, jnp.float64)
    whole = source.everything()
    cut = source.everything(4)
    assert isinstance(whole, Batch)
    assert isinstance(cut, Batch)
    assert cut.target.shape == (120, 1)
    np.testing.assert_allclose(np.asarray(cut.weight), 1 / 120)
    _, _, truth, _ = eqx.filter_jit(RegressionSource.labeled)(source, jnp.asarray(0))
    x = np.concatenate([whole.prompt.x, whole.prompt.query[:, None]], 1)
    parts = [jax.tree.map(lambda a, n=n: np.asarray(a)[30 * (n - 1) : 30 * n], cut) for n in range(1, 5)]
    for n, part in enumerate(parts, 1):
        np.testing.assert_array_equal(part.prompt.mask, np.tile(np.arange(4) < n, (30, 1)))
        np.testing.assert_array_equal(part.prompt.x, whole.prompt.x)
        np.testing.assert_array_equal(part.prompt.y, whole.prompt.y)
        np.testing.assert_array_equal(part.prompt.query, x[:, n])
        np.testing.assert_allclose(part.target, np.asarray(truth)[:30, n], atol=1e-14)
    np.testing.assert_allclose(parts[-1].target, whole.target, atol=1e-14)  # the longest is the prompt itself


TASKS = [
    SMALL.replace(center=True, whiten=True, noise=0.1),
    SMALL.replace(in_context=0.4, center=True, out_dim=2),
]


@pytest.mark.parametrize("task", TASKS)
def test_prompts_are_the_same_alone_jitted_and_vmapped_over_seeds(task):
    seeds = jnp.arange(3)
    together = jax.jit(jax.vmap(lambda seed: task.source(seed, jnp.float64).everything()))(seeds)
    for lane in range(3):
        alone = everything(task, lane)
        jax.tree.map(lambda a, b, i=lane: np.testing.assert_allclose(a[i], b, atol=1e-13), together, alone)
    assert np.abs(np.asarray(together.prompt.x[0] - together.prompt.x[1])).max() > 0.1


@pytest.mark.parametrize("task", [SMALL, LARGE])
def test_blocks_join_to_the_whole_set(task):
    source, count = task.source(0, jnp.float64), task.num_prompts
    block = eqx.filter_jit(RegressionSource.block)
    blocks = [block(source, jnp.asarray(i)) for i in range(source.num_blocks)]
    joined = jax.tree.map(lambda *a: np.concatenate(a), *blocks)
    np.testing.assert_allclose(joined.weight.sum(), 1, rtol=1e-12)
    np.testing.assert_array_equal(joined.weight[count:], 0)
    whole = everything(task)
    assert len(whole.weight) == count
    np.testing.assert_allclose(whole.prompt.x, joined.prompt.x[:count], atol=1e-14)
    assert len(np.unique(np.asarray(whole.prompt.query)[:, 0])) > 0.99 * count, "no block comes twice"


@pytest.mark.parametrize("task", TASKS)
def test_float32_and_float64_runs_see_the_same_prompts(task):
    wide, narrow = everything(task), everything(task, dtype=jnp.float32)
    assert narrow.prompt.x.dtype == narrow.target.dtype == narrow.weight.dtype == jnp.float32
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), narrow, wide)


def test_fresh_prompts_follow_the_same_law():
    task = SMALL.replace(num_prompts=None, noise=0.2, covariance=Covariance.spiked(3.0))
    fresh = jax.jit(lambda key: task.fresh(0, key, 12_000, jnp.float64))
    batch = fresh(jax.random.key(1))
    assert isinstance(batch, Batch)
    np.testing.assert_allclose(np.asarray(batch.weight).sum(), 1)
    query = np.asarray(batch.prompt.query)
    within(np.einsum("pi,pj->pij", query, query), np.asarray(task.covariance_matrix(0)))
    within(np.asarray(batch.target)[:, 0] ** 2, 1.0)  # E (w·x)² = tr Λ
    within(np.asarray(batch.prompt.y)[:, :, 0] ** 2, 1.2)
    again = fresh(jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, batch, again)
    other = fresh(jax.random.key(2))
    assert np.abs(np.asarray(other.target - batch.target)).max() > 0.1


def test_infinitely_many_prompts_are_no_fixed_set():
    with pytest.raises(IclearnError, match="infinitely many prompts: there is no fixed set to draw"):
        LinearRegression(num_prompts=None).source(0, jnp.float64)


REFUSED = [
    ({"dim": 0}, "dim must be at least 1, not 0"),
    ({"context_len": 0}, "context_len must be at least 1, not 0"),
    ({"out_dim": 0}, "out_dim must be at least 1, not 0"),
    ({"num_prompts": 0}, "num_prompts (None for infinitely many) must be at least 1, not 0"),
    ({"test_prompts": -1}, "test_prompts must be at least 0, not -1"),
    ({"in_context": 1.5}, "the fraction of in-context prompts must be between 0 and 1, not 1.5"),
    ({"in_context": float("nan")}, "the fraction of in-context prompts must be between 0 and 1, not nan"),
    ({"noise": -0.1}, "the noise variance must be finite and not negative, not -0.1"),
    ({"noise": float("inf")}, "the noise variance must be finite and not negative, not inf"),
    ({"prior_mean": (1.0,)}, "the prior mean has 1 entries for dim 4"),
    ({"prior_mean": (1.0, 0.0, 0.0, float("nan"))}, "the prior mean must be finite, not [1.0, 0.0, 0.0, nan]"),
    (
        {"prior_mean": (0.0,) * 4, "in_context": 0.5},
        "a prior over task vectors needs in_context = 1: the mix has its own fixed task vector",
    ),
    (
        {"whiten": True, "in_context": 0.5},
        "task vectors can be whitened only where every prompt has its own (in_context = 1)",
    ),
    ({"whiten": True, "num_prompts": 4}, "whitening needs more than 4 prompts, not 4"),
    ({"whiten": True, "test_prompts": 4}, "whitening needs more than 4 test prompts, not 4"),
    ({"in_context": 0.5, "center": True, "test_prompts": 3}, "whitening needs more than 4 test prompts, not 3"),
    (
        {"prefixes": True, "in_context": 0.0},
        "prefixes need labels that follow the task; with in_context = 0 they are noise",
    ),
    ({"prior_covariance": Covariance.eigenvalues([1.0])}, "1 eigenvalues were given for dim 4"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[m[:45] for _, m in REFUSED])
def test_refused_with_one_line(fields, message):
    with pytest.raises(IclearnError) as caught:
        LinearRegression(**fields)
    assert str(caught.value) == message
