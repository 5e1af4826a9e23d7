"""`iclearn verify FILE…`: golden files computed again, quantity by quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ..core.errors import IclearnError
from .output import json_text
from .parsing import complain, parse

if TYPE_CHECKING:
    from ..papers.verifying import Verification


@dataclass(frozen=True)
class VerifyArgs:
    """Compute every quantity of golden files again and print the largest difference of each beside its tolerance.

    The beginning of a file's name, up to an underscore or a digit, tells its layout. The exit status is 0
    where every file is verified, 1 where a difference is beyond its tolerance, and 2 where a file cannot be read.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The .npz files."""
    json: bool = False
    """Print as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn verify``."""
    args = parse(VerifyArgs, argv, "iclearn verify")
    if not args.files:
        return complain("iclearn verify", "name at least one golden file (.npz)")
    from ..papers.verifying import verify_file

    code, found = 0, []
    for path in args.files:
        try:
            one = verify_file(path)
        except IclearnError as error:
            code = complain("iclearn verify", str(error))
            continue
        code = max(code, int(not one.passed))
        found.append(one)
        if not args.json:
            show(one)
    if args.json:
        print(json_text([one.as_dict() for one in found]))
    elif len(args.files) > 1:
        good = sum(one.passed for one in found)
        print(f"{good} of {len(args.files)} files verified")
    return code


def show(one: Verification) -> None:
    """Print one verified file: a line a quantity, what is wrong, and what was not checked."""
    print(f"{one.path}: layout {one.layout}")
    width = max(len(quantity.name) for quantity in one.quantities)
    fitting = [q.name.removeprefix("args.") for q in one.quantities if q.role == "size" and q.passed]
    if fitting:
        print(f"  {'args':<{width}}  {', '.join(fitting)} fit the arrays")
    for q in one.quantities:
        if q.role == "size" and q.passed:
            continue
        mark = "ok" if q.passed else "DIFFERS"
        numbers = f"{q.given.size:>6} values  largest {q.largest:.1e}  tolerance {q.tolerance:.0e}"
        print(f"  {q.name:<{width}}  {numbers}  {mark}")
        if not q.passed:
            print(f"  {'':<{width}}  {q.complaint()}")
    print(f"  given: {', '.join(one.inputs)}")
    if one.unchecked:
        print(f"  not checked, nothing here depends on them: {', '.join(one.unchecked)}")
    print(f"  {'verified' if one.passed else 'NOT verified: ' + one.conclusion()}")
