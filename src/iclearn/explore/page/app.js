/** The application: one state, drawn whenever it changes. */
import { effective, lossForm, lossOf, weightsAt } from "iclearn/engine";
import { explain, short, whole } from "iclearn/explain";
import { commandOf, csvOf, differences, pngOf, pythonOf, recipeOf, save, svgOf } from "iclearn/exports";
import { Controls } from "iclearn/controls";
import { drawOther, explainOther, otherLegends } from "iclearn/others";
import { askPython, referee } from "iclearn/referee";
import { Panels, legends } from "iclearn/panels";
import { PromptPicture, drawHeads, drawLandscape } from "iclearn/pictures";
import { quick, sceneLater, sceneNow } from "iclearn/scenes";
import { History, addressOf, changed, facts, onlyPython, stateOf, trainedInPage } from "iclearn/settings";

const $ = (id) => document.getElementById(id);
const history_ = new History();
const panels = new Panels((step) => setStep(step, true));
const prompt = new PromptPicture($("prompt"));
let state = stateOf(location.hash).state;
let scene = null;
let other = null;
let turn = 0;
let placeHere = () => {};
let playing = 0;
const answers = new Map(); // what Python said of earlier settings, to compare with

function say(text, kind = "problem") {
  $("message").textContent = text;
  $("message").className = kind;
  $("message").hidden = !text;
}

function stepOf() {
  const last = scene.setting.steps;
  return state.step < 0 ? Math.round(0.45 * last) : Math.min(state.step, last);
}

/** Draw what depends on the time only. */
function drawTime() {
  if (!scene) return;
  const step = stepOf();
  const { setting, result } = scene;
  const last = setting.steps;
  panels.mark(step);
  $("time").max = 1000;
  $("time").value = state.log ? (1000 * Math.log(step + 1)) / Math.log(last + 1) : (1000 * step) / last;
  $("time").setAttribute("aria-valuetext", `step ${step} of ${last}`);
  $("when").textContent = `step ${whole(step)} of ${whole(last)}`;
  if (scene.onlyPython) {
    $("clock").textContent = scene.python?.losses ? `loss ${short(scene.python.losses[Math.min(step, scene.python.losses.length - 1)], 4)}` : "";
    $("explain").textContent = explainOther(step, scene);
    return;
  }
  const form = lossForm(setting);
  const weights = weightsAt(result, step);
  const matrix = effective(setting, weights, new Float64Array(form.values.length ** 2));
  const loss = lossOf(form, matrix);
  $("clock").textContent = `t/τ = ${short(2 * setting.lr * step)}, loss ${short(loss, 4)}`;
  let top = 1e-12;
  for (let i = setting.heads; i < result.final.length; i++) top = Math.max(top, Math.abs(result.final[i]));
  drawHeads($("heads"), setting, weights, top, other ? "this setting" : "");
  if (other) {
    const beside = document.createElement("div");
    const theirs = weightsAt(other.result, Math.min(step, other.setting.steps));
    let most = 1e-12;
    for (let i = other.setting.heads; i < other.result.final.length; i++) most = Math.max(most, Math.abs(other.result.final[i]));
    drawHeads(beside, other.setting, theirs, most, "compared with");
    $("heads").append(beside);
  }
  $("heads").dataset.step = step;
  $("heads").setAttribute("aria-label", headWords(setting, weights));
  let progress = 0;
  form.values.forEach((_, d) => {
    const dim = form.values.length;
    progress += Math.min(1, Math.max(0, (matrix[d * dim + d] * form.brake[d * dim + d]) / form.pull[d]));
  });
  placeHere(progress, loss);
  prompt.update(setting, form.values, form.gain, matrix);
  const whose = trainedInPage(state.setting) ? "" : "Of linear attention with infinitely many prompts: ";
  $("explain").textContent = whose + explain(step, loss, scene, weights);
}

function headWords(setting, weights) {
  const list = Array.from({ length: setting.heads }, (_, h) => `head ${h + 1}: value ${weights[h].toFixed(2)}`);
  return `Weights of the heads in the eigenbasis. ${list.join(", ")}.`;
}

