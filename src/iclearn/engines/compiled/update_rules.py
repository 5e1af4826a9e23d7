"""The update rules of `engines.optimizers` as lines of source, for one run or for a block of runs side by side.

Gradient descent has its learning rate in the form already, so it takes the gradient as it is. Rules with a memory read
lr, momentum and weight decay from `hyper`.
"""

from __future__ import annotations

from ..contractions import Sizes

MEMORY = {"gd": 0, "sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # numbers kept for every weight
HYPER = ("lr", "momentum", "weight_decay")


def update_source(sizes: Sizes, rule: str, lanes: int) -> str:
    """The function ``update(weights, gradient, memory, hyper, step)``, which changes weights and memory in place.

    Args:
        sizes: how many weights there are.
        rule: name of the rule.
        lanes: runs side by side.

    Returns:
        Its source without a decorator; optax's formulas, with its defaults for Adam.
    """
    count = sizes.num_weights * lanes
    lane = "" if lanes == 1 else " % LANES"
    lr, momentum, decay = (f"hyper[{i * lanes} + n{lane}]" if lanes > 1 else f"hyper[{i}]" for i in range(3))
    lines = [f"def update(weights, gradient, memory, hyper, step):{_bias(rule)}"]
    if rule in ("gd", "sgd"):
        body = ["weights[n] -= gradient[n]"]
    elif rule == "momentum":
        body = [f"trace = gradient[n] + {momentum} * memory[n]", "memory[n] = trace", f"weights[n] -= {lr} * trace"]
    else:
        body = [
            "first = ONE_TENTH * gradient[n] + NINE_TENTHS * memory[n]",
            f"second = SMALL * gradient[n] * gradient[n] + LARGE * memory[{count} + n]",
            "memory[n] = first",
            f"memory[{count} + n] = second",
            "move = first / bias_first / (math.sqrt(second / bias_second) + EPSILON)",
        ]
        if rule == "adamw":
            body.append(f"move += {decay} * weights[n]")
        body.append(f"weights[n] -= {lr} * move")
    lines += [f"    for n in range({count}):", *(f"        {line.replace(' % LANES', f' % {lanes}')}" for line in body)]
    return "\n".join(lines) + "\n"


def _bias(rule: str) -> str:
    if rule not in ("adam", "adamw"):
        return ""
    return "\n    bias_first = REAL(1.0 - 0.9 ** (step + 1.0))\n    bias_second = REAL(1.0 - 0.999 ** (step + 1.0))"


def constants_source(dtype: str) -> str:
    """The constants of Adam in the precision of the run."""
    values = {"ONE_TENTH": "1 - 0.9", "NINE_TENTHS": "0.9", "SMALL": "1 - 0.999", "LARGE": "0.999", "EPSILON": "1e-8"}
    return f"REAL = np.{dtype}\n" + "".join(f"{name} = REAL({value})\n" for name, value in values.items())
