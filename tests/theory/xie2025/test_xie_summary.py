"""The table a user asks for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from iclearn.core.errors import IclearnError, IclearnWarning
from iclearn.theory.xie2025 import Law, bayes_loss, gd_step, minimal_heads, optimum, step_matrix, summary


def test_the_summary_is_json_and_holds_the_numbers():
    table = summary(10, 10, 3)
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    assert [row["num_heads"] for row in table["heads"]] == list(range(1, 12))
    assert table["gd_from_mean"] == pytest.approx({"step": 10 / 21, "loss": 110 / 21}, rel=1e-12)
    assert table["gd_from_zero"] == pytest.approx({"step": 10 / 21, "loss": 19 * 11 / 21}, rel=1e-12)
    assert table["yq_lsa"]["loss"] == pytest.approx(110 / 21, rel=1e-12)
    assert table["gap"] == pytest.approx(18 / 102, rel=1e-12)
    assert table["optimum"] == table["heads"][-1]["loss"] == table["heads"][9]["loss"]
    assert table["minimal_heads"] == 10
    assert table["bayes"] == {"loss": 0.0, "standard_error": 0.0}
    observed = [row["num_heads"] for row in table["heads"] if "observed" in row["how"]]
    assert observed == list(range(1, 10))


def test_noise_and_chosen_heads():
    table = summary(4, 6, 1.0, noise=0.5, heads=[1, 7])
    assert [row["num_heads"] for row in table["heads"]] == [1, 7]
    assert table["bayes"]["loss"] == bayes_loss(Law.isotropic(4, 6, noise=0.5)).loss > 0
    assert table["gd_from_mean"]["step"] == pytest.approx(6 / 11.5)
    assert [row["num_heads"] for row in summary(4, 6, 1.0, heads=2)["heads"]] == [2]


@pytest.mark.slow
def test_large_sizes_cost_no_more():
    table = summary(200, 300, 5.0, heads=[1, 100, 199, 200])
    losses = [row["loss"] for row in table["heads"]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(200 * 201 / 501 + 50 / 60002, rel=1e-12)


@pytest.mark.parametrize("bad", [{"dim": 0}, {"context_len": 0}, {"prior_norm": -1.0}, {"noise": -0.1}, {"heads": 0}])
def test_impossible_sizes_are_refused(bad):
    with pytest.raises(IclearnError, match=r"at least [01]"):
        summary(**({"dim": 3, "context_len": 3, "prior_norm": 1.0} | bad))


def test_white_laws_of_any_size_need_no_factorization(monkeypatch):
    expected = summary(60, 20, 1.5)

    def small(function):
        def checked(matrix, *rest):
            assert matrix.shape[-1] < 60, f"{function.__name__} of a matrix of the size of the inputs"
            return function(matrix, *rest)

        return checked

    for name in ("solve", "inv", "eigvalsh", "eigh"):
        monkeypatch.setattr(np.linalg, name, small(getattr(np.linalg, name)))
    assert summary(60, 20, 1.5) == expected


def test_a_diagonal_law_gives_what_the_same_law_turned_gives():
    rng = np.random.default_rng(0)
    inputs, prior, mean = np.diag(rng.uniform(0.5, 2, 5)), np.diag(rng.uniform(0.5, 2, 5)), rng.normal(size=5)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    plain = Law(mean, 7, inputs, prior, 0.3)
    turned = Law(turn @ mean, 7, turn @ inputs @ turn.T, turn @ prior @ turn.T, 0.3)
    assert optimum(turned).loss == pytest.approx(optimum(plain).loss, rel=1e-12)
    assert gd_step(turned) == pytest.approx(gd_step(plain), rel=1e-12)
    assert minimal_heads(turned) == minimal_heads(plain)
    np.testing.assert_allclose(step_matrix(turned), turn @ step_matrix(plain) @ turn.T, atol=1e-12)


def test_what_takes_long_says_so_beforehand(monkeypatch):
    def begin(*_):
        raise InterruptedError

    monkeypatch.setattr(Law, "isotropic", begin)
    for sizes, words in [
        ((5000, 10, 1.0), r"dim 5000, context 10: about 25 s of work$"),
        ((1000, 1000, 1.0, 0.1), "context 1000: about 11 s of work, most of them for the Bayes loss"),
    ]:
        with pytest.warns(IclearnWarning, match=words), pytest.raises(InterruptedError):
            summary(*sizes)