/** Draw everything of the current scene. */
function drawScene() {
  const kept = state.other ? answers.get(JSON.stringify(state.other)) : null;
  document.body.dataset.alone = scene.onlyPython ? "yes" : "";
  document.body.dataset.measures = scene.python?.measures ? "yes" : "";
  if (scene.onlyPython) drawOther(panels, scene, kept, state.log);
  else panels.draw(scene, other, state.log);
  const words = scene.onlyPython ? otherLegends(scene, kept) : legends(scene, other);
  for (const name of ["loss", "values", "distances"]) $(`${name}-legend`).innerHTML = words[name];
  if (!scene.onlyPython) placeHere = drawLandscape($("landscape"), scene);
  drawTime();
  const { result } = scene;
  const ended = scene.onlyPython ? "trained by Python" : result.divergedAt >= 0 ? `diverged at step ${whole(result.divergedAt)}` : `final loss ${short(result.losses.at(-1), 5)}`;
  $("summary").textContent = `${whole(scene.setting.steps)} steps, ${ended}`;
  $("pairs").textContent = other ? differences(state.setting, state.other).join("; ") || "the two settings are the same" : "";
  document.body.dataset.shown = addressOf({ ...state, step: -1 });
  document.body.dataset.turn = turn;
}

/** Bring the picture up to the state; the newest state wins. */
async function refresh() {
  const mine = ++turn;
  const current = () => mine === turn;
  document.body.dataset.busy = "1";
  try {
    const same = other && JSON.stringify(state.other) === JSON.stringify(other.asked);
    if (!state.other) other = null;
    else if (!same) {
      const found = await sceneLater(state.other, current);
      if (!found) return;
      other = { ...found, asked: state.other };
    }
    const found = quick(state.setting) ? sceneNow(state.setting) : await sceneLater(state.setting, current);
    if (!found || !current()) return;
    const python = scene?.python;
    scene = { ...found, onlyPython: onlyPython(state.setting) };
    const key = JSON.stringify(state.setting);
    if (python && python.key === key) scene.python = python;
    drawScene();
    if (!scene.python) askPython(state.setting, key, current, takePython);
  } catch (error) {
    if (current()) say(error.message);
  } finally {
    if (current()) document.body.dataset.busy = "";
  }
}

/** Show what Python says of the current setting. */
function takePython(answer) {
  scene.python = answer;
  answers.set(answer.key, answer);
  if (answers.size > 8) answers.delete(answers.keys().next().value);
  drawScene();
  if (trainedInPage(state.setting)) referee(answer, scene.result);
}

let queued = false;
function queue() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    refresh();
  });
}

/** Change the state. `final`: the change is whole, and can be undone. */
function set(change, final = true, { preset } = {}) {
  state = { ...state, ...change };
  controls.show(state.setting);
  if (final) {
    const address = addressOf(state);
    history_.push(address);
    history.replaceState(null, "", `#${address}`);
    buttons();
  }
  if (!preset) markPreset();
  say("");
  queue();
}

function setStep(step, final) {
  state = { ...state, step: Math.max(0, Math.min(scene?.setting.steps ?? step, step)) };
  if (final) history.replaceState(null, "", `#${addressOf(state)}`);
  requestAnimationFrame(drawTime);
}

function buttons() {
  $("undo").disabled = history_.past.length === 0;
  $("redo").disabled = history_.future.length === 0;
  $("compare").setAttribute("aria-pressed", String(Boolean(state.other)));
  $("compare").textContent = state.other ? "Stop comparing" : "Compare";
  $("log").setAttribute("aria-pressed", String(state.log));
}

function markPreset() {
  const found = facts.presets.find((p) => Object.keys(p.setting).every((name) => String(p.setting[name]) === String(state.setting[name])));
  $("preset").value = found?.name ?? "";
  $("about").textContent = found?.about ?? "";
}

/** Take the state from an address, saying what was wrong with it. */
function open(address, remember = true) {
  const read = stateOf(address);
  state = read.state;
  controls.show(state.setting);
  if (remember) history_.push(addressOf(state));
  history.replaceState(null, "", `#${addressOf(state)}`);
  buttons();
  markPreset();
  say(read.problems.join("; "));
  queue();
}

