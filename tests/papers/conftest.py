"""Shared by the tests of papers: example data are made once in a process, for judging and for drawing."""

import pytest

_examples: dict[int, object] = {}


@pytest.fixture(scope="session")
def example_of():
    """The example data of a figure; nobody may change them in place."""

    def find(figure):
        if figure.example is None:
            pytest.fail(f"{figure.id} has no example data: give its Figure one")
        if id(figure) not in _examples:
            _examples[id(figure)] = figure.example()
        return _examples[id(figure)]

    return find
