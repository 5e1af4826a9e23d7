"""The skeletons of docs/extending.md: each is one short file and one registry line, and then works everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
SKELETONS = ROOT / "docs" / "skeletons"
ENTRY_POINTS = """[iclearn.specs]
sign_regression = sign_regression:SignRegression
diagonal_attention = diagonal_attention:DiagonalAttention
[iclearn.predictors]
NearestNeighbor = nearest_neighbor:NearestNeighbor
[iclearn.probes]
half_time = half_time:half_time
[iclearn.papers]
tiny2026 = tiny2026:PAPER
"""
RECIPE = """task: {kind: sign_regression, dim: 2, context_len: 4, num_prompts: 20}
model: {kind: diagonal_attention}
init: 0.1
optimizer: {lr: 0.05}
steps: 30
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder that looks to Python like an installed package whose modules are the skeletons."""
    folder = tmp_path_factory.mktemp("installed")
    for file in SKELETONS.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    info = folder / "skeletons-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: skeletons\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


# One process answers all commands: a new one costs three seconds each, most of them importing JAX.
DRIVER = """
import contextlib, io, json, pathlib, sys
from iclearn.cli import main
told = []
for words in json.load(sys.stdin):
    words = [next(pathlib.Path("runs").glob("*.zarr")).stem if word == "THE RUN" else word for word in words]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if words[0] == "python":
            exec(words[1], {})
        elif (code := main(words)) != 0:
            sys.exit(f"{words} ended with {code}")
    told.append(out.getvalue())
print(json.dumps(told))
"""
PYTHON = """
import jax.numpy as jnp, iclearn as icl
from iclearn.core.prompt import full_prompt
prompt = full_prompt(jnp.array([[0.0], [1.0]]), jnp.array([[3.0], [4.0]]), jnp.array([0.9]))
print(float(icl.predictors.NearestNeighbor().predict(prompt)[0]))
task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None)
recipe = icl.Recipe(task=task, model=icl.Attention("merged"), steps=50)
print(icl.probes.half_time(icl.simulate(recipe)) >= 0)
"""
COMMANDS = {
    "train": ["train", "--recipe", "recipe.yaml", "--set", "seed=3", "task.flip=0.1", "--out", "runs"],
    "list": ["list"],
    "show": ["show", "THE RUN", "--plot", "run.png"],
    "sweep": ["sweep", "grid.yaml", "--out", "grid"],
    "reproduce": ["reproduce", "tiny2026", "--out", "tiny"],
    "figures": ["reproduce", "tiny2026", "--list"],
    "python": ["python", PYTHON],
}


@pytest.fixture(scope="module")
def answers(package, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The folder of all commands, and what each printed."""
    folder = tmp_path_factory.mktemp("skeletons")
    (folder / "recipe.yaml").write_text(RECIPE)
    grid = "name: flips\nbase:\n  " + RECIPE.replace("\n", "\n  ") + "\naxes: {task.flip: [0.0, 0.2]}\nseeds: 2\n"
    (folder / "grid.yaml").write_text(grid)
    env = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps(list(COMMANDS.values())), cwd=folder, env=env,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, dict(zip(COMMANDS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("file", sorted(SKELETONS.glob("*.py")), ids=lambda p: p.stem)
def test_skeletons_are_short_and_stand_on_the_page(file):
    assert len(file.read_text().splitlines()) <= 40
    assert f"skeletons/{file.name}" in (ROOT / "docs" / "extending.md").read_text()


def test_a_new_task_and_a_new_model_work_in_every_command(answers):
    _, told = answers
    assert "(moments engine" in told["train"], "a linear model trains exactly at once"
    assert "sign_regression" in told["list"]
    assert "diagonal_attention" in told["list"]
    assert "flip=0.1" in told["show"]
    assert "4 runs" in told["sweep"]


def test_a_new_paper_is_reproduced_with_a_card(answers):
    folder, told = answers
    assert "2 claims. " in told["reproduce"]
    assert "contradicted" not in told["reproduce"]
    verdicts = json.loads((folder / "tiny" / "verdicts.json").read_text())
    assert [v["verdict"] for v in verdicts] == ["reproduced", "reproduced"]
    card = (folder / "tiny" / "card.md").read_text()
    assert "runs: 6" in card
    assert "threefry streams of the root seed" in card
    assert "fig1" in told["figures"]


def test_a_new_predictor_and_a_new_probe_are_one_dot_away(answers):
    assert answers[1]["python"].split() == ["4.0", "True"]


def test_a_feature_map_with_an_expectation_trains_under_population(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from query_features import QueryModel  # type: ignore[import-not-found]

    from iclearn.engines.quadratic import moments_engine, population_engine
    from iclearn.tasks import LinearRegression

    model, key = QueryModel(jnp.array([[0.3], [-0.2]])), jax.random.key(0)
    task = LinearRegression(dim=2, context_len=4, num_prompts=None, prior_mean=(1.0, 2.0))
    exact = population_engine(task, model, 0, jnp.float64)
    many = moments_engine(task.replace(num_prompts=200_000), model.feature_map, 0, "float64")
    assert float(exact.loss(model, key)) == pytest.approx(float(many.loss(model, key)), rel=0.02)
    best = eqx.tree_at(lambda m: m.guess, model, jnp.array([[1.0], [2.0]]))
    assert float(exact.loss(best, key)) == pytest.approx(float(exact.minimum()), rel=1e-12)
    assert np.isfinite(float(exact.minimum()))
