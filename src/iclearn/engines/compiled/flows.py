"""Gradient flow by compiled code: the Runge-Kutta method that the loop in JAX uses, on the compiled gradient.

The tableau is that of diffrax, read from it. A step ends at every point at which the flow is read, so nothing has to be
interpolated. Late in training steps are as long as the largest curvature allows, however little happens; a flow then
takes hundreds of thousands of gradients, which are cheap here and are not in the loop.
"""

from __future__ import annotations

import functools

MOST_STEPS = 1_000_000  # between two points; a flow that needs more is given up
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # of the next step, as a share of the last one


@functools.cache
def tableau_source() -> str:
    """The method of order 8 of Dormand and Prince, as constants: whose last stage is the first one of the next step."""
    import diffrax

    tableau = diffrax.Dopri8.tableau
    assert tableau.fsal
    assert tableau.ssal
    rows = [[float(entry) for entry in row] for row in tableau.a_lower]
    table = [row + [0.0] * (len(rows) - len(row)) for row in rows]
    lines = [f"TABLE = np.array({table!r})", f"ERROR = np.array({[float(b) for b in tableau.b_error]!r})"]
    lines += [f"STAGES = {len(rows)}", f"POWER = {-1 / diffrax.Dopri8().order(None)!r}", "TINY = np.finfo(REAL).tiny"]
    return "\n".join(lines)


def flow_lines(num_weights: int, room: int) -> list[str]:
    """The body of ``flow(weights, numbers, interval, rtol, losses, records)``.

    Args:
        num_weights: how many weights there are.
        room: numbers that ``gradient`` needs room for.

    Returns:
        Lines that follow τẆ = −½ ∂L/∂W from `weights`, which are changed, and write the loss and the weights before
        each of as many intervals as there are losses. What follows a step that could not be made is NaN.
    """
    n = num_weights
    return f"""
    work, out = np.zeros({room}, REAL), np.empty({n}, REAL)
    slopes, now = np.empty((STAGES + 1, {n}), REAL), np.empty({n}, REAL)
    half, largest = REAL(-0.5), REAL(0)
    for i in range({n}):
        largest = max(largest, abs(weights[i]))
    atol, step = max(rtol * largest, TINY), interval
    for point in range(losses.size):
        losses[point] = gradient(weights, numbers, work, out)
        for i in range({n}):
            records[point, i] = weights[i]
            slopes[0, i] = half * out[i]
        time, tries = REAL(0), 0
        while time < interval:
            last = time + step >= interval
            length = interval - time if last else step
            for s in range(STAGES):
                for i in range({n}):
                    now[i] = weights[i]
                for j in range(s + 1):
                    factor = length * REAL(TABLE[s, j])
                    if factor != 0:
                        for i in range({n}):
                            now[i] += factor * slopes[j, i]
                gradient(now, numbers, work, out)
                for i in range({n}):
                    slopes[s + 1, i] = half * out[i]
            total = REAL(0)
            for i in range({n}):
                error = REAL(0)
                for j in range(STAGES + 1):
                    error += REAL(ERROR[j]) * slopes[j, i]
                share = length * error / (atol + rtol * max(abs(weights[i]), abs(now[i])))
                total += share * share
            norm = math.sqrt(total / {n})
            tries += 1
            if not norm < np.inf:
                factor = REAL({_LEAST})
            elif norm == 0:
                factor = REAL({_MOST})
            else:
                factor = REAL(min({_MOST}, max({_LEAST}, {_SAFETY} * norm ** POWER)))
            if norm <= 1:
                time = interval if last else time + length
                for i in range({n}):
                    weights[i] = now[i]
                    slopes[0, i] = slopes[STAGES, i]
                step = max(step, length * factor) if last else length * factor
            else:
                step = length * min(factor, REAL(1))
            if tries > {MOST_STEPS} or not step > 0:
                for i in range({n}):
                    weights[i] = np.nan
                break""".strip("\n").split("\n")
