"""`write_whole_report`: one HTML file of what was reproduced, trained or swept, for a colleague or a reviewer.

It holds the verdicts of all papers with search and filter, and figure by figure the picture, the loss curves to move
over, recipes, claims with measured numbers, the register of choices and the card. Nothing here simulates, and the file
asks for nothing else.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.atomic import write_text
from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.registry import PAPERS
from ..explore.bundle import PAGE as EXPLORER
from ..explore.bundle import page_html
from ..explore.presets import presets_of
from ..papers.base import Paper
from ..papers.collect import load_paper, read_json
from ..store.runs import Store
from .paper import (
    WHOSE,
    details,
    needs,
    register_lines,
    seeds_text,
    short,
    stale_sentence,
    summary_line,
    tally,
    verdict_mark,
)  # fmt: skip
from .run_table import is_store, store_section, thinned
from .sweep_section import is_sweep, sweep_section, sweeps_in

LARGEST = 20 * 2**20  # bytes of a report that can still be sent around
CURVES = 12  # loss curves of a figure
KINDS = "what `iclearn reproduce` or `iclearn sweep` wrote, or a store of runs"
_PARTS = Path(__file__).parent / "whole_page"


@dataclass(frozen=True)
class Reproduced:
    """What `iclearn reproduce` left in a folder."""

    folder: Path
    card: dict[str, Any]
    verdicts: list[dict[str, Any]]
    paper: Paper | None

    @staticmethod
    def read(folder: Path) -> Reproduced:
        """A folder; one that holds no reproduction is refused."""
        if not (folder / "card.json").is_file() or not (folder / "verdicts.json").is_file():
            raise IclearnError(f"{folder} holds no reproduction (card.json, verdicts.json): name {KINDS}")
        card = read_json(folder / "card.json", {})
        name = card.get("paper", folder.name)
        paper = load_paper(name) if name in PAPERS.names() else None
        return Reproduced(folder, card, read_json(folder / "verdicts.json", []), paper)


def write_whole_report(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Write the report of some folders that `iclearn reproduce` made, of stores of runs, and of sweeps.

    Args:
        folders: one for each paper, store or sweep. That of a shipped sweep is both a paper and a sweep.
        path: of the HTML file.

    Returns:
        The path written.
    """
    places = [Path(folder) for folder in folders]
    stores = [place for place in places if is_store(place) and not is_sweep(place)]
    found = [Reproduced.read(place) for place in places if place not in stores and not is_sweep(place)]
    swept = [sweep for place in places for sweep in sweeps_in(place)]
    if not places:
        raise IclearnError(f"there is nothing to report: name folders, {KINDS}")
    curves: dict[str, Any] = {}
    sweeps: dict[str, Any] = {}
    sections = "".join(_paper_section(one, curves) for one in found)
    sections += "".join(store_section(store, curves) for store in stores)
    sections += "".join(sweep_section(sweep, sweeps) for sweep in swept)
    verdicts = [{**v, "paper": one.card.get("paper", one.folder.name)} for one in found for v in one.verdicts]
    explorer = base64.b64encode(page_html().encode()).decode() if "data-preset" in sections else ""
    styles = [EXPLORER / "vendor/uPlot.min.css", _PARTS / "whole.css", *([_PARTS / "sweep.css"] if sweeps else [])]
    scripts = [_PARTS / "whole.js", *([_PARTS / "diagram.js", _PARTS / "sweep.js"] if sweeps else [])]
    title, heading = _headings(found, stores, swept)
    parts = {
        "/*TITLE*/": html.escape(title),
        "<!--HEADING-->": heading,
        "/*STYLE*/": "\n".join(map(_text, styles)),
        "<!--HEADLINE-->": _headline(verdicts),
        "<!--FILTERS-->": _filters(verdicts),
        "<!--ROWS-->": "".join(_row(v) for v in verdicts),
        'class="page"': f'class="{"page" if found else "page runs-only"}"',
        "<!--CONTENTS-->": "".join(_contents(one) for one in found) + _swept(sweeps),
        "<!--SECTIONS-->": sections,
        "/*VERSION*/": html.escape(__version__),
        "/*CURVES*/": _json(curves),
        "/*SWEEPS*/": _json(sweeps),
        "/*EXPLORER*/": explorer,
        "/*LICENSE*/": html.escape(_text(EXPLORER / "vendor/uPlot.LICENSE")),
        "/*UPLOT*/": _text(EXPLORER / "vendor/uPlot.iife.min.js").replace("</script", "<\\/script"),
        "/*SCRIPT*/": "\n".join(map(_text, scripts)),
    }
    page = _text(_PARTS / "whole.html")
    for mark, text in parts.items():
        page = page.replace(mark, text)
    if len(page.encode()) > LARGEST:
        raise IclearnError(
            f"the report would have {len(page) / 2**20:.0f} MB, more than 20: report fewer papers at a time"
        )
    return write_text(Path(path), page)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _json(content: dict[str, Any]) -> str:
    """JSON that does not end the script element it is put in."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _headings(found: Sequence[Reproduced], stores: Sequence[Path], swept: Sequence[Path]) -> tuple[str, str]:
    """The title of the page, and its heading as HTML."""
    if found:
        about = (
            "Papers on in-context learning in attention, trained again, claim by claim. Each has a tolerance and the "
            "reason for it; the measured numbers are below, and where a tolerance changed after data were seen, that "
            "is said too."
        )
        return "What holds: theories of in-context learning, reproduced", f"<h1>What holds</h1><p>{about}</p>"
    title = "Stored runs" if not swept else "A sweep, run by run" if not stores else "Stored runs and sweeps"
    return title, f"<h1>{title}</h1>"


def _headline(verdicts: Sequence[dict[str, Any]]) -> str:
    """How many claims of each source are reproduced, as tiles."""
    tiles = []
    for source, name in WHOSE.items():
        counts = tally(verdicts, source)
        if not counts:
            continue
        total, done = sum(counts.values()), counts.pop("reproduced", 0)
        rest = ", ".join(f"{count} {word}" for word, count in counts.items()) or "all of them"
        whose = {
            "paper": "said by the papers",
            "second-hand": "known second-hand",
            "other": "of another paper",
            "theory": "that follow from their theory",
            "ours": "of our own",
            "design": "about our design",
        }.get(source, name)
        tiles.append(
            f'<div class="tile"><strong>{done}<span> of {total}</span></strong>'
            f"<p>claims {html.escape(whose)} reproduced</p><p class='note'>{html.escape(rest)}</p></div>"
        )
    return "".join(tiles)


def _filters(verdicts: Sequence[dict[str, Any]]) -> str:
    """Menus of papers, sources and verdicts that occur."""
    menus = []
    for field, label in (("paper", "paper"), ("source", "whose words"), ("verdict", "verdict")):
        shown = {str(v[field]): WHOSE[v[field]] if field == "source" else str(v[field]) for v in verdicts}
        pairs = [(html.escape(word), html.escape(text)) for word, text in shown.items()]
        options = "".join(f'<option value="{word}">{text}</option>' for word, text in pairs)
        menus.append(
            f'<label>{label} <select data-filter="{field}"><option value="">all</option>{options}</select></label>'
        )
    return "".join(menus)


def _row(v: dict[str, Any]) -> str:
    """One line of the table of verdicts."""
    anchor = f"{v['paper']}-{v['figure']}"
    measured = short(v["measured"])
    brief = measured if len(measured) < 90 else measured[:88] + "…"
    return (
        f'<tr data-paper="{html.escape(v["paper"])}" data-source="{v["source"]}" data-verdict="{v["verdict"]}">'
        f'<td class="{v["verdict"]}">{verdict_mark(v["verdict"])} {needs(v)}</td>'
        f'<td><a href="#{anchor}">{html.escape(v["paper"])} {html.escape(v["figure"])}</a></td>'
        f"<td>{html.escape(v['statement'])}</td><td>{html.escape(WHOSE[v['source']])}</td>"
        f"<td>{html.escape(brief)}</td></tr>"
    )


def _contents(one: Reproduced) -> str:
    name, items = one.card.get("paper", one.folder.name), []
    for figure, facts in one.card["figures"].items():
        marks = "".join(verdict_mark(v["verdict"]) for v in one.verdicts if v["figure"] == figure)
        items.append(
            f'<li><a href="#{name}-{figure}">{html.escape(figure)}: {html.escape(facts["title"])}</a> {marks}</li>'
        )
    return f"<h3>{html.escape(one.card['title'])}</h3><ul>{''.join(items)}</ul>"


def _swept(sweeps: dict[str, Any]) -> str:
    """Links to the sweeps."""
    items = "".join(f'<li><a href="#{name}">{html.escape(facts["name"])}</a></li>' for name, facts in sweeps.items())
    return f"<h3>Sweeps, run by run</h3><ul>{items}</ul>" if items else ""


def _paper_section(one: Reproduced, curves: dict[str, Any]) -> str:
    card = one.card
    name = card.get("paper", one.folder.name)
    figures = "".join(_figure_section(one, name, figure, facts, curves) for figure, facts in card["figures"].items())
    notes = f'<p class="note">{html.escape(one.paper.notes)}</p>' if one.paper is not None and one.paper.notes else ""
    if stale := stale_sentence(sum(facts.get("stale", 0) for facts in card["figures"].values())):
        notes = f'<p class="contradicted">{html.escape(stale)}</p>{notes}'
    versions = ", ".join(f"{package} {version}" for package, version in card["software"].items())
    machine = ", ".join(f"{key}: {value}" for key, value in card["hardware"].items())
    made = f"{card['code']['package']}, source {card['code']['source']}"
    return (
        f'<section class="paper" id="{name}"><h2>{html.escape(card["title"])}</h2>'
        f"<p>{html.escape(card['citation'])}</p><p>{html.escape(summary_line(one.verdicts, one.paper))}</p>{notes}"
        f"<details><summary>Made with</summary><dl><dt>code</dt><dd>{html.escape(made)}</dd><dt>software</dt>"
        f"<dd>{html.escape(versions)}</dd><dt>machine</dt><dd>{html.escape(machine)}</dd></dl></details>{figures}</section>"
    )


def _figure_section(one: Reproduced, name: str, figure: str, facts: dict[str, Any], curves: dict[str, Any]) -> str:
    anchor, title = f"{name}-{figure}", html.escape(facts["title"])
    rows = [v for v in one.verdicts if v["figure"] == figure]
    runs = list(_curves(one, facts["recipes"]))
    if runs:
        curves[anchor] = runs
    parts = [_picture(one.folder, figure, title)]
    if runs:
        count = f"{len(runs)} of {facts['runs']} runs" if facts["runs"] > len(runs) else f"{len(runs)} runs"
        parts.append(
            f'<details class="curves" data-curves="{anchor}"><summary>Loss curves to move over ({count})</summary>'
            f'<div class="chart" role="img" aria-label="training loss of {len(runs)} runs of {figure}"></div>'
            '<label class="switch"><input type="checkbox"> logarithmic time</label><output></output></details>'
        )
    for preset in presets_of(name, figure):
        parts.append(
            f'<button type="button" class="explore" data-preset="{preset.name}">'
            f"Explore: {html.escape(preset.title)}</button> "
        )
    parts.append('<div class="explorer"></div>')
    parts.append(_claims(rows))
    parts.append(_set_up(facts))
    parts.append(_register(one.paper, figure))
    parts.append(_card(facts))
    return f'<article id="{anchor}"><h3>{html.escape(figure)}: {title}</h3>{"".join(parts)}</article>'


def _picture(folder: Path, figure: str, title: str) -> str:
    path = folder / "figures" / f"{figure}.png"
    if not path.is_file():
        return '<p class="note">The picture is not in the folder.</p>'
    encoded = base64.b64encode(path.read_bytes()).decode()
    return f'<img loading="lazy" alt="{title}" src="data:image/png;base64,{encoded}">'


def _curves(one: Reproduced, recipes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Loss curves of the first runs of a figure that are stored one by one, thinned."""
    store, chosen = Store(one.folder / "runs"), _spread(recipes, CURVES)
    for table in chosen:
        try:
            recipe = Recipe.from_dict(table)
            trace = store.get(recipe)
        except IclearnError:
            continue
        if trace is None:
            continue
        steps, loss = thinned(trace.loss.values.astype(float))
        yield {"label": f"{recipe.model.describe()}, seed {recipe.seed}", "steps": steps, "loss": loss}


