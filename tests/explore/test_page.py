"""The explorer alone in its file, as a person uses it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from frames import until

import iclearn as icl
from iclearn.cli.parsing import parse
from iclearn.cli.train_flags import PUBLIC_FLAGS, TrainArgs
from iclearn.explore.presets import PRESETS
from iclearn.explore.settings import CONTROLS, OTHERS, Setting
from iclearn.papers.collect import load_paper
from iclearn.store.linattn import recipe_of_flags

# What a control is set to, and what then shows in the address.
CHANGES = {
    "family": ("merged", "family=merged"), "heads": ("3", "heads=3"), "rank": ("2", "rank=2"),
    "dim": ("2", "eigenvalues=0.4,0.3"), "context": ("12", "context=12"), "normalize": ("context", "normalize=context"),
    "init": ("0.05", "init=0.05"), "scheme": ("per_head", "scheme=per_head"), "lr": ("0.01", "lr=0.01"),
    "steps": ("3000", "steps=3000"), "seed": ("4", "seed=4"),
}  # fmt: skip


def curve(tab):
    """The loss panel's numbers: pixels of its canvas, which differ when anything drawn does."""
    return tab.page.evaluate("document.querySelector('#loss canvas').toDataURL()")


def settle_frames(tab):
    tab.page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")


@pytest.mark.parametrize("name", list(CHANGES))
def test_every_control_changes_the_run_and_the_address(tab, name):
    value, expected = CHANGES[name]
    before = curve(tab)
    rule = next(c for c in CONTROLS if c["name"] == name)
    if "choices" in rule:
        tab.page.select_option(f"#c-{name}", value)
    else:
        tab.page.fill(f"#n-{name}", value)
        tab.page.press(f"#n-{name}", "Enter")
    tab.settled()
    assert expected in tab.page.evaluate("location.hash")
    settle_frames(tab)
    assert curve(tab) != before
    assert tab.page.evaluate("document.body.dataset.shown").count(expected) == 1


def test_the_table_of_changes_is_whole():
    in_page = {c["name"] for c in CONTROLS if c["group"] not in ("python", "documents")}
    assert in_page - {"eigenvalues"} == set(CHANGES)


def test_an_eigenvalue_is_dragged(tab):
    before = curve(tab)
    slider = tab.page.locator("#c-eigenvalue-4")
    slider.focus()
    for _ in range(30):
        tab.page.keyboard.press("ArrowUp")
    tab.settled()
    values = [float(v) for v in re.search(r"eigenvalues=([^&]*)", tab.page.evaluate("location.hash"))[1].split(",")]
    assert 0.1 < values[3] < 0.2
    settle_frames(tab)
    assert curve(tab) != before


def test_the_time_slider_moves_all_panels(tab):
    page = tab.page

    def everything():
        return page.evaluate(
            """() => { const of = (id) => document.getElementById(id);
              return {loss: of("loss").dataset.step, values: of("values").dataset.step, heads: of("heads").innerHTML,
                distances: of("distances").dataset.step, prompt: of("prompt").dataset.guess,
                landscape: of("landscape").dataset.here, explain: of("explain").textContent,
                when: of("when").textContent}; }"""
        )

    def move_to(part):
        page.evaluate(
            """part => { const t = document.getElementById("time"); t.value = part;
              t.dispatchEvent(new Event("input")); }""",
            part,
        )
        settle_frames(tab)

    move_to(20)
    early = everything()
    move_to(600)
    late = everything()
    assert all(early[name] != late[name] for name in early), {n: early[n] for n in early if early[n] == late[n]}
    assert late["loss"] == late["values"] == late["distances"]
    assert "L(M₀)" in early["explain"]


def test_the_weights_shown_are_those_of_that_step(tab):
    """At a step that was not recorded, from the record before it."""
    setting = Setting(steps=2000)
    ours = tab.page.evaluate(
        """async (setting) => {
          const { train, weightsAt } = await import("iclearn/engine");
          const { normalsOf } = await import("iclearn/settings");
          const whole = train(setting, normalsOf(setting.seed), 50);
          const short = train({ ...setting, steps: 777 }, normalsOf(setting.seed));
          return [Array.from(weightsAt(whole, 777)), Array.from(short.final)];
        }""",
        vars(setting),
    )
    np.testing.assert_array_equal(*ours)


