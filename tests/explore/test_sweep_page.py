"""`iclearn report SWEEP` in a browser: a phase diagram whose cells show their runs, and the runs trained again."""

import csv
import shlex

import numpy as np
import pytest

import iclearn as icl
from iclearn.cli import main
from iclearn.report import sweep_section
from iclearn.report.sweep_section import labels_of, sweep_facts
from iclearn.report.whole import write_whole_report
from iclearn.sweeps.axes import read_axes
from iclearn.sweeps.folder import SweepFolder

WIDE = {"width": 1280, "height": 900}


@pytest.fixture
def opened(browser, sweep_file):
    """The sweep's page; the test fails if it complained or asked for anything."""
    context = browser.new_context(viewport=WIDE, accept_downloads=True)
    page, noise = context.new_page(), []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("console", lambda m: noise.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: noise.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto(sweep_file.as_uri())
    page.wait_for_selector("[data-sweep][data-ready]")
    yield page
    context.close()
    assert not noise


@pytest.fixture
def folder(sweep_file):
    return SweepFolder.open(sweep_file.parent / "sweep")


def choose(page, **menus):
    for name, label in menus.items():
        page.select_option(f"[data-name={name.replace('_', '-', 1) if name.startswith('fix') else name}]", label=label)


def shown(page):
    """The diagram as it is saved: labels across, and a row of words for each label up."""
    with page.expect_download() as download:
        page.click("[data-save=csv]")
    header, *rows = csv.reader(download.value.path().read_text().splitlines())
    return header[1:], {row[0]: row[1:] for row in rows}


def test_cells_are_the_sweeps_numbers(opened, folder):
    data = folder.dataset().load()
    good = data.where(data["status"] != 2)
    choose(opened, x="lr", y="scale", value="final_loss", how="mean", fix_family="merged_reduced")
    across, rows = shown(opened)
    assert across == labels_of(folder.plan.axes[0])
    expected = good["final_loss"].sel(family="merged_reduced").mean("seed").transpose("scale", "lr").values
    for row, numbers in zip(rows.values(), expected, strict=True):
        for word, number in zip(row, numbers, strict=True):
            assert word == "diverged" if np.isnan(number) else float(word) == pytest.approx(number, rel=1e-4)
    assert any("diverged" in row for row in rows.values())

    choose(opened, x="family", y="lr", value="slow_height[0]", how="smallest", fix_scale="all 3")
    _, rows = shown(opened)
    lowest = good["slow_height"].isel(stretch=0).min(["seed", "scale"]).transpose("lr", "family").values
    words = np.array(
        [[np.nan if word in ("diverged", "no number") else float(word) for word in row] for row in rows.values()]
    )
    np.testing.assert_allclose(words, lowest, rtol=1e-4)

    choose(opened, value="share diverged")
    _, rows = shown(opened)
    share = (data["status"] == 2).mean(["seed", "scale"]).transpose("lr", "family").values
    np.testing.assert_allclose(np.array(list(rows.values()), float), share, rtol=1e-5)


def test_a_cell_shows_its_runs_and_how_to_train_them_again(opened, folder, tmp_path, monkeypatch):
    choose(opened, x="lr", y="scale", fix_family="separate_reduced", fix_seed="all 2")
    box = opened.locator(".diagram canvas").bounding_box()
    opened.mouse.click(box["x"] + 0.35 * box["width"], box["y"] + 0.7 * box["height"])
    words = opened.inner_text(".told output")
    lr, scale = (part.split(" = ")[1] for part in words.split(":")[0].split(", ")[:2])
    index = [labels_of(folder.plan.axes[0]).index(lr), labels_of(folder.plan.axes[1]).index(scale), 0, 1]
    assert opened.inner_text(".cell h3") == f"lr = {lr}, scale = {scale}, family = separate_reduced"
    assert opened.locator(".cell tbody tr").count() == 2
    before = opened.evaluate("document.querySelector('.cell .chart canvas').toDataURL()")
    opened.locator(".cell tbody button").nth(1).click()
    assert opened.evaluate("document.querySelector('.cell .chart canvas').toDataURL()") != before
    blocks = opened.locator(".again pre")
    command, recipe = blocks.nth(0).text_content(), blocks.nth(1).text_content()
    assert icl.Recipe.from_json(recipe) == folder.plan.recipe(tuple(index))
    _, text, _, name, and_, *train = shlex.split(command)
    assert (and_, train) == ("&&", ["iclearn", "train", "--recipe", "run.json"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    assert main([*train[1:], "--quiet"]) == 0
    stored = float(folder.dataset()["final_loss"].values[tuple(index)])
    assert icl.Store(tmp_path / "runs").list()[0].final_loss == pytest.approx(stored, rel=1e-10)


def test_it_is_used_with_the_keyboard(opened):
    choose(opened, x="lr", y="family")
    opened.locator(".diagram canvas").focus()
    opened.keyboard.press("End")
    opened.keyboard.press("ArrowUp")
    told = opened.inner_text(".told output")
    assert "family = merged_reduced: diverged" in told
    assert "6 diverged" in told
    assert "diverged by step" in opened.inner_text(".cell tbody tr >> nth=0")
    opened.keyboard.press("Home")
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.activeElement.getAttribute('aria-label')") == "choose run 1"
    opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    assert opened.locator(".cell tbody tr[aria-current]").inner_text().startswith("2")
    opened.locator(".cells summary").click()
    opened.wait_for_selector(".cells tr")
    assert opened.locator(".cells tr").count() == 3


def test_axes_that_meet_change_places(opened):
    choose(opened, x="lr", y="scale")
    choose(opened, y="lr")
    assert opened.locator("[data-name=x] option:checked").inner_text() == "scale"
    choose(opened, y="nothing (a profile)", x="lr")
    choose(opened, scale="log")
    assert len(shown(opened)[1]) == 1
    choose(opened, y="lr")
    assert opened.locator("[data-name=x] option:checked").inner_text() != "lr"


def test_what_does_not_fit_is_left_out_and_said(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(sweep_section, "MOST_RUNS", 12)
    monkeypatch.setattr(sweep_section, "CURVE_POINTS", (4, 10))
    facts = sweep_facts(folder)
    assert [len(axis["labels"]) for axis in facts["axes"]] == [2, 3, 2, 1]
    assert facts["left_out"][0] == "To keep this page small it holds 2 of 4 lr, 1 of 2 seed."
    assert facts["left_out"][1] == "Curves are thinned from 33 to 10 points."
    assert all(len(steps) == 10 for steps in facts["curves"]["steps"])
    page = write_whole_report([folder.root], tmp_path / "few.html").read_text()
    assert facts["left_out"][0] in page
    monkeypatch.setattr(sweep_section, "LARGEST", 10)
    assert [len(axis["labels"]) for axis in sweep_facts(folder)["axes"]] == [1, 1, 1, 1]


def test_a_sweep_that_was_only_begun(browser, folder, tmp_path):
    """Nothing is trained yet, over seeds alone."""
    from iclearn.sweeps.api import make_plan

    begun = SweepFolder.create(tmp_path / "begun", make_plan(folder.plan.base, seeds=3))
    page = browser.new_page()
    noise = []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.goto(write_whole_report([begun.root], tmp_path / "begun.html").as_uri())
    page.wait_for_selector("[data-sweep][data-ready]")
    assert "3 not run yet" in page.inner_text(".sweep > p")
    assert page.inner_text(".told output") == "seed = 0: not run (1 run, 1 not run)"
    page.close()
    assert not noise


def test_labels_say_what_differs(folder):
    spectra = [{"shape": "eigenvalues", "parameters": [0.9, 0.1]}, {"shape": "linear"}]
    axes = {
        "spectrum": {"field": "task.covariance", "values": spectra},
        "model.rank": [1, 2],
        "optimizer.lr": [0.1, 0.1 + 1e-9],
    }
    spectrum, rank, lr = map(labels_of, read_axes(folder.plan.base, axes))
    assert spectrum == ["shape eigenvalues, parameters [0.9, 0.1]", "shape linear, parameters []"]
    assert rank == ["1", "2"]
    assert lr == ["0.1", "0.100000001"]
