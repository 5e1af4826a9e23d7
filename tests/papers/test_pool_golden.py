"""`iclearn verify` on files of predictors: the golden one, one of another program, and altered ones."""

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.papers.verifying import verify_file

KINDS, DIM, TOKENS, PROMPTS, NOISE = ("latent", "pretrain"), 3, 5, 4, 0.5


def test_the_golden_predictors_are_recomputed(golden):
    found = verify_file(golden.path("diversity/predictors"))
    assert not {q.name: q.complaint() for q in found.quantities if not q.passed}
    assert set(golden("diversity/predictors")) <= {q.name for q in found.quantities} | set(found.inputs)
    tolerance = {q.name: q.tolerance * max(1.0, np.abs(q.ours).max()) for q in found.quantities}
    for name, most in [("dmmse_public", 1e-9), ("ridge_public_f32", 5e-5), ("ridge_own", 1e-10)]:
        assert tolerance[f"m128_latent_{name}"] == pytest.approx(most)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """A file of the layout, by loops in numpy."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(3, DIM))
    made: dict[str, np.ndarray] = {"noise_scale": np.array(NOISE), "m3_pool": pool}
    for kind in KINDS:
        x = rng.normal(size=(PROMPTS, TOKENS, DIM))
        w = rng.normal(size=(PROMPTS, DIM)) if kind == "latent" else pool[rng.integers(0, 3, PROMPTS)]
        truth = np.einsum("ptd,pd->pt", x, w)
        y = truth + NOISE * rng.normal(size=truth.shape)
        ridge, mixture, last = np.zeros_like(y), np.zeros_like(y), np.zeros_like(w)
        for p in range(PROMPTS):
            for t in range(TOKENS):
                a, b = x[p, :t], y[p, :t]
                ridge[p, t] = x[p, t] @ np.linalg.solve(a.T @ a + NOISE**2 * np.eye(DIM), a.T @ b)
                weights = np.exp([-np.sum((b - a @ v) ** 2) / (2 * NOISE**2) for v in pool])
                last[p] = weights @ pool / weights.sum()
                mixture[p, t] = x[p, t] @ last[p]
        both = {"ridge_own": ridge, "ridge_public_f32": ridge.astype(np.float32).astype(float)}
        named = {"x": x, "y": y, "w": w, "true": truth, "dmmse_public": mixture, "w_last_public": last, **both}
        made |= {f"m3_{kind}_{name}": values for name, values in named.items()}
    return made


def verified(folder, arrays, **changes):
    np.savez(folder / "predictors_mine.npz", **(arrays | changes))
    return verify_file(folder / "predictors_mine.npz")


def test_a_file_of_another_program_is_verified(tmp_path, arrays, capsys):
    assert verified(tmp_path, arrays).passed
    assert main(["verify", str(tmp_path / "predictors_mine.npz")]) == 0
    assert capsys.readouterr().out.rstrip().endswith("verified")


@pytest.mark.parametrize(
    ("name", "index", "words"),
    [
        ("m3_latent_dmmse_public", (1, 2), "one number of m3_latent_dmmse_public was altered"),
        ("m3_pretrain_ridge_own", (3, 4), "one number of m3_pretrain_ridge_own was altered"),
        (
            "m3_pretrain_w",
            (0, 1),
            "m3_pretrain_w was altered at [0]: all that differs (m3_pretrain_w, m3_pretrain_true)",
        ),
        ("m3_pool", (2, 0), "m3_pool was altered: all that differs (m3_latent_dmmse_public, "),
        ("m3_latent_x", (1, 2, 0), "m3_latent_x was altered at [1]"),
        ("noise_scale", (), "noise_scale was altered: all that differs (m3_latent_ridge_own"),
    ],
)
def test_altered_numbers_are_found(tmp_path, arrays, capsys, name, index, words):
    changed = arrays[name].copy()
    changed[index] *= 1.001
    found = verified(tmp_path, arrays, **{name: changed})
    assert not found.passed
    assert words in found.conclusion()
    assert main(["verify", str(found.path)]) == 1
    assert "NOT verified" in capsys.readouterr().out


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path, arrays, capsys):
    def refusal(**changes) -> str:
        kept = {name: values for name, values in (arrays | changes).items() if values is not None}
        np.savez(tmp_path / "predictors_bad.npz", **kept)
        assert main(["verify", str(tmp_path / "predictors_bad.npz")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "needs arrays such as m16_pool" in refusal(m3_pool=None)
    assert "needs the array 'm3_latent_y'" in refusal(m3_latent_y=None)
    assert "must be (sequence, token, dim)" in refusal(m3_latent_y=arrays["m3_latent_y"][:-1])
    other = {name.replace("m3", "m4"): values for name, values in arrays.items() if "m3_" in name}
    assert not verified(tmp_path, arrays, **other).passed, "a pool of three tasks is not m4"