const controls = new Controls($("controls"), (name, value, final) => {
  set({ setting: changed(state.setting, name, value) }, final);
}, say);

/** A step further in time, or on and on. */
function play(on = !playing) {
  cancelAnimationFrame(playing);
  playing = 0;
  $("play").textContent = on ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", on ? "pause" : "play");
  if (!on) return;
  const last = scene.setting.steps;
  let place = stepOf() >= last ? 0 : state.log ? Math.log(stepOf() + 1) / Math.log(last + 1) : stepOf() / last;
  let before = performance.now();
  const frame = (now) => {
    place += (now - before) / 9000;
    before = now;
    setStep(Math.round(state.log ? (last + 1) ** Math.min(1, place) - 1 : last * Math.min(1, place)), false);
    if (place >= 1) play(false);
    else playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
}

const step = () => Math.max(1, Math.round(scene.setting.steps / 200));
const KEYS = {
  " ": () => play(),
  ArrowRight: (e) => setStep(stepOf() + step() * (e.shiftKey ? 10 : 1), true),
  ArrowLeft: (e) => setStep(stepOf() - step() * (e.shiftKey ? 10 : 1), true),
  Home: () => setStep(0, true),
  End: () => setStep(scene.setting.steps, true),
  l: () => $("log").click(),
  c: () => $("compare").click(),
  p: () => $("again").click(),
  e: () => $("export").click(),
  u: () => $("undo").click(),
  "?": () => $("help").showModal(),
};

function wire() {
  $("preset").innerHTML = `<option value="">your own</option>${facts.presets.map((p) => `<option value="${p.name}">${p.title}</option>`).join("")}`;
  $("preset").addEventListener("change", () => {
    if ($("preset").value) open(`preset=${$("preset").value}`);
  });
  $("undo").addEventListener("click", () => open(history_.undo() ?? addressOf(state), false));
  $("redo").addEventListener("click", () => open(history_.redo() ?? addressOf(state), false));
  $("compare").addEventListener("click", () => set({ other: state.other ? null : { ...state.setting } }));
  $("log").addEventListener("click", () => set({ log: !state.log }));
  $("play").addEventListener("click", () => play());
  $("again").addEventListener("click", () => {
    prompt.again();
    drawTime();
  });
  $("time").addEventListener("input", () => {
    const part = Number($("time").value) / 1000;
    const last = scene.setting.steps;
    setStep(Math.round(state.log ? (last + 1) ** part - 1 : last * part), false);
  });
  $("time").addEventListener("change", () => setStep(stepOf(), true));
  $("export").addEventListener("click", openExport);
  $("about-keys").addEventListener("click", () => $("help").showModal());
  addEventListener("hashchange", () => open(location.hash));
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea, dialog");
    if ((event.ctrlKey || event.metaKey) && event.key === "z") {
      event.preventDefault();
      $(event.shiftKey ? "redo" : "undo").click();
    } else if ((event.ctrlKey || event.metaKey) && event.key === "y") {
      event.preventDefault();
      $("redo").click();
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && KEYS[event.key] && scene) {
      if (event.key === " " && event.target.closest?.("button, summary")) return;
      event.preventDefault();
      KEYS[event.key](event);
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => scene && drawScene());
}

function openExport() {
  const { setting } = state;
  $("x-link").value = location.href;
  $("x-recipe").value = JSON.stringify(recipeOf(setting), null, 1);
  $("x-command").value = commandOf(setting) ?? "Only a recipe can say this: save it, then iclearn train --recipe FILE";
  $("x-python").value = pythonOf(setting);
  $("exports").showModal();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const field = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      field.select();
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1200);
  });
}
const pictureOf = () => svgOf(scene, other, state.log);
$("save-svg").addEventListener("click", () => save("iclearn-loss.svg", pictureOf(), "image/svg+xml"));
$("save-png").addEventListener("click", async () => save("iclearn-loss.png", await pngOf(pictureOf())));
$("save-csv").addEventListener("click", () => save("iclearn-run.csv", csvOf(scene), "text/csv"));
$("save-recipe").addEventListener("click", () => save("iclearn-recipe.json", `${$("x-recipe").value}\n`, "application/json"));

wire();
open(location.hash);
