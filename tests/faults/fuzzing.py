"""Random recipes, command lines and damaged files: each is accepted or refused in one line, and none hangs.

python tests/faults/fuzzing.py --count 100000 [--seed 0] [--report FILE.json]

Seven tenths are recipes, an eighth command lines, the rest damaged files; one recipe in 400 that is accepted is also
trained.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from iclearn import Recipe, simulate
from iclearn.cli import main as command_line
from iclearn.core.errors import IclearnError
from iclearn.core.registry import SPECS
from iclearn.core.trace import Trace
from iclearn.models import Attention
from iclearn.store.npz import dataset_from, read_npz, weights_from
from iclearn.sweeps.api import plan_from_file
from iclearn.tasks import LinearRegression

SECONDS = 60  # longer is a hang
HOSTILE: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 5, 1e-300, 1e300, 0.5, -0.5, float("nan"), float("inf"), -float("inf"),
    2**31, 2**63,
    10**30, "", "no", "linear", "auto", "../../etc/passwd", "inf", "é\u202e", "x" * 300, [], [1], [0.5, 0.5], [1, "a"],
    [[1.0]], {}, {"kind": "covariance"}, {"kind": "nothing"}, {"a": 1}, "float32", "adam", "separate", "population",
]  # fmt: skip
FLAGS: dict[str, tuple[str, ...]] = {
    "train": (
        "--model", "--heads", "--rank", "--init", "--dim", "--out_dim", "--seq_len", "--context", "--prompts",
        "--icl", "--noise",
        "--eigenvalues", "--prior-mean", "--lr", "--epoch", "--engine", "--dtype", "--optimizer", "--batch-size",
        "--recipe",
        "--dataset", "--weights", "--set", "--softmax", "--vary_len", "--device", "--covariance",
        "--covariance-parameters",
        "--seed", "--normalize", "--head", "--trainset_size", "--KQ_dim", "--nonsense", "--momentum", "--weight-decay",
    ),
    "theory": ("zhang2025", "xie2025", "li2024", "--dim", "--context", "--heads", "--rank", "--init",
    "--eigenvalues", "--nonsense"),
    "list": (".", "--json", "--out", "--nonsense", "nowhere"),
    "show": ("nowhere", ".", "--json", "--nonsense"),
    "reproduce": ("nothing", "--nonsense", "zhang2025 fig99", "--seeds", "--workers", "--out"),
    "sweep": ("nowhere.yaml", "status", "--preset", "--chunk", "--workers", "--dry-run", "--path", "--retries"),
}  # fmt: skip
VALUES = (
    "0", "1", "2", "3", "-1", "0.5", "1e-3", "nan", "inf", "-inf", "1e300", "abc", "", "attnM", "attnS", "merged",
    "mlp", "linear",
    "0.5 0.5", "1 2 3", "population", "moments", "samples", "float32", "float64", "gd", "adam", "flow",
    "missing.npz", "task.dim=2",
    "model.nothing=1", "task=", "99999999999", "true", "cpu", "é", "--", "-",
)  # fmt: skip
SMALL = "--epoch 3 --trainset_size 8 --seq_len 5"  # of equal flags the last counts; hostile values come first


class Hang(BaseException):
    """A case took longer than `SECONDS`."""


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def a_recipe(rng: np.random.Generator, valid: list[dict[str, Any]]) -> str:
    """A valid recipe with one to three fields, at any depth, replaced, left out, doubled or added."""
    found = json.loads(json.dumps(pick(rng, valid)))
    for _ in range(int(rng.integers(1, 4))):
        place = found
        while nested := [key for key, value in place.items() if isinstance(value, dict)]:
            if rng.random() < 0.4:
                break
            place = place[pick(rng, nested)]
        names = list(place) or ["x"]
        what = rng.random()
        if what < 0.7:
            place[pick(rng, names)] = pick(rng, HOSTILE)
        elif what < 0.8:
            place.pop(pick(rng, names), None)
        elif what < 0.9:
            place[str(pick(rng, HOSTILE))[:20]] = pick(rng, HOSTILE)
        elif names and "kind" in place:
            place["kind"] = pick(rng, [*SPECS.names(), "nothing"])
    text = json.dumps(found)
    return text if rng.random() < 0.95 else text[: int(rng.integers(len(text)))]


def try_recipe(text: str, train: bool) -> str:
    try:
        recipe = Recipe.from_json(text)
    except IclearnError as error:
        return one_line(str(error))
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe, "it does not come back from JSON"
    assert again.hash == recipe.hash, "its hash does not come back from JSON"
    repr(recipe), recipe.describe()
    sizes = (recipe.task.dim, getattr(recipe.task, "context_len", 1), getattr(recipe.model, "num_heads", 1) or 1)
    if not (train and max(sizes) <= 8 and (recipe.task.num_prompts or 0) <= 1000):
        return "accepted"
    try:
        trace = simulate(recipe.replace(steps=min(recipe.steps, 20)))
    except IclearnError as error:
        return one_line(str(error)).replace("refused", "refused when trained")
    assert trace.status.label == "diverged" or np.isfinite(trace.loss).all(), "NaN, and it did not say so"
    return "trained"


def one_line(text: str) -> str:
    assert text.strip(), "an error without a word"
    assert "Traceback" not in text, "a traceback inside an error"
    assert len(text) < 4000, "an error of pages"
    return "refused"


def a_line(rng: np.random.Generator, folder: Path) -> list[str]:
    command = pick(rng, ["train"] * 4 + list(FLAGS))
    words = []
    for _ in range(int(rng.integers(0, 5))):
        words += pick(rng, FLAGS[command]).split() + pick(rng, VALUES).split() * int(rng.integers(0, 3))
    if command == "train":
        words += [*SMALL.split(), "--out", str(folder / "runs")]
    if command == "sweep":
        words += ["--dry-run"]
    return [command, *words]


def try_line(words: list[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command_line(words)
        except SystemExit as leave:
            code = leave.code
    assert code in (0, 1, 2, 130, None), f"exit code {code}"
    assert "Traceback" not in err.getvalue() + out.getvalue(), "a traceback was printed"
    assert code != 2 or err.getvalue().strip(), "refused without a word"
    return f"exit {code or 0}"


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    found = bytearray(data)
    what = rng.random()
    if what < 0.5 and found:  # one bit
        found[int(rng.integers(len(found)))] ^= 1 << int(rng.integers(8))
    elif what < 0.7:
        found = found[: int(rng.integers(len(found) + 1))]
    elif what < 0.85:
        at = int(rng.integers(len(found) + 1))
        found[at:at] = rng.bytes(int(rng.integers(1, 40)))
    else:
        found = bytearray(rng.bytes(int(rng.integers(0, 200))))
    return bytes(found)


class Files:
    """Sound files of every kind that is read, and what must be read from them or refused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        recipe = Recipe(task=LinearRegression(dim=2, context_len=3, num_prompts=20), model=Attention(), steps=5)
        self.trace = simulate(recipe)
        self.run = folder / "sound.zarr"
        self.trace.save(self.run)
        self.npz = folder / "sound.npz"
        np.savez(self.npz, x=np.ones((4, 5, 2)), y=np.ones((4, 5, 1)))
        self.yaml = folder / "sound.yaml"
        base = Recipe(task=LinearRegression(dim=2, num_prompts=None), model=Attention("separate_reduced"), steps=5)
        spec = {"name": "s", "base": base.to_dict(), "axes": {"init.scale": [0.1, 0.2]}, "seeds": 2}
        self.yaml.write_text(json.dumps(spec))

    def attempt(self, rng: np.random.Generator) -> str:
        kind = pick(rng, ["run", "npz", "yaml"])
        broken = self.folder / f"broken{self.run.suffix if kind == 'run' else '.' + kind}"
        if kind == "run":
            shutil.rmtree(broken, ignore_errors=True)
            shutil.copytree(self.run, broken)
            victim = pick(rng, sorted(p for p in broken.rglob("*") if p.is_file()))
            victim.unlink() if rng.random() < 0.1 else victim.write_bytes(damaged(rng, victim.read_bytes()))
            return self.outcome(lambda: Trace.load(broken), lambda found: found.equals(self.trace))
        broken.write_bytes(damaged(rng, getattr(self, kind).read_bytes()))
        if kind == "npz":
            reader = pick(rng, [dataset_from, weights_from])
            return self.outcome(lambda: reader(read_npz(broken)), lambda found: True)
        return self.outcome(lambda: plan_from_file(broken), lambda found: True)

    def outcome(self, read: Callable[[], Any], sound: Callable[[Any], bool]) -> str:
        try:
            found = read()
        except IclearnError as error:
            return one_line(str(error))
        assert sound(found), "other numbers were read, and nothing was said"
        return "read"


