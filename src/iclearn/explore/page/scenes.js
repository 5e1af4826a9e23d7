/** From a setting to everything that is drawn of it; large trainings go to a worker, and the newest setting wins. */
import { Training, costOf, gainOf, initialWeights, sizesOf, sortedSpectrum } from "iclearn/engine";
import { findPlateaus } from "iclearn/plateaus";
import { recordedCurves, sampleSteps } from "iclearn/reading";
import { keepNormals, normalsOf } from "iclearn/settings";
import { ask, served } from "iclearn/link";
import { theoryOf } from "iclearn/theory";

const QUICK = 16; // milliseconds a training may take on the page's own thread
let speed = 4e5; // operations a millisecond, measured as it goes

/** The setting as the engine needs it: only what the page trains. */
function core(setting) {
  const { family, eigenvalues, heads, rank, context, init, scheme, normalize, lr, steps, seed } = setting;
  return { family, eigenvalues, heads, rank, context, init, scheme, normalize, lr, steps, seed };
}

/** Everything to be drawn of a finished training. */
export function sceneOf(setting, result, start) {
  const sizes = sizesOf(setting);
  const values = sortedSpectrum(setting);
  const gain = gainOf(setting);
  const theory = theoryOf(setting, start, sizes, values, gain, sampleSteps(setting.steps));
  const { heights } = theory.levels;
  const last = heights.length - 1;
  const visitedNames = sizes.merged ? [0, last] : [...heights.keys()];
  const visited = visitedNames.map((m) => heights[m]);
  const found = [];
  const plateaus = (log) => (found[Number(log)] ??= findPlateaus(result.losses, log) ?? []); // read when they are drawn
  return { setting, result, start, sizes, values, gain, theory, visited, visitedNames, plateaus, curves: recordedCurves(result) };
}

let worker = null;
let broken = ""; // why there is no worker
let requests = 0;
const waiting = new Map();

function workerOf() {
  if (worker) return worker;
  const text = (selector) => document.querySelector(selector).textContent;
  const source = text("script[data-module=engine]").replace(/^export /gm, "") + text("#worker"); // no module: see file://
  worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  worker.onerror = (event) => {
    broken = event.message || "the worker could not be started";
    for (const done of waiting.values()) done({ error: broken });
    waiting.clear();
  };
  worker.onmessage = ({ data }) => {
    waiting.get(data.id)?.(data);
    waiting.delete(data.id);
  };
  return worker;
}

function inWorker(setting, normals) {
  const id = ++requests;
  for (const [older, drop] of waiting) {
    drop({ stale: true });
    waiting.delete(older);
  }
  if (broken) return Promise.resolve({ error: broken });
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    workerOf().postMessage({ id, setting, normals });
  });
}

/** Train in parts on this thread, letting the page breathe: where there is no worker. */
async function inParts(setting, start, current) {
  const training = new Training(setting, start);
  const part = Math.max(1, Math.floor((8 * speed * setting.steps) / costOf(setting)));
  while (!training.finished) {
    training.advance(part);
    await new Promise((resolve) => setTimeout(resolve));
    if (!current()) return null;
  }
  return training.result();
}

/** Normals of a seed: carried by the page, or from the server. */
export async function fetchNormals(seed) {
  const here = normalsOf(seed);
  if (here) return here;
  if (!served) throw new Error(`this file carries the initial weights of seeds 0 to 7 only: start \`iclearn explore\` for seed ${seed}`);
  const answer = await ask("normals", { seed });
  keepNormals(seed, answer.normals);
  return normalsOf(seed);
}

/** Whether a setting is trained at once, within the frame. */
export function quick(setting) {
  return normalsOf(setting.seed) !== null && costOf(core(setting)) / speed < QUICK;
}

/** The scene of a setting that is `quick`, now. */
export function sceneNow(setting) {
  const own = core(setting);
  const start = initialWeights(own, normalsOf(setting.seed));
  const training = new Training(own, start);
  const begin = performance.now();
  training.advance(own.steps);
  const spent = performance.now() - begin;
  if (spent > 2) speed = Math.max(2e4, 0.7 * speed + (0.3 * costOf(own)) / spent);
  return sceneOf(own, training.result(), start);
}

/** The scene of any setting; null where a newer one has been asked for meanwhile. */
export async function sceneLater(setting, current) {
  const own = core(setting);
  const normals = await fetchNormals(setting.seed);
  if (!current()) return null;
  const start = initialWeights(own, normals);
  const answer = await inWorker(own, normals);
  if (answer.stale) return null;
  document.body.dataset.worker = answer.error ?? "";
  const result = answer.error ? await inParts(own, start, current) : answer.result;
  return result && current() ? sceneOf(own, result, start) : null;
}
