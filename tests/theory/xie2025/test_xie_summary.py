"""The table a user asks for."""

from __future__ import annotations

import json

import pytest

from iclearn.core.errors import IclearnError
from iclearn.theory.xie2025 import Law, bayes_loss, summary


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