def _spread(recipes: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Some of the recipes, different experiments before different seeds of one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for table in recipes:
        groups.setdefault(json.dumps({**table, "seed": 0}, sort_keys=True), []).append(table)
    depth = max(map(len, groups.values()), default=0)
    turns = [group[i] for i in range(depth) for group in groups.values() if i < len(group)]
    return turns[:count]


def _claims(rows: Sequence[dict[str, Any]]) -> str:
    body = "".join(
        f'<tr><td class="verdict {v["verdict"]}">{verdict_mark(v["verdict"])} {needs(v)}'
        f'<p class="note">{html.escape(WHOSE[v["source"]])}</p></td><td>{html.escape(v["statement"])}'
        f'<p class="note">{html.escape(" ".join(details(v)))}</p>'
        f'<p class="measured" tabindex="0">Measured{seeds_text(v)}: {html.escape(short(v["measured"]))}</p></td></tr>'
        for v in rows
    )
    head = '<tr><th scope="col">verdict</th><th scope="col">claim, tolerance, what was measured</th></tr>'
    return f'<div class="scroll" tabindex="0"><table class="claims">{head}{body}</table></div>' if rows else ""


def _set_up(facts: dict[str, Any]) -> str:
    recipe = json.dumps(facts["recipes"][0], indent=1) if facts["recipes"] else ""
    count = len(facts["recipes"])
    first = f"<p>The first of {count} recipes:</p><pre tabindex='0'>{html.escape(recipe)}</pre>" if recipe else ""
    told = html.escape(facts["set_up"])
    return f"<details><summary>Set-up and recipe</summary><pre tabindex='0'>{told}</pre>{first}</details>"


def _register(paper: Paper | None, figure: str) -> str:
    found = next((f for f in paper.figures if f.id == figure), None) if paper is not None else None
    items = "".join(f"<li>{html.escape(line)}</li>" for line in register_lines(found)) if found is not None else ""
    return f"<details><summary>Register of choices</summary><ul>{items}</ul></details>" if items else ""


def _card(facts: dict[str, Any]) -> str:
    cost = f"{facts['simulated_seconds']:.1f} s simulated, {facts['total_seconds']:.1f} s in all"
    rows = {
        "data": "; ".join(facts["data"]), "splits": "; ".join(facts["splits"]), "runs": str(facts["runs"]),
        "seeds": ", ".join(map(str, facts["seeds_used"])) or "none", "cost": cost,
        "memory": f"{facts['peak_memory_mb']:.0f} MB at most", "on": ", ".join(facts["devices"]) or "cpu",
        "content hash": facts["content_hash"],
    }  # fmt: skip
    body = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in rows.items())
    return f"<details><summary>Card</summary><dl>{body}</dl></details>"
