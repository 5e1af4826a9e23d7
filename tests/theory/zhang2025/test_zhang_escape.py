"""The blow-up of small heads by quadrature, against the same flow integrated as an ODE."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from iclearn.theory.zhang2025 import SmallHead

GROWN = 1e10  # the time left is then smaller than the time gone by as much


def integrated(head: SmallHead, rates: np.ndarray, until: float = np.inf) -> tuple[float, float, float]:
    """(time, θ, v) at `until` or when the head has grown by GROWN; time is inf if neither comes."""
    plus, minus = (head.plus**2).sum(0), (head.minus**2).sum(0)
    moving = rates > 0
    unit = float(np.sqrt(head.value**2 + (plus + minus)[moving].sum()))
    plus, minus, c = plus / unit**2, minus / unit**2, rates / rates.max()
    clock = unit * rates.max()

    def field(_, state):
        # In the stretched time s, ds = (size of the head) dt, the blow-up is an exponential.
        theta, v, _t = state
        growth = np.exp(np.clip(2 * c * theta, -700, 700))
        grown, shrunk = plus * growth, minus / growth
        size = np.sqrt(v**2 + ((grown + shrunk) * moving).sum())
        return [v / size, float((c * (grown - shrunk)).sum()) / 2 / size, 1 / size]

    def grown_up(_, state):
        return abs(state[1]) - GROWN

    def reached(_, state):
        return state[2] - until * clock if np.isfinite(until) else -1.0

    grown_up.terminal = reached.terminal = True
    start = [0.0, head.value / unit, 0.0]
    path = solve_ivp(field, (0, 1e4), start, "DOP853", events=(grown_up, reached), rtol=1e-12, atol=1e-15)
    theta, v, time = path.y[:, -1]
    return (time / clock if path.status == 1 else np.inf), theta / rates.max(), v * unit


def head_at_rest_nearby(head: SmallHead, rates: np.ndarray) -> bool:
    """Whether the head all but stops on the top of its hill: the answer hangs on the last digits of its weights."""
    a, b, c = (head.plus**2).sum(0), (head.minus**2).sum(0), rates
    theta = np.linspace(-60, 60, 4001) / c[c > 0].max()
    terms = a[:, None] * np.expm1(2 * np.outer(c, theta)) + b[:, None] * np.expm1(-2 * np.outer(c, theta))
    least = (head.value**2 + terms.sum(0) / 2).min()
    return abs(least) < 1e-5 * (head.value**2 + (a + b)[c > 0].sum())


@st.composite
def heads(draw):
    """A head of any signs, with components that are zero, and with widely different sizes of the others."""
    dim, rank = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([0.0, 1.0, 4.0]))

    def entries(*shape):
        return rng.normal(size=shape) * 10 ** rng.uniform(-spread, 0, shape) * (rng.uniform(size=shape) > 0.15)

    plus, minus = entries(rank, dim), entries(rank, dim)
    plus, minus = plus * draw(st.sampled_from([0, 1, 1, 1, 1])), minus * draw(st.sampled_from([0, 1, 1, 1, 1]))
    value = float(entries(1)[0]) * draw(st.sampled_from([1.0, -1.0]))
    rates = 10 ** rng.uniform(-1.5, 0, dim) * (rng.uniform(size=dim) > 0.2)
    rates[rng.integers(dim)] = 1.0
    scale = 10 ** draw(st.floats(-12, 3))
    assume(value != 0 or (rates * ((plus**2).sum(0) - (minus**2).sum(0))).any())
    return SmallHead(value * scale, plus * scale, minus * scale), rates


@given(heads(), st.floats(0.01, 0.95))
@settings(max_examples=150, deadline=None)
def test_quadrature_is_the_integrated_flow(case, share):
    head, rates = case
    assume(not head_at_rest_nearby(head, rates))
    end, sign = head.blow_up(rates)
    expected, _, v = integrated(head, rates)
    assert end == pytest.approx(expected, rel=1e-8)
    if np.isfinite(end):
        assert sign == np.sign(v)
    span = share * end if np.isfinite(end) else share / np.abs(head.value)
    later = head.after(span, rates)
    _, theta, v = integrated(head, rates, span)
    size = np.sqrt(later.value**2 + (later.plus**2 + later.minus**2).sum())
    assert later.value == pytest.approx(v, abs=1e-8 * size / (1 - share))
    np.testing.assert_allclose(later.plus, head.plus * np.exp(rates * theta), rtol=1e-7 / (1 - share))
    np.testing.assert_allclose(later.minus, head.minus * np.exp(-rates * theta), rtol=1e-7 / (1 - share))
    if np.isfinite(end):
        assert later.blow_up(rates)[0] == pytest.approx(end - span, rel=1e-8 / (1 - share))


def test_many_heads_are_each_as_alone():
    rng = np.random.default_rng(0)
    value, key, query = rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 2, 4)), rng.normal(size=(3, 5, 2, 4))
    rates = rng.uniform(0.1, 1, (3, 1, 4))
    many = SmallHead.from_weights(value, key, query)
    ends, signs = many.blow_up(rates)
    later = many.after(0.3 * ends, rates)
    for at in np.ndindex(3, 5):
        one = SmallHead.from_weights(value[at], key[at], query[at])
        end, sign = one.blow_up(rates[at[0], 0])
        assert ends[at] == pytest.approx(end, rel=1e-14)
        assert signs[at] == sign
        np.testing.assert_allclose(later.plus[at], one.after(0.3 * end, rates[at[0], 0]).plus, rtol=1e-13)


def test_one_pair_turns_or_not_as_its_invariants_say():
    """With one pair v² − k² and v² − q² are kept: v changes its sign on the way exactly if |v| < min(|k|, |q|)."""
    rates = np.array([1.0])
    for value, passes in ((-0.21, True), (-0.19, False)):
        head = SmallHead.from_weights(value, np.array([[0.2]]), np.array([[0.5]]))
        assert (head.blow_up(rates)[1] == np.sign(value)) == passes


def test_a_pair_against_its_value_has_a_closed_form():
    """k = q = κ and v: v² − κ² is kept, so v̇ = v² + κ² − v²; with E = κ² − v² > 0, t_b is π/2 − atan(v/√E) over √E."""
    for value in (-0.3, -0.01, 0.0, 0.05, 0.3):
        head = SmallHead.from_weights(value, np.array([[0.4]]), np.array([[0.4]]))
        root = np.sqrt(0.4**2 - value**2)
        assert head.blow_up(np.ones(1))[0] == pytest.approx((np.pi / 2 - np.arctan(value / root)) / root, rel=1e-11)


@pytest.mark.parametrize(("excess", "rel"), [(1e-2, 0.03), (1e-4, 3e-4), (1e-6, 1e-5), (1e-9, 1e-5)])
def test_over_the_top_or_back_from_it_takes_the_logarithm_of_what_is_missing(excess, rel):
    """k = 1, q = 2, v = −1 ∓ excess: the head lingers at v = k = 0, q = √3, which it leaves as e^{√3 t}.

    It stays ln(1/excess)/√3 and a constant, whichever side it leaves to.
    """
    for side in (1, -1):
        ends = [
            SmallHead.from_weights(-1 - side * e, np.array([[1.0]]), np.array([[2.0]])).blow_up(np.ones(1))[0]
            for e in (excess, excess / 10)
        ]
        assert ends[1] - ends[0] == pytest.approx(np.log(10) / np.sqrt(3), rel=rel)


def test_heads_that_never_leave():
    rates, pair, zero = np.array([1.0, 0.3]), np.array([[0.2, 0.1]]), np.zeros((1, 2))
    against = [
        SmallHead(0.0, zero, zero),
        SmallHead(0.5, zero, zero),  # nothing to grow
        SmallHead(0.0, pair, pair),  # at rest on the top
        SmallHead(0.5, zero, pair),  # all that is left shrinks, and v remains
        SmallHead.from_weights(0.2, np.array([[0.2, 0.0]]), np.array([[-0.2, 0.0]])),  # v = k = −q creeps to zero
    ]
    for head in against:
        assert head.blow_up(rates)[0] == np.inf
    drifting = against[3].after(1e3, rates)
    assert drifting.value == pytest.approx(np.sqrt(0.25 - (pair**2).sum() / 2), rel=1e-12)
    creeping = against[4].after(1e3, rates)
    assert creeping.value == pytest.approx(0.2 / (1 + 0.2 * 1e3), rel=1e-8)  # v̇ = −v²
