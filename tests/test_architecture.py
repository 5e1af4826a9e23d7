"""The shape of the code, read off its imports: one direction, and evidence that shares no code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "iclearn"
LAYER = {
    "core": 0,
    "tasks": 1,
    "models": 2,
    "engines": 3,
    "theory": 3,
    "probes": 3,
    "store": 4,
    "llm": 4,
    "sweeps": 5,
    "evaluation": 5,
    "papers": 6,
    "explore": 6,
    "report": 7,
    "cli": 8,
}
APART = {"engines", "theory", "probes"}
FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> str | None:
    """The folder a module lives in; None for the package's own __init__."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else None


def imported_layers(path: Path) -> set[str]:
    """Layers of iclearn that a file imports, at the top or inside functions."""
    package = ("iclearn", *path.relative_to(SOURCE).parts[:-1])
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            names = [module, *((*module, alias.name) for alias in node.names)]
        found |= {name[1] for name in names if len(name) > 1 and name[0] == "iclearn" and name[1] in LAYER}
    return found


@pytest.mark.parametrize("path", [f for f in FILES if layer_of(f)], ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    own = layer_of(path)
    assert own in LAYER, f"{own} is no layer of the design: add it to docs/design.md and here"
    for other in imported_layers(path):
        assert LAYER[other] <= LAYER[own], f"{own} must not import {other}"
        if own in APART:
            assert other == own or other not in APART, f"{own} and {other} must share no code"


def test_the_parser_sees_what_it_should():
    """Relative imports are resolved to their layers."""
    theory = SOURCE / "theory" / "zhang2025" / "__init__.py"
    assert "core" in imported_layers(SOURCE / "theory" / "zhang2025" / "population.py")
    assert "engines" not in imported_layers(theory)
    assert imported_layers(SOURCE / "papers" / "zhang2025" / "fig8.py") >= {"engines", "theory", "tasks", "papers"}


def imported_modules(path: Path) -> set[str]:
    """Modules that importing a file imports, packages above it included; imports inside functions are left out."""
    parts = ("iclearn", *path.relative_to(SOURCE).with_suffix("").parts)
    package = parts[:-1]
    found = {".".join(package[:n]) for n in range(1, len(package) + 1)}
    waiting: list[ast.stmt] = list(ast.parse(path.read_text()).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            waiting += node.body
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *((node.module,) if node.module else ())))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_whatever_uses_jax_has_set_it_up():
    """Imported alone, a module must find double precision switched on: six once did not."""
    names = {f: ".".join(("iclearn", *f.relative_to(SOURCE).with_suffix("").parts)) for f in FILES}
    imports = {name.removesuffix(".__init__"): imported_modules(f) for f, name in names.items()}

    def reached(name: str) -> set[str]:
        seen, waiting = {name}, [name]
        while waiting:
            new = {m for m in imports[waiting.pop()] if m in imports} - seen
            seen |= new
            waiting += new
        return seen

    users = [n for n, found in imports.items() if {m.partition(".")[0] for m in found} & {"jax", "equinox", "diffrax"}]
    assert len(users) > 100
    settings = "iclearn.core.jax_settings"
    assert [name for name in users if settings not in reached(name)] == []


def test_there_is_one_training_loop():
    """Weights are moved by an optimizer in one place."""
    users = [f.relative_to(SOURCE) for f in FILES if "apply_updates" in f.read_text()]
    assert users == [Path("engines/loop.py")]


def test_no_catch_all_modules_and_nothing_is_unpickled():
    for path in FILES:
        assert path.name not in {"utils.py", "misc.py", "helpers.py"}
        text = path.read_text()
        assert "allow_pickle=True" not in text
        # compiled programs in the user's own cache folder: machine code, trusted as that of JAX and Numba beside it
        assert "import pickle" not in text or path.name == "kept_programs.py"


def test_files_stay_readable():
    long = {str(f.relative_to(SOURCE)): n for f in FILES if (n := len(f.read_text().splitlines())) > 800}
    assert not long, f"split these: {long}"


# Names that stand for one idea wherever they are: abstract classes of a package, what a paper's figures share, a
# paper's judges, its theory asked about a recipe, its numbers for one size, its example data, its golden files,
# figures by number.
SAME_IDEA = {
    "__init__", "__main__", "base", "setup", "judges", "of_recipe", "summary", "examples", "golden", "fig1", "fig2",
}  # fmt: skip


def test_no_basename_stands_for_two_ideas():
    names = [f.stem for f in FILES if f.stem not in SAME_IDEA]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"give these names of their own: {twice}"


GENERIC = ("engines", "sweeps", "report", "cli")


def concrete_names() -> set[str]:
    """Every task, model spec, model and feature map that is not abstract, with the module it is in."""
    from iclearn.core.model import AbstractModel, AbstractModelSpec
    from iclearn.core.registry import PREDICTORS, SPECS
    from iclearn.core.task import AbstractTask
    from iclearn.models.features import AbstractFeatureMap

    for registry in (SPECS, PREDICTORS):
        for name in registry.names():
            registry.get(name)
    waiting, found = [AbstractTask, AbstractModelSpec, AbstractModel, AbstractFeatureMap], set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("iclearn.") and not cls.__name__.startswith("Abstract"):
            found |= {cls.__name__} | ({cls.kind} if getattr(cls, "kind", "") else set())
    return found


def names_in(path: Path) -> set[str]:
    """Identifiers, attributes, imported names and whole strings of a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


@pytest.mark.parametrize("path", [f for f in FILES if layer_of(f) in GENERIC], ids=lambda p: str(p.relative_to(SOURCE)))
def test_generic_layers_name_no_concrete_task_or_model(path):
    """Engines, sweeps, reports and commands ask for capabilities; a new task or model edits none of them."""
    named = names_in(path) & concrete_names()
    assert not named, f"{path.name} names {', '.join(sorted(named))}: declare a capability instead"


def test_the_search_for_concrete_names_finds_them():
    assert {
        "LinearRegression",
        "Attention",
        "attention",
        "MergedAttention",
        "Cubic",
        "SoftmaxDescent",
    } <= concrete_names()
    assert "LinearRegression" in names_in(SOURCE / "store" / "linattn.py")


def test_identifiers_are_american():
    """One spelling an idea, that of JAX and optax."""
    import re

    british = re.compile(r"optimis|initialis|normalis|colour|\bcentre|neighbour|behaviour|labelled|generalis", re.I)
    allowed = {
        "core/registry.py",
        "core/recipe.py",
        "tasks/regression.py",
        "sweeps/plan.py",
        "papers/ahn2023/golden.py",
        "papers/oswald2023/golden.py",
    }  # former spellings in files
    for path in FILES:
        if str(path.relative_to(SOURCE)) not in allowed:
            words = [w for w in names_in(path) if british.search(w)]
            assert not words, f"{path.relative_to(SOURCE)}: {words[:3]}"


def test_no_address_or_machine_path_is_committed():
    for path in [
        *FILES,
        ROOT / "pyproject.toml",
        ROOT / "README.md",
        *filter(Path.is_file, (ROOT / "dev").iterdir()),  # not what Python left there when it imported them
        *filter(Path.is_file, (ROOT / ".ci").iterdir()),
    ]:
        text = path.read_text()
        for bad in ("index-url", "/root/", "/home/", "/work/", "pypi.org"):
            assert bad not in text, f"{path.name} holds {bad!r}"
