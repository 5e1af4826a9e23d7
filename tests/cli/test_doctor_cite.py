"""`iclearn doctor` and `iclearn cite`."""

from __future__ import annotations

import json

from iclearn.cli import doctor, main


def test_doctor_finds_this_machine_and_the_known_number(capsys):
    assert main(["doctor", "--json"]) == 0
    found = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert all(row["fine"] for row in found.values())
    assert found["self-check"]["found"].startswith("loss 0.269841269841, closed form 0.269841269841")
    assert "jax" in found["packages"]["found"]
    assert found["extra test"]["found"].startswith("there")


def test_doctor_says_no_where_the_number_is_another(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "EXPECTED", doctor.EXPECTED * (1 + 1e-8))
    assert main(["doctor"]) == 1
    marked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("✗")]
    assert [line.split()[1] for line in marked] == ["self-check"]


def test_a_missing_extra_is_told_with_its_packages_and_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda package: package != "numba")
    told = doctor.extra("fast", "compiled code")
    assert told.fine
    assert not told.there
    assert told.found == "not there (compiled code): pip install 'iclearn[fast]' for numba"


def test_every_extra_is_looked_at():
    from importlib.metadata import metadata

    assert set(doctor.EXTRAS) == set(metadata("iclearn").get_all("Provides-Extra") or [])


def test_cite_prints_every_article_once(capsys):
    assert main(["cite"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("@software{iclearn,")
    assert text.count("2512.04268") == 1  # xie2025 and its part on language models
    assert "@misc{xie2025,\n  title = {The Initialization" in text
    assert text.count("{") == text.count("}")


def test_cite_one_paper_and_an_unknown_one(capsys):
    assert main(["cite", "li2024"]) == 0
    assert capsys.readouterr().out.count("@misc") == 1
    assert main(["cite", "li2042"]) == 2
    assert "li2042" in capsys.readouterr().err
