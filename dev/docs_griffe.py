"""How docstrings are read for the site: doctests are examples, and tokens [x; y][x; y]ᵀ are no links."""

from __future__ import annotations

from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Puts the doctests of a docstring under the heading that its reader looks for."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the text of one docstring, before it is parsed."""
        if obj.is_alias or obj.docstring is None:
            return
        lines = obj.docstring.value.splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith(">>>")), len(lines))
        text = [line.replace("][", "]\\[") for line in lines[:first]]
        examples = ["Examples:", *(f"    {line}" for line in lines[first:])] if first < len(lines) else []
        obj.docstring.value = "\n".join([*text, *examples])
