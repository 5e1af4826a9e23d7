"""The scalar ODE (21): its integration, its closed form, its scales."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    HALF_LOSS,
    drop_duration,
    fixed_value,
    growth_rate,
    head_course,
    integrate_head,
    plateau_duration,
    time_to_reach,
)

cases = st.fixed_dictionaries(
    {
        "eigenvalue": st.floats(0.05, 2),
        "excess": st.floats(0, 2),  # the trace is at least the eigenvalue
        "context_len": st.integers(1, 60),
        "gain": st.floats(0.5, 40),
        "start": st.floats(1e-3, 0.9),
    }
)


def unpack(case):
    lam, trace = case["eigenvalue"], case["eigenvalue"] + case["excess"]
    sizes = (lam, trace, case["context_len"])
    v_star = fixed_value(*sizes, gain=case["gain"])
    return sizes, v_star, case["start"] * v_star, case["gain"]


@given(cases)
@settings(max_examples=30, deadline=None)
def test_closed_form_is_the_integrated_ode(case):
    sizes, v_star, v_0, gain = unpack(case)
    span = drop_duration(*sizes, v_0, gain=gain, progress=0.999) or 1 / growth_rate(*sizes, gain=gain)
    times = np.linspace(0, 1.5 * span, 60)
    exact = head_course(times, *sizes, v_0, gain=gain)
    np.testing.assert_allclose(integrate_head(*sizes, v_0, times, gain=gain), exact, rtol=1e-8)
    assert exact[0] == pytest.approx(v_0, rel=1e-13)
    assert (np.diff(exact) >= 0).all()
    assert exact[-1] <= v_star * (1 + 1e-15)


@given(cases)
@settings(max_examples=50, deadline=None)
def test_implicit_form_has_the_odes_slope_and_inverts(case):
    (lam, trace, context_len), v_star, v_0, gain = unpack(case)
    sizes = (lam, trace, context_len)
    v = np.linspace(v_0, 0.99 * v_star, 7)[1:]
    step = 1e-5 * v
    slope = (time_to_reach(v + step, *sizes, v_0, gain=gain) - time_to_reach(v - step, *sizes, v_0, gain=gain)) / (
        2 * step
    )
    speed = gain * lam**2 * v**2 - gain**2 * lam**3 * (1 + (1 + trace / lam) / context_len) * v**5
    np.testing.assert_allclose(slope * speed, 1, rtol=1e-5)
    back = head_course(time_to_reach(v, *sizes, v_0, gain=gain), *sizes, v_0, gain=gain)
    np.testing.assert_allclose(back, v, rtol=1e-11)


@given(cases)
@settings(max_examples=30, deadline=None)
def test_gain_stretches_values_and_time(case):
    sizes, _, v_0, gain = unpack(case)
    times = np.linspace(0, 10 / growth_rate(*sizes, gain=gain), 20)
    plain = head_course(times * gain ** (2 / 3), *sizes, v_0 * gain ** (1 / 3))
    np.testing.assert_allclose(head_course(times, *sizes, v_0, gain=gain) * gain ** (1 / 3), plain, rtol=1e-11)


def test_plateaus_last_one_over_lambda_squared_v_0():
    sizes = (0.3, 1.0, 31)
    starts = np.array([1e-2, 1e-3, 1e-4, 1e-5])
    lasts = np.array([drop_duration(*sizes, v, gain=31.0) for v in starts])
    leading = plateau_duration(0.3, starts, gain=31.0)
    # What is left over is the drop itself: it does not grow as v_0 shrinks.
    rest = (lasts - leading) * growth_rate(*sizes, gain=31.0)
    assert np.ptp(rest[1:]) < 1e-4
    assert np.polyfit(np.log(starts), np.log(lasts), 1)[0] == pytest.approx(-1, abs=5e-3)


def test_half_of_the_loss_is_gone_at_the_drop_time():
    sizes, v_0 = (0.3, 1.0, 31), 1e-3
    x = head_course(np.array([drop_duration(*sizes, v_0)]), *sizes, v_0)[0] / fixed_value(*sizes)
    assert x == pytest.approx(HALF_LOSS, rel=1e-10)
    assert (1 - x**3) ** 2 == pytest.approx(0.5, rel=1e-10)


def test_values_far_beyond_the_drop_and_far_before_it():
    sizes = (0.3, 1.0, 31)
    v_star = fixed_value(*sizes)
    late = head_course(np.array([0.0, 1e9]), *sizes, 1e-6)
    assert late[0] == pytest.approx(1e-6, rel=1e-12)
    assert late[1] == pytest.approx(v_star, rel=1e-14)
    early = head_course(np.array([1e3]), *sizes, 1e-6)[0]
    assert early == pytest.approx(1e-6 / (1 - 0.09 * 1e-6 * 1e3), rel=1e-12)


def test_starts_outside_the_ode_are_refused():
    for v_0 in (0.0, -0.1, 5.0):
        with pytest.raises(IclearnError, match="v_0 must lie between 0 and the fixed point"):
            head_course(np.array([1.0]), 0.3, 1.0, 31, v_0)
    assert drop_duration(0.3, 1.0, 31, 5.0) == 0.0
