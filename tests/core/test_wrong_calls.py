"""Calls with values of the wrong kind end in a sentence that names the field and what it takes."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from iclearn.core.reader import read_table, read_yaml

SCRIPT = Path(__file__).with_name("wrong_calls.py")
# Where Python itself refuses: in words of its own, and of ours.
PYTHONS = {
    "british class": "did you mean Optimizer?",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, tuple[str, str]]:
    """Run apart: here the annotations are checked by the tests' own import hook, before iclearn comes to it."""
    here = tmp_path_factory.mktemp("wrong")
    told = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=here, timeout=1800)
    assert told.returncode == 0, told.stderr
    assert list(here.iterdir()) == [], "nothing was written"
    return {name: (kind, text) for name, kind, text in map(json.loads, told.stdout.splitlines())}


# Infinitely many is inf in Python as it is in files, and None means the same.
TAKEN = {
    "prompts inf": "LinearRegression(num_prompts=None)",
    "replace inf": "LinearRegression(num_prompts=None)",
    "tasks inf": "FunctionClass(num_prompts=5)",
}


def test_every_wrong_call_ends_in_a_sentence(outcomes):
    assert len(outcomes) > 70
    assert {name: outcomes[name] for name in TAKEN} == {name: ("accepted", made) for name, made in TAKEN.items()}
    wrong = {n: told for n, told in outcomes.items() if told[0] != "IclearnError" and n not in {*PYTHONS, *TAKEN}}
    assert not wrong
    for name, words in PYTHONS.items():
        assert words in outcomes[name][1]
    assert all("\n" not in text for _, text in outcomes.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("covariance matrix", "covariance must be of class Covariance, not a ndarray: write Covariance.matrix(array)"),
        ("init number", "init must be of class Init, not 0.1: write Init(0.1)"),
        ("softmax word", "softmax must be True or False, not 'no'"),
        ("lr word", "lr must be a finite number, not '0.1'"),
        ("simulate text", "must be of class Recipe, not str: write Recipe("),
        ("british", "Recipe has no field 'optimiser'; its fields are task, model, init, optimizer, steps"),
        ("british", "(did you mean optimizer=?)"),
        ("optimizer of optax", "not a GradientTransformationExtraArgs: write Optimizer("),
        ("optimizer of optax", "an optimizer of optax is on the page docs/extending.md"),
        ("field missing", "Recipe lacks its field 'model'; its fields are task, model"),
        ("field twice", "Init is given its field 'scale' twice"),
        ("fields too many", "Init takes 4 values at most, not 5"),
        ("task abstract", "AbstractTask is abstract: define source in a subclass"),
        ("features abstract", "AbstractFeatureMap is abstract: define __call__, size in a subclass"),
        ("features missing", "Cubic lacks its field 'out_dim'; its fields are dim, out_dim, normalize"),
        ("predict pairs", "LeastSquares.predict takes one Prompt, not a ndarray: make one by"),
        ("predict array", "SeparateAttention.predict takes one Prompt, not a ndarray"),
        ("progress word", "progress is True or a function, not 'yes'"),
        ("progress of a paper", "progress is True or a function, not 'yes'"),
        ("evaluate table", "the task must be of class AbstractTask, not dict"),
        ("dim inf", "dim must be a whole number, not inf"),
        ("replace flat", "did you mean optimizer__lr=?"),
    ],
)
def test_the_sentence_says_what_to_write(outcomes, name, words):
    assert words in outcomes[name][1]


def test_every_literal_of_the_public_api_is_checked():
    script = SCRIPT.with_name("every_literal.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) > 40
    words = {name: f"{name.split()[-1]} must be one of " for name in told}
    wrong = [name for name, text in told.items() if words[name] not in text or not text.endswith("not 'flwo'")]
    assert not wrong, {name: told[name] for name in wrong}


YAML = {
    "a: 1\na: 2\n": "line 2 cannot be read as YAML: the key 'a' is given twice",
    "a: {b: 1, b: 1}": "the key 'b' is given twice",
    "- 1": "must be a table of fields",
    "!!python/object/apply:os.system ['true']": "cannot be read as YAML",
    "a: *b": "cannot be read as YAML",
    "{1: 2}": "a table whose fields are words",
    "a: [" * 2000: "YAML",
    "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
    "g: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]": "more than 100000 values",
    # merging doubles the fields on every line
    "a0: &a0 {k: 1}\n" + "".join(f"a{i + 1}: &a{i + 1} {{<<: [*a{i}, *a{i}]}}\n" for i in range(17)): "100000 values",
    "a: &a [*a]": "more than 100000 values",
    "\n".join(f"f{i}: 0" for i in range(1001)): "line 1001 cannot be read as YAML: more than 1000 fields in one table",
    "a: 1" + ":00" * 3000: "a whole number of 9001 characters; at most 400 are read",
    "a: &a 0x" + "f" * 6000 + "\nb: *a": "a whole number of 6002 characters",
}


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_yaml_that_means_something_else_than_it_seems_is_refused(tmp_path, text):
    from iclearn.core.errors import IclearnError

    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(IclearnError) as caught:
        read_table(tmp_path / "a.yaml")
    assert YAML[text] in str(caught.value)


def test_yaml_numbers_and_words_are_read():
    assert read_yaml("{a: 1, b: [x, 2.5], c: {a: 1}}", "here") == {"a": 1, "b": ["x", 2.5], "c": {"a": 1}}


def test_help_shows_the_fields_of_a_spec():
    import iclearn as icl

    assert list(inspect.signature(icl.Init).parameters) == ["scale", "scheme", "zero_blocks", "digest"]