def test_a_link_restores_everything(tab, browser, page_file):
    tab.set_hash("family=merged&heads=3&init=0.001&steps=2500&step=321&log=1&vs=heads%3D2")
    address = tab.page.url
    again = browser.new_context().new_page()
    again.goto(address)
    again.wait_for_selector('body[data-shown][data-busy=""]')
    for one in (tab.page, again):
        assert one.input_value("#n-heads") == "3"
        assert one.input_value("#c-family") == "merged"
        assert one.inner_text("#when").startswith("step 321 of 2,500")
        assert one.get_attribute("#log", "aria-pressed") == "true"
        assert "heads: 3 here, 2 beside" in one.inner_text("#pairs")
    again.context.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("heads=40", "heads H must be a whole number from 1 to 9"),
        ("lr=fast", "learning rate must be a number"),
        ("eigenvalues=0.4,-1", "positive"),
        ("nonsense=1", "no setting “nonsense”"),
        ("preset=fig99", "no preset “fig99”"),
        ("step=abc", "step must be a whole number"),
        ("family=<img src=x onerror=alert(1)>", "keys and queries must be one of"),
    ],
)
def test_a_bad_address_gets_a_message(tab, address, words):
    tab.set_hash(address)
    assert words in tab.page.inner_text("#message")
    tab.page.fill("#n-heads", "4")  # and the session goes on
    tab.page.press("#n-heads", "Enter")
    tab.settled()
    assert "heads=4" in tab.page.url
    assert tab.page.is_hidden("#message")


def test_a_bad_number_gets_a_message_and_the_old_value(tab):
    tab.page.fill("#n-heads", "77")
    tab.page.press("#n-heads", "Enter")
    assert "from 1 to 9" in tab.page.inner_text("#message")
    assert tab.page.input_value("#n-heads") == "5"


def test_undo_redo_and_compare(tab):
    page = tab.page
    for heads in ("4", "3"):
        page.fill("#n-heads", heads)
        page.press("#n-heads", "Enter")
        tab.settled()
    page.locator("#time").focus()
    page.keyboard.press("Control+z")
    tab.settled()
    assert page.input_value("#n-heads") == "4"
    page.click("#redo")
    tab.settled()
    assert page.input_value("#n-heads") == "3"
    page.click("#compare")
    page.fill("#n-heads", "6")
    page.press("#n-heads", "Enter")
    tab.settled()
    assert "heads: 6 here, 3 beside" in page.inner_text("#pairs")
    assert "compared with" in page.inner_text("#heads")


def test_keys_move_time_and_play(tab):
    page = tab.page
    page.locator("body").click(position={"x": 5, "y": 5})
    page.keyboard.press("Home")
    settle_frames(tab)
    assert page.inner_text("#when").startswith("step 0 ")
    page.keyboard.press("ArrowRight")
    settle_frames(tab)
    assert page.inner_text("#when").startswith("step 50 ")
    page.keyboard.press(" ")
    until(page, "() => Number(document.getElementById('when').innerText.split(' ')[1].replace(',', '')) > 60")
    page.keyboard.press(" ")


def test_a_prompt_is_edited_by_dragging(tab):
    tab.set_hash("eigenvalues=0.5&heads=1&steps=3000&init=0.05")
    page = tab.page
    for dim, target in ((1, ".point"), (2, ".truth-tip"), (4, ".truth-tip")):
        tab.set_hash(f"eigenvalues={','.join(['0.5', '0.3', '0.2', '0.1'][:dim])}&init=0.05&steps=3000&step=2500")
        page.evaluate("document.getElementById('prompt').scrollIntoView({block: 'center'})")
        before = page.get_attribute("#prompt", "data-guess")
        box = page.locator(f"#prompt {target}").first.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 25, y + 25, steps=3)
        page.mouse.up()
        assert page.get_attribute("#prompt", "data-guess") != before, dim


def test_the_model_reads_the_task_vector_off_a_long_context(tab):
    """After training, with many pairs, ŵ is w shrunk a little: the prompt panel computes the right thing."""
    tab.set_hash("eigenvalues=0.6,0.4&heads=4&context=200&normalize=context&init=0.3&lr=0.1&steps=4000&step=4000")
    found = tab.page.evaluate(
        """() => { const words = document.querySelector('#prompt svg').getAttribute('aria-label');
          return [...words.matchAll(/true (\\S+), answered ([-0-9.]+)/g)].map((m) => [Number(m[1]), Number(m[2])]); }"""
    )
    for truth, answer in found:
        assert abs(answer - truth) < 0.35 * max(1, abs(truth))


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_every_preset_opens(tab, preset):
    tab.set_hash(f"preset={preset.name}")
    assert tab.page.input_value("#preset") == preset.name
    assert tab.page.is_hidden("#message")
    if preset.setting.kind in OTHERS:  # the file alone says where its run is to be seen
        assert "`iclearn explore`" in tab.page.inner_text("#explain")
        assert tab.page.is_hidden("#landscape")
    else:
        assert "final loss" in tab.page.inner_text("#summary")  # none diverges
    assert preset.setting.recipe().steps == preset.setting.steps


