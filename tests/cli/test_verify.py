"""`iclearn verify`: golden files pass, and a file altered in one digit is told where."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.cli import main
from iclearn.papers.verifying import Verification, verify_file

DEPTH = ["ahn_l1_gd", "ahn_l3_adam", "oswald_l2_tied", "oswald_l2_interleaved", "oswald_l2_softmax_ln_mlp"]
ZHANG = ["merged_icl_mix", "mlp_cubic"]  # tests/engines/test_golden.py has them all
DIM, CONTEXT, PROMPTS, STEPS, LR = 2, 4, 10, 20, 0.05


@pytest.mark.parametrize("name", [*(f"depth/{name}" for name in DEPTH), *ZHANG])
def test_every_quantity_of_the_golden_files_is_recomputed(golden, name):
    found = verify_file(golden.path(name))
    wrong = {q.name: q.complaint() for q in found.quantities if not q.passed}
    assert not wrong
    loss = next(q for q in found.quantities if q.name == "loss")
    assert loss.tolerance == 1e-9
    arrays = set(golden(name))
    named = (
        {q.name for q in found.quantities}
        | set(found.inputs)
        | {"D"}
        | {q.name.split(".")[0] for q in found.quantities}
    )
    assert arrays <= named, "no array is passed over in silence"


def naive_loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Ahn's layer on the tokens as the README beside the golden files writes it: the loss, and predictions."""
    tokens = x
    for layer in weights:
        new = tokens
        for p, q in layer:
            wide = jnp.zeros((DIM + 1, DIM + 1))
            big_p, big_q = wide.at[:DIM, :DIM].set(p).at[DIM, DIM].set(1), wide.at[:DIM, :DIM].set(q)
            scores = jnp.einsum("bni,ij,bmj->bnm", tokens, big_q, tokens[:, :-1])
            new = new + jnp.einsum("bnm,ij,bmj->bni", scores, big_p, tokens[:, :-1]) / CONTEXT
        tokens = new
    predictions = -tokens[:, -1, -1]
    return jnp.mean((predictions - y) ** 2), predictions


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """A file of Ahn's layout by another program: the naive layer above, and gradient descent."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(PROMPTS, CONTEXT + 1, DIM)), rng.normal(size=(PROMPTS, DIM))
    y = np.einsum("bni,bi->bn", x, w)
    tokens, target = np.concatenate([x, y[..., None]], -1), y[:, -1].copy()
    tokens[:, -1, -1] = 0
    step = jax.jit(jax.value_and_grad(lambda v: naive_loss(v, jnp.asarray(tokens), jnp.asarray(target)), has_aux=True))
    weights, losses, kept, predictions = 0.1 * rng.normal(size=(2, 1, 2, DIM, DIM)), [], [], []
    start = weights
    for _ in range(STEPS):
        (loss, answer), gradient = step(jnp.asarray(weights))
        losses.append(float(loss))
        kept.append(weights)
        predictions.append(answer)
        weights = weights - LR * np.asarray(gradient)
    settings = {
        "code": "naive", "commit": "-", "torch": "-", "layers": 2, "heads": 1, "dim": DIM, "context_len": CONTEXT,
        "prompts": PROMPTS, "steps": STEPS, "init_std": 0.1, "optimiser": "gd", "lr": LR, "betas": None, "eps": 1e-8,
        "clip_global": None, "clip_each": None, "covariance": "identity", "zero_p": False, "halve_lr_every": None,
    }  # fmt: skip
    last = step(jnp.asarray(weights))[0][1]
    return {
        "x": tokens, "y_q": target, "weights": start, "loss": np.array(losses), "weights_end": weights,
        "weights_at": np.array([0, 7]), "weights_kept": np.stack([kept[0], kept[7]]),
        "pred_start": np.asarray(predictions[0]), "pred_end": np.asarray(last), "args": np.array(json.dumps(settings)),
    }  # fmt: skip


def verified(folder, arrays, **changes) -> Verification:
    np.savez(folder / "ahn_mine.npz", **(arrays | changes))
    return verify_file(folder / "ahn_mine.npz")


def altered(array: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """One value with another fourth digit."""
    new = array.copy()
    new[index] *= 1.001
    return new


def test_a_file_of_another_program_is_verified(tmp_path, arrays, capsys):
    assert verified(tmp_path, arrays).passed
    assert main(["verify", str(tmp_path / "ahn_mine.npz")]) == 0
    said = capsys.readouterr().out
    assert "loss" in said
    assert "tolerance 1e-09  ok" in said
    assert said.rstrip().endswith("verified")


@pytest.mark.parametrize(
    ("name", "index", "words"),
    [
        ("loss", (13,), "one number of loss was altered"),
        ("weights_end", (1, 0, 1, 0, 1), "one number of weights_end was altered"),
        ("pred_start", (3,), "one number of pred_start was altered"),
        ("x", (4, 2, 1), "the tokens of prompt 4 are not those of the run"),
        ("y_q", (6,), "a target (y_q) is not that of the run"),
        ("weights", (0, 0, 1, 0, 0), "it differs from the first step on"),
    ],
)
def test_one_altered_digit_is_found_and_named(tmp_path, arrays, capsys, name, index, words):
    found = verified(tmp_path, arrays, **{name: altered(arrays[name], index)})
    assert not found.passed
    assert words in found.conclusion()
    assert main(["verify", str(found.path)]) == 1
    said = capsys.readouterr().out
    assert "DIFFERS" in said
    assert f"NOT verified: {found.conclusion()}" in said
    if "one number" in words:
        quantity = next(q for q in found.quantities if q.name == name)
        assert quantity.beyond == [index], "the place"
        assert repr(float(quantity.given[index])) in said, "and the number"


def test_altered_settings_are_found(tmp_path, arrays):
    settings = json.loads(str(arrays["args"]))
    faster = verified(tmp_path, arrays, args=np.array(json.dumps(settings | {"lr": 0.051})))
    assert "agrees up to step 0: the settings of the update" in faster.conclusion()
    longer = verified(tmp_path, arrays, args=np.array(json.dumps(settings | {"context_len": 5})))
    assert "args.context_len" in longer.conclusion()


def test_files_that_cannot_be_verified_are_refused_in_one_line(tmp_path, arrays, capsys):
    def refusal(*files) -> str:
        assert main(["verify", *map(str, files)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == len(files)
        return said

    np.savez(tmp_path / "nobody_knows.npz", **arrays)
    assert "is none of merged*, separate*, mlp*, ahn*, oswald*" in refusal(tmp_path / "nobody_knows.npz")
    assert "no file" in refusal(tmp_path / "ahn_missing.npz")
    np.savez(tmp_path / "ahn_short.npz", **{k: v for k, v in arrays.items() if k != "weights_end"})
    assert "needs the array 'weights_end'" in refusal(tmp_path / "ahn_short.npz")
    whole = (tmp_path / "nobody_knows.npz").read_bytes()
    (tmp_path / "ahn_cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "ahn_text.npz").write_text("loss 1.0")
    assert "is not a readable .npz file" in refusal(tmp_path / "ahn_cut.npz", tmp_path / "ahn_text.npz")
    np.savez(tmp_path / "ahn_args.npz", **(arrays | {"args": np.array("{}")}))
    assert "args lacks the setting 'optimiser'" in refusal(tmp_path / "ahn_args.npz")
    np.savez(tmp_path / "ahn_shape.npz", **(arrays | {"pred_end": arrays["pred_end"][:-1]}))
    assert "pred_end has shape (9,), its layout means (10,)" in refusal(tmp_path / "ahn_shape.npz")
    np.savez(tmp_path / "ahn_bool.npz", **(arrays | {"weights": arrays["weights"] > 0}))
    assert "its arrays are not of the kinds and shapes of layout ahn" in refusal(tmp_path / "ahn_bool.npz")
    assert main(["verify"]) == 2


def test_values_that_are_no_numbers_are_differences(tmp_path, arrays):
    broken = arrays["loss"].copy()
    broken[3] = np.nan
    assert not verified(tmp_path, arrays, loss=broken).passed


def test_the_json_says_the_same(tmp_path, arrays, capsys):
    found = verified(tmp_path, arrays, loss=altered(arrays["loss"], (2,)))
    assert main(["verify", str(found.path), "--json"]) == 1
    (told,) = json.loads(capsys.readouterr().out)
    assert told["passed"] is False
    assert [row["quantity"] for row in told["quantities"] if not row["passed"]] == ["loss"]
