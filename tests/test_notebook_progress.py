"""In a notebook a long run shows a bar under its cell; a short one, and one elsewhere, shows nothing."""

import pytest

CELL = """
import iclearn as icl, iclearn.core.notebook as notebook
notebook.PATIENCE = {patience}
task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
recipe = icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=2_000)
_ = icl.simulate(recipe)
_ = icl.sweep(recipe, axes={{}}, seeds=2, out="swept")
"""


@pytest.mark.parametrize(("patience", "shown"), [(0.0, ["steps", "runs"]), (1e9, [])])
def test_progress_under_the_cell(tmp_path, patience, shown):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed (pip install nbclient ipykernel)")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install nbclient ipykernel)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install ipykernel)")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL.format(patience=patience))])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    bars = [output.data["text/html"] for output in notebook.cells[0].outputs if output.output_type == "display_data"]
    assert len(bars) == len(shown)
    for bar, words in zip(bars, shown, strict=True):
        assert "<progress" in bar
        assert words in bar
