"""The fast sums behind Γ* are those of the features, in any blocks, on the processor and on a device."""

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.models import GammaSums, solve_features, solve_gamma
from iclearn.models import ridge_solutions as module


def drawn(count: int, dim: int = 5, entries: int = 6):
    rng = np.random.default_rng(count)
    return rng.standard_normal((count, dim)), rng.standard_normal((count, entries)), rng.standard_normal(count)


def simple(queries, contexts, targets, ridge=0.0):
    features = (queries[:, :, None] * contexts[:, None]).reshape(len(targets), -1)
    return solve_features(features, targets, ridge / queries.shape[1]).reshape(queries.shape[1], -1)


@pytest.mark.parametrize("as_arrays", [np.asarray, jnp.asarray])
@pytest.mark.parametrize(("count", "ridge"), [(25, 0.0), (25, 0.2), (70, 0.0), (70, 0.2)])  # of 30 weights
def test_the_fast_path_is_the_simple_one(monkeypatch, as_arrays, count, ridge):
    """Blocks that do not fit the number of prompts, and a kernel that is padded, change nothing."""
    monkeypatch.setattr(module, "_DEVICE_ROWS", 32)
    monkeypatch.setattr(module, "_DEVICE_KERNEL", 16)
    prompts = drawn(count)
    found = solve_gamma(*(as_arrays(part) for part in prompts), ridge=ridge)
    np.testing.assert_allclose(np.asarray(found), simple(*prompts, ridge=ridge), rtol=1e-9, atol=1e-11)


def test_prompts_can_be_added_and_every_ridge_solved_for():
    prompts = drawn(900)  # more than a block of 256
    sums = GammaSums(5, 6)
    for start, end in ((0, 40), (40, 41), (41, 900)):
        sums.add(*(part[start:end] for part in prompts))
        for ridge in (0.0, 0.5):
            wanted = simple(*(part[:end] for part in prompts), ridge=ridge)
            np.testing.assert_allclose(sums.solve(ridge), wanted, rtol=1e-9, atol=1e-11)
    assert sums.count == 900


def test_fewer_prompts_than_weights_end_at_least_norm_by_their_sums_too():
    prompts = drawn(20)
    sums = GammaSums(5, 6)
    sums.add(*prompts)
    np.testing.assert_allclose(sums.solve(method="pinv"), solve_gamma(*prompts), rtol=1e-6, atol=1e-8)


def test_no_prompts_and_prompts_that_do_not_fit_are_refused():
    with pytest.raises(icl.IclearnError, match="no prompts yet"):
        GammaSums(2, 3).solve()
    queries, contexts, targets = drawn(8)
    with pytest.raises(icl.IclearnError, match="as many contexts and targets"):
        solve_gamma(queries, contexts[:7], targets)
