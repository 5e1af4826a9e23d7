"""In a notebook a long run shows a bar under its cell; a short one, and one elsewhere, shows nothing unless asked."""

import pytest
from matplotlib.figure import Figure

import iclearn as icl

FIRST = """
import iclearn as icl, iclearn.core.notebook as notebook
task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
recipe = icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=2_000)
"""
CELL = """
notebook.PATIENCE = {patience}
_ = icl.simulate(recipe.replace(seed={seed}))
_ = icl.sweep(recipe, axes={{}}, seeds=2, out="swept{seed}")
"""


def test_progress_under_the_cell(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed (pip install nbclient ipykernel)")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install nbclient ipykernel)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install ipykernel)")
    cells = [FIRST, CELL.format(patience=0.0, seed=0), CELL.format(patience=1e9, seed=1)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[o.data["text/html"] for o in c.outputs if o.output_type == "display_data"] for c in notebook.cells]
    assert [len(bars) for bars in shown] == [0, 2, 0]
    for bar, words in zip(shown[1], ["steps", "runs"], strict=True):
        assert "<progress" in bar
        assert words in bar


def test_progress_elsewhere_is_written_where_it_is_asked_for(tmp_path, capsys):
    task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None)
    recipe = icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=50)
    figure = icl.Figure(
        "fig1", "nothing", lambda lab: {"losses": len(lab.run([recipe]))}, lambda data: Figure(), (), ""
    )
    calls = {
        "50 of 50 steps, loss": lambda progress: icl.simulate(recipe, progress=progress),
        "100 of 100 steps of all runs": lambda progress: icl.simulate_many([recipe, recipe], progress=progress),
        "2 of 2 runs": lambda progress: icl.sweep(recipe, seeds=2, out=tmp_path / f"{progress}", progress=progress),
        "4 of 4 pairs of predictor and shift": lambda progress: icl.evaluate(
            predictors=["zero"], task=icl.tasks.FunctionClass(dim=2, noise=0.1), shifts=(), num_prompts=20,
            progress=progress,
        ),
        "fig1: ": lambda progress: icl.reproduce(
            icl.Paper("tiny", "t", "a", (figure,)), out=tmp_path / f"paper{progress}", progress=progress
        ),
    }  # fmt: skip
    for words, call in calls.items():
        call(None)
        assert capsys.readouterr().err == ""
        call(True)
        assert words in capsys.readouterr().err
