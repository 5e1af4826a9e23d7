"""In a notebook a long run shows a bar under its cell; a short one, and one elsewhere, shows nothing."""

import pytest

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
