"""Numbers that are known beforehand: those of the notes' own networks, and those of the paper's notebook figures."""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """The least and the largest of three seeds."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def _range(low: float, high: float | None = None) -> Range:
    return Range(low, low if high is None else high)


# Error over d without a shift: position → range over three seeds (8192 prompts).
STANDARD: dict[str, dict[int, Range]] = {
    "SMALL": {
        0: _range(0.983), 1: _range(0.797, 0.799), 2: _range(0.624, 0.625), 3: _range(0.399, 0.401),
        4: _range(0.243, 0.251), 5: _range(0.112, 0.120), 6: _range(0.046, 0.056), 7: _range(0.024, 0.029),
        8: _range(0.013, 0.017), 9: _range(0.010, 0.015), 10: _range(0.009, 0.017),
    },
    "MEDIUM": {
        1: _range(0.884), 2: _range(0.759), 4: _range(0.521), 6: _range(0.266), 7: _range(0.161),
        8: _range(0.090, 0.093), 9: _range(0.050), 10: _range(0.028), 12: _range(0.010), 14: _range(0.0045, 0.007),
        16: _range(0.0027, 0.0069),
    },
}  # fmt: skip
# Excess error over d of networks trained with σ = .5, on their own law.
NOISY = {5: _range(0.262, 0.275), 10: _range(0.078, 0.085)}
# Error over d at ⌊d/2⌋, d and 2d pairs, mean of three seeds (2048 prompts); None where there is no query.
Cells = tuple[float | None, float | None, float | None]
SHIFTED: dict[str, dict[str, Cells]] = {
    "SMALL": {
        "standard": (0.603, 0.100, 0.012), "half_subspace": (0.064, 0.019, 0.015), "skewed": (0.349, 0.068, 0.023),
        "scale_x=0.333": (0.066, 0.014, 0.003), "scale_x=0.5": (0.151, 0.030, 0.004), "scale_x=2": (2.74, 0.72, 0.30),
        "scale_x=3": (6.3, 3.3, 2.2), "scale_y=0.5": (0.153, 0.028, 0.003), "scale_y=2": (2.49, 0.57, 0.15),
        "scale_y=3": (6.3, 2.4, 1.1), "noisyLR": (0.857, 0.840, 0.444), "random_quadrants": (0.606, 0.148, 0.038),
        "opposite_quadrants": (0.298, 0.073, 0.024), "orthogonal_train_test": (0.995, None, None),
        "overlapping_train_test": (0.006, 0.007, 0.005), "prior_mean=1": (1.25, 0.22, 0.025),
        "prior_mean=2": (3.14, 0.73, 0.165), "noise=0.5": (0.658, 0.380, 0.146),
        "condition_number=100": (0.143, 0.037, 0.022), "input_mean=1": (0.907, 0.187, 0.058),
    },
    "MEDIUM": {
        "standard": (0.480, 0.089, 0.005), "half_subspace": (0.066, 0.030, 0.033), "skewed": (0.195, 0.141, 0.201),
        "scale_x=0.333": (0.058, 0.014, 0.001), "scale_x=0.5": (0.116, 0.026, 0.002), "scale_x=2": (2.18, 0.64, 0.14),
        "scale_x=3": (6.2, 3.4, 1.8), "scale_y=0.5": (0.126, 0.023, 0.002), "scale_y=2": (1.95, 0.52, 0.09),
        "scale_y=3": (5.0, 2.3, 1.1), "noisyLR": (0.703, 0.677, 0.322), "random_quadrants": (0.502, 0.234, 0.071),
        "opposite_quadrants": (0.255, 0.092, 0.033), "orthogonal_train_test": (0.985, None, None),
        "overlapping_train_test": (0.002, 0.005, 0.002), "prior_mean=1": (1.01, 0.20, 0.012),
        "prior_mean=2": (2.61, 0.73, 0.136), "noise=0.5": (0.591, 0.263, 0.092),
        "condition_number=100": (0.138, 0.047, 0.030), "input_mean=1": (0.658, 0.184, 0.039),
    },
}  # fmt: skip
# Bayes ridge, d = 5, σ = .5, positions 0 to 10.
BAYES_RIDGE = (1.0, 0.8144, 0.6370, 0.4739, 0.3337, 0.2277, 0.1568, 0.1123, 0.0839, 0.0659, 0.0533)
# Error over d at d and 2d pairs, by layers (d = 5).
DEPTH_ERRORS = {1: (0.80, 0.83), 2: (0.33, 0.17), 4: (0.116, 0.013)}
# Predictors on 20 dimensions: class → predictor → {pairs: error over the normalizer}, and the standard errors noted.
BASELINES: dict[str, dict[str, dict[int, float]]] = {
    "sparse": {
        "Lasso 0.01": {5: 0.71, 8: 0.20, 10: 0.08, 15: 0.001, 20: 0.0}, "Lasso 0.1": {5: 0.70, 8: 0.22, 10: 0.13, 15: 0.028, 20: 0.017},
        "Lasso 1": {5: 0.76, 8: 0.53, 10: 0.63, 15: 0.55, 20: 0.50}, "least squares": {5: 0.85, 8: 0.51, 10: 0.48, 15: 0.24, 20: 0.0},
    },
    "relu": {
        "least squares": {10: 1.19, 50: 0.82, 100: 0.67}, "3-NN": {10: 0.64, 20: 0.60, 50: 0.50, 100: 0.47},
        "network GD": {10: 0.59, 20: 0.46, 50: 0.31, 100: 0.16}, "arc-cosine GP": {10: 0.56, 20: 0.44, 50: 0.23, 100: 0.14},
    },
    "tree": {
        "greedy tree": {10: 2.0, 20: 1.8, 50: 1.4, 100: 0.92}, "greedy tree on signs": {10: 1.6, 20: 1.8, 50: 1.0, 100: 0.58},
        "3-NN": {10: 1.1, 20: 1.1, 50: 1.2, 100: 0.88},
    },
}  # fmt: skip
BASELINE_ERRORS = {"sparse": 0.05, "relu": 0.03, "tree": 0.13}
