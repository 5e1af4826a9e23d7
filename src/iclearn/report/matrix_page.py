"""An evaluation on disk: dataset, figures and a page."""

from __future__ import annotations

import base64
import html
from pathlib import Path

import numpy as np

from .. import __version__
from ..core.atomic import write_text
from ..evaluation.stored_matrix import Matrix
from .matrix_figure import heat_map, shift_curves, short_number, sweep_curves, words_of
from .paper import page_head
from .style import FORMATS, figure_style, save_formats

TITLES = {
    "matrix": "All predictors under all shifts",
    "curves": "Error against the number of pairs",
    "sweeps": "Continuous shifts",
}
MEANING = {"algorithm": "follows the shifted law", "prior": "follows its prior", "neither": "neither"}


def write_evaluation(matrix: Matrix, out: Path) -> Path:
    """Write ``matrix.zarr``, ``figures`` and ``index.html``.

    Args:
        matrix: the evaluation.
        out: the folder.

    Returns:
        The page.
    """
    import matplotlib.pyplot as plt

    matrix.save(out / "matrix.zarr")
    drawn = []
    with figure_style():
        for name, draw in (("matrix", heat_map), ("curves", shift_curves), ("sweeps", sweep_curves)):
            figure = draw(matrix)
            if figure is None:
                continue
            save_formats(figure, out / "figures", name, FORMATS)
            plt.close(figure)
            drawn.append(name)
    return write_text(out / "index.html", evaluation_html(matrix, out, drawn))


def evaluation_html(matrix: Matrix, out: Path, figures: list[str]) -> str:
    """The page as HTML.

    Args:
        matrix: the evaluation.
        out: the folder with its figures.
        figures: names of those that were drawn.

    Returns:
        The text, pictures included.
    """
    facts = matrix.facts
    names = ", ".join(matrix.runs) or "predictors"
    title = f"Out of distribution: {names}"
    about = "".join(
        f"<li>{html.escape(name)}: {html.escape(run['model'])}, trained on {html.escape(run['task'])}, weights of step "
        f"{run['step']}</li>"
        for name, run in facts["runs"].items()
    )
    sections = []
    for name in figures:
        picture = base64.b64encode((out / "figures" / f"{name}.png").read_bytes()).decode()
        sections.append(
            f'<h2 id="{name}">{TITLES[name]}</h2><a href="figures/{name}.png">'
            f'<img alt="{TITLES[name]}" src="data:image/png;base64,{picture}"></a>'
        )
    sections.append(f'<h2 id="table">The numbers</h2>{_table(matrix)}')
    if any(matrix.data["references_differ"].values) and matrix.runs:
        sections.append(f'<h2 id="follows">Algorithm or prior</h2>{_follows(matrix)}')
    sections.append(f'<h2 id="missing">What is not here</h2>{_missing(matrix)}')
    listed = [(name, TITLES[name]) for name in figures] + [("table", "The numbers"), ("missing", "What is not here")]
    contents = "\n".join(f'<a href="#{name}">{text}</a>' for name, text in listed)
    target = "with their noise" if facts["target"] == "shown" else "without noise"
    how = (
        f"Law: {facts['law']}. {facts['num_prompts']} prompts for every shift, the same for all predictors; errors "
        f"against labels {target}, divided by {facts['normalizer']:g}. Bands: {facts['level']:.0%}, "
        f"{facts['trials']} resamples of the prompts; where means do not exist, the median and its order statistics."
    )
    few = (
        "Every predictor was asked everything."
        if facts["exact"]
        else f"Lasso, Huber, least absolute deviations, the Gaussian process and trees are asked after "
        f"{_listed(facts['few'])} pairs; so are network training, and those where prompts are longer than in training, "
        f"on {facts['slow_prompts']} prompts; --exact asks them everything."
    )
    return (
        f"{page_head(title)}<ul>{about}</ul><p>{html.escape(how)}</p>"
        f'<p class="note">{html.escape(few)}</p><nav>{contents}</nav>{"".join(sections)}'
        f'<p class="note">Written by iclearn {__version__}. All numbers, with bands and paired differences, are in '
        "<code>matrix.zarr</code> (xarray).</p></body></html>"
    )


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))


def _table(matrix: Matrix) -> str:
    """Errors with bands of runs and references, and which differences from least squares are clear."""
    names = [n for n, k in zip(matrix.predictors, matrix.data["kind"].values, strict=True) if k != "predictor"]
    positions = matrix.told_positions()
    head = "".join(f"<th>{html.escape(words_of(n))}, {i} pairs</th>" for n in names for i in positions)
    rows = []
    for shift in matrix.shifts:
        cells = [_cell(matrix, shift, name, i) for name in names for i in positions]
        rows.append(f"<tr><td>{html.escape(words_of(shift))}</td>{''.join(cells)}</tr>")
    note = "↓ ↑: below or above least squares on the same prompts, by the band of the difference. *: median."
    table = f'<div style="overflow-x: auto"><table><tr><th>shift</th>{head}</tr>{"".join(rows)}</table></div>'
    return f'<p class="note">{note}</p>{table}'


def _cell(matrix: Matrix, shift: str, name: str, position: int) -> str:
    here = matrix.data.sel(shift=shift, predictor=name, position=position)
    if not np.isfinite(here["error"]):
        return "<td>–</td>"
    to = here.sel(reference="least_squares")
    mark = " ↓" if to["difference_high"] < 0 else " ↑" if to["difference_low"] > 0 else ""
    star = "" if here["is_mean"] else "*"
    band = f"{short_number(float(here['error_low']))}–{short_number(float(here['error_high']))}"
    return f'<td>{short_number(float(here["error"]))}{star}{mark}<p class="note">{band}</p></td>'


def _follows(matrix: Matrix) -> str:
    """For shifts of the law of labels: which of the two Bayes predictors each run is nearer to."""
    shifts = [s for s in matrix.shifts if matrix.data["references_differ"].sel(shift=s)]
    positions = matrix.told_positions()
    head = "".join(f"<th>{html.escape(n)}, {i} pairs</th>" for n in matrix.runs for i in positions)
    rows = []
    for shift in shifts:
        cells = []
        for name in matrix.runs:
            for i in positions:
                said = matrix.follows(name, shift, i)
                apart = matrix.data["distance"].sel(shift=shift, predictor=name, position=i)
                numbers = " / ".join(
                    short_number(float(apart.sel(reference=r))) for r in ("bayes_shifted", "bayes_training")
                )
                cells.append(f'<td>{MEANING.get(said, "–")}<p class="note">{numbers if said else ""}</p></td>')
        rows.append(f"<tr><td>{html.escape(words_of(shift))}</td>{''.join(cells)}</tr>")
    note = (
        "Squared distance of the answers to those of Bayes that knows the shift / of Bayes of the training law, and "
        "which is smaller by the band of their difference on the same prompts; neither where both are farther away "
        "than they are from each other."
    )
    return f'<p class="note">{note}</p><table><tr><th>shift</th>{head}</tr>{"".join(rows)}</table>'


def _missing(matrix: Matrix) -> str:
    told = {**matrix.facts["left_out"], **matrix.facts["refused"]}
    if not told:
        return "<p>Every predictor answered under every shift.</p>"
    items = "".join(f"<li>{html.escape(name)}: {html.escape(why)}</li>" for name, why in told.items())
    return f"<ul>{items}</ul>"
