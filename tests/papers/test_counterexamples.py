"""Every claim can say no: on a figure's example data it is reproduced, on each of its counter-examples it is not."""

from pathlib import Path

import pytest

from iclearn.papers.collect import PAPERS, load_paper
from iclearn.papers.phase_diagrams import SWEEPS, Options, paper_of

ALL = [load_paper(name) for name in PAPERS.names()] + [paper_of(name, Options()) for name in SWEEPS]
CASES = [
    pytest.param(figure, claim, id=f"{paper.id}-{figure.id}-{claim.id}")
    for paper in ALL
    for figure in paper.figures
    for claim in figure.claims
]


@pytest.mark.parametrize(("figure", "claim"), CASES)
def test_a_claim_is_reproduced_on_its_example_and_on_none_of_its_counterexamples(example_of, figure, claim):
    assert claim.counterexamples, "a claim without a counter-example could not have said no"
    data = example_of(figure)
    assert claim.judged(data).verdict == "reproduced"
    refusals = claim.refusals(data)
    assert len(refusals) == len(claim.counterexamples), "two counter-examples have one name"
    assert "reproduced" not in refusals.values(), refusals
    assert claim.judged(data).verdict == "reproduced", "a counter-example changed the data it was made from"


def test_the_page_says_how_many_there_are():
    page = Path(__file__).parents[2] / "docs" / "verdict-changes.md"
    claims = [claim for paper in ALL for figure in paper.figures for claim in figure.claims]
    examples = sum(len(claim.counterexamples) for claim in claims)
    assert f"{len(claims)} claims carry {examples} counter-examples" in page.read_text()
