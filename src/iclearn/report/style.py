"""One look for every figure: readable in a talk, in print, and in grey."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.atomic import new_file
from ..core.errors import IclearnError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which people with color-vision deficiencies tell apart, ordered by lightness.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
FORMATS = ("png", "pdf", "svg")

_SETTINGS: dict[str, Any] = {
    "figure.figsize": (6.0, 4.0), "figure.dpi": 100, "savefig.dpi": 200, "figure.constrained_layout.use": True,
    "font.size": 12, "axes.titlesize": 12, "axes.labelsize": 12, "legend.fontsize": 10, "legend.frameon": False,
    "lines.linewidth": 1.8, "axes.spines.top": False, "axes.spines.right": False,
    "svg.hashsalt": "iclearn", "pdf.fonttype": 42,
}  # fmt: skip


@contextmanager
def figure_style() -> Iterator[None]:
    """Matplotlib settings for everything drawn inside the block.

    >>> import matplotlib as mpl
    >>> with figure_style():
    ...     mpl.rcParams["legend.frameon"]
    False
    """
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = {**_SETTINGS, "axes.prop_cycle": cycler(color=COLORS)}
    with mpl.rc_context(settings):
        yield


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format its name ends in, whole or not at all.

    Args:
        figure: a matplotlib figure.
        path: of the file.

    Returns:
        The path.
    """
    allowed = figure.canvas.get_supported_filetypes()
    ending = path.suffix.lstrip(".").lower()
    if ending not in allowed:
        raise IclearnError(f"cannot draw {path.name}: the name must end in one of {', '.join(sorted(allowed))}")
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    with new_file(path) as temporary:
        figure.savefig(temporary, metadata=stamp)
    return path


def save_formats(figure: Figure, folder: Path, name: str, formats: Sequence[str]) -> None:
    """Write a figure in several formats. Its layout is found once, for pixels, and kept, which halves the time.

    Args:
        figure: a matplotlib figure.
        folder: where it goes.
        name: of the files, without their endings.
        formats: the endings.
    """
    import matplotlib as mpl

    engine, dpi, sharp = figure.get_layout_engine(), figure.dpi, mpl.rcParams["savefig.dpi"]
    if engine is not None:
        figure.dpi = dpi if sharp == "figure" else sharp  # the sizes of texts are rounded to pixels of the file
        engine.execute(figure)
        figure.dpi = dpi
    with mpl.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine(None)  # these settings would give it another one, here and after saving
        for ending in formats:
            save_figure(figure, folder / f"{name}.{ending}")


def has_display() -> bool:
    """Whether a window can be opened here."""
    if sys.platform.startswith(("win", "darwin")):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show_figure(figure: Figure, fallback: Path) -> Path | None:
    """Open a window with a figure; without a display write it to `fallback` instead and return that."""
    import matplotlib.pyplot as plt

    if has_display() and plt.get_backend().lower() not in ("agg", "pdf", "svg", "ps", "cairo"):
        plt.show()
        return None
    save_formats(figure, fallback.parent, fallback.stem, [fallback.suffix.removeprefix(".")])
    return fallback