def fuzz(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Try `count` cases; what became of them, and the text of every failure (seed and number give it back)."""
    files = Files(folder)
    tasks = [LinearRegression(dim=2, context_len=3, num_prompts=n) for n in (None, 20)]
    models = [Attention(f, num_heads=2) for f in ("merged", "separate", "merged_reduced", "separate_reduced")]
    valid = [Recipe(task=t, model=m, steps=20).to_dict() for t in tasks for m in models]
    counts: Counter[str] = Counter()
    failures: list[str] = []
    begin = time.monotonic()
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        kind = rng.random()
        case: Any = None
        try:
            with alarm():
                if kind < 0.7:
                    case = a_recipe(rng, valid)
                    counts["recipe, " + try_recipe(case, train=rng.random() < 1 / 400)] += 1
                elif kind < 0.82:
                    case = a_line(rng, folder)
                    counts["command line, " + try_line(case)] += 1
                else:
                    counts["damaged file, " + files.attempt(rng)] += 1
        except (Exception, Hang) as error:
            name = f"{type(error).__name__}: {error}"
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            failures.append(f"case {number} (seed {seed}): {case}\n{name}\n{where}")
            counts["hang" if isinstance(error, Hang) else "failure"] += 1
    return {
        "cases": count,
        "seed": seed,
        "seconds": time.monotonic() - begin,
        "counts": dict(counts),
        "failures": failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = fuzz(args.count, args.seed, Path(folder))
    print("\n".join(found["failures"][:20]))
    print(json.dumps({k: v for k, v in found.items() if k != "failures"}, indent=1))
    if args.report:
        args.report.write_text(json.dumps(found, indent=1))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