def test_presets_cover_the_figures_that_are_training_runs():
    """What is left out is listed in docs/explore.md, with the reason."""
    told = (Path(__file__).parents[2] / "docs" / "explore.md").read_text()
    shown = {(p.paper, p.figure) for p in PRESETS}
    for name in ("zhang2025", "xie2025", "li2024"):
        for figure in load_paper(name).figures:
            assert (name, figure.id) in shown or f"`{figure.id}`" in told, (name, figure.id)


BY_NAME = {p.name: p for p in PRESETS}
EXPORTED = [PRESETS[0], PRESETS[1], PRESETS[7], *(BY_NAME[n] for n in ("fig5", "xie-floor", "li-steps", "li-layer-b"))]


@pytest.mark.parametrize("preset", EXPORTED, ids=lambda p: p.name)
def test_what_is_exported_means_the_same_run(tab, preset):
    """Recipe, command line and Python snippet against the recipe that Python makes of the setting."""
    tab.set_hash(f"preset={preset.name}")
    tab.page.click("#export")
    told = {name: tab.page.input_value(f"#x-{name}") for name in ("recipe", "command", "python", "link")}
    expected = preset.setting.recipe().replace(record=icl.Record())
    assert icl.Recipe.from_json(told["recipe"]) == expected
    if preset.setting.kind in OTHERS:
        assert "--recipe FILE" in told["command"]
    else:
        words = shlex.split(told["command"])
        assert words[:2] == ["iclearn", "train"]
        assert recipe_of_flags(parse(TrainArgs, words[2:], "iclearn train", PUBLIC_FLAGS))[0] == expected
    compile(told["python"], "snippet", "exec")
    assert json.loads(told["python"].split("from_json('")[1].split("')")[0]) == json.loads(told["recipe"])
    assert told["link"] == tab.page.url


def test_the_python_snippet_runs(tab, tmp_path):
    tab.set_hash("eigenvalues=0.6,0.4&heads=2&steps=200&init=0.2")
    tab.page.click("#export")
    file = tmp_path / "snippet.py"
    file.write_text(tab.page.input_value("#x-python"))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-500:]


def test_pictures_and_table_are_saved(tab, tmp_path):
    tab.page.click("#export")
    for button, name in (
        ("svg", "iclearn-loss.svg"),
        ("png", "iclearn-loss.png"),
        ("csv", "iclearn-run.csv"),
    ):
        with tab.page.expect_download() as info:
            tab.page.click(f"#save-{button}")
        assert info.value.suggested_filename == name
        info.value.save_as(tmp_path / name)
    assert (tmp_path / "iclearn-loss.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "iclearn-loss.svg").read_text().count("<polyline") == 2
    table = np.genfromtxt(tmp_path / "iclearn-run.csv", delimiter=",", names=True)
    trace = icl.simulate(Setting().recipe())
    np.testing.assert_allclose(table["loss"], trace.loss.values[table["step"].astype(int)], rtol=1e-9)
    theory = icl.predict(trace)["loss"].values[table["step"].astype(int)]
    np.testing.assert_allclose(table["theory_loss"], theory, atol=2e-3)


def test_a_run_that_diverges_says_so(tab):
    tab.set_hash("lr=1&init=1&steps=500&step=500")
    assert "diverged at step" in tab.page.inner_text("#summary")
    assert "diverged" in tab.page.inner_text("#explain")


def test_large_runs_go_to_a_worker_and_the_newest_wins(tab):
    """D = 8, R = 8 takes a second: the last setting is shown, not the last to finish."""
    page = tab.page
    tab.set_hash("preset=fig4r8")
    for scale in ("0.01", "0.02", "0.03"):
        page.fill("#n-init", scale)
        page.press("#n-init", "Enter")
        settle_frames(tab)  # it has begun
    tab.settled()
    assert "init=0.03" in page.evaluate("document.body.dataset.shown")
    assert page.evaluate("document.body.dataset.worker") == ""  # the worker did it, and had nothing to complain of


def test_the_file_asks_for_nothing(tab, page_file):
    tab.set_hash("preset=fig4r2")
    assert all(url.startswith(("blob:", "data:")) or url.startswith(page_file.as_uri()) for url in tab.requests)
    assert page_file.stat().st_size < 600_000
