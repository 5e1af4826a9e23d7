/** The state of the page: one setting, perhaps a second one beside it, and a point in time. It is the page's address. */

export const facts = JSON.parse(document.getElementById("facts").textContent);
export const controls = facts.controls;
export const defaults = facts.defaults;
const control = Object.fromEntries(controls.map((c) => [c.name, c]));

/** The names of the settings, `dim` apart, which is how many eigenvalues there are. */
export const names = Object.keys(defaults);

/** Whether the page trains this setting itself. */
export function trainedInPage(setting) {
  const beyond = controls.filter((c) => c.group === "python" || c.group === "documents").map((c) => c.name);
  return beyond.every((name) => setting[name] === defaults[name]);
}

/** Whether only Python can say anything of this setting: beside it linear attention would mean nothing. */
export function onlyPython(setting) {
  return facts.others.includes(setting.kind);
}

/** The largest seed: a page alone carries the initial weights of a few. */
export function largestSeed() {
  return facts.server ? 2 ** 31 - 1 : control.seed.max;
}

/** The sentence that says why a value cannot be, or null. */
export function problemWith(name, value, setting) {
  const rule = control[name];
  if (rule.choices) {
    return rule.choices.includes(value) ? null : `${rule.label} must be one of ${rule.choices.join(", ")}, not “${value}”`;
  }
  if (name === "eigenvalues") {
    if (!Array.isArray(value) || value.length < 1 || value.length > control.dim.max) {
      return `give 1 to ${control.dim.max} eigenvalues`;
    }
    const bad = value.find((v) => !(Number.isFinite(v) && v > 0 && v <= 100));
    return bad === undefined ? null : `an eigenvalue must be a positive number up to 100, not “${bad}”`;
  }
  const most = name === "seed" ? largestSeed() : rule.max;
  const whole = rule.step >= 1;
  if (!Number.isFinite(value) || value < rule.min || value > most || (whole && !Number.isInteger(value))) {
    return `${rule.label} must be ${whole ? "a whole number" : "a number"} from ${rule.min} to ${most}, not “${value}”`;
  }
  const entries = setting ? setting.eigenvalues.length + 1 : Infinity;
  if (name === "rank" && value > entries) return `rank R must be at most D + 1 = ${entries}, not ${value}`;
  return null;
}

/** A setting with one value changed: what else must change with it does. */
export function changed(setting, name, value) {
  const next = { ...setting };
  if (name === "dim") next.eigenvalues = resized(setting.eigenvalues, value);
  else next[name] = value;
  next.rank = Math.min(next.rank, next.eigenvalues.length + 1);
  if (next.kind === "documents") {
    next.batch ||= 64; // documents are always drawn afresh
    next.context = Math.min(Math.max(next.context, 2), 400);
  }
  return next;
}

/** Eigenvalues of another dimension: those that are there, and smaller and smaller ones. */
function resized(eigenvalues, dim) {
  const next = [...eigenvalues].sort((a, b) => b - a).slice(0, dim);
  while (next.length < dim) next.push(Math.max(0.01, Math.round(next[next.length - 1] * 75) / 100));
  return next;
}

function write(setting) {
  return names
    .filter((name) => String(setting[name]) !== String(defaults[name]))
    .map((name) => `${name}=${setting[name]}`)
    .join("&");
}

/** The address of a state, what follows the #. */
export function addressOf(state) {
  const parts = [write(state.setting)];
  if (state.step >= 0) parts.push(`step=${state.step}`);
  if (state.log) parts.push("log=1");
  if (state.other) parts.push(`vs=${encodeURIComponent(write(state.other) || "default")}`);
  return parts.filter(Boolean).join("&") || "default";
}

function readSetting(pairs, problems) {
  let setting = { ...defaults };
  const given = new Map(pairs);
  const preset = facts.presets.find((p) => p.name === given.get("preset"));
  if (preset) setting = { ...preset.setting };
  const values = new Map();
  for (const [name, text] of given) {
    if (["step", "log", "vs", "preset", "default"].includes(name)) continue;
    if (!names.includes(name)) {
      problems.push(`there is no setting “${name}”`);
      continue;
    }
    const kind = typeof defaults[name];
    let value = text;
    if (name === "eigenvalues") value = text.split(",").map(Number);
    else if (kind === "number") value = text === "" ? NaN : Number(text);
    else if (kind === "boolean") value = text === "true";
    values.set(name, value);
  }
  for (const name of [...values.keys()].sort()) { // eigenvalues come before rank
    const problem = problemWith(name, values.get(name), setting);
    if (problem) problems.push(problem);
    else setting[name] = values.get(name);
  }
  setting.rank = Math.min(setting.rank, setting.eigenvalues.length + 1);
  if (given.has("preset") && !preset) problems.push(`there is no preset “${given.get("preset")}”`);
  return { setting, preset };
}

/** The state that an address means, and what was wrong with it. */
export function stateOf(address) {
  const problems = [];
  const split = (text) => [...new URLSearchParams(text)];
  const pairs = split(address.replace(/^#/, ""));
  const given = new Map(pairs);
  const { setting, preset } = readSetting(pairs, problems);
  let step = given.has("step") ? Number(given.get("step")) : -1;
  if (!Number.isInteger(step) || step < -1) {
    problems.push(`step must be a whole number, not “${given.get("step")}”`);
    step = -1;
  }
  const log = given.has("log") ? given.get("log") === "1" : Boolean(preset?.log);
  const other = given.has("vs") ? readSetting(split(given.get("vs")), problems).setting : null;
  return { state: { setting, step, log, other }, problems, preset };
}

/** States one after the other, to go back and forth. */
export class History {
  constructor() {
    this.past = [];
    this.future = [];
    this.now = null;
  }

  push(address) {
    if (address === this.now) return;
    if (this.now !== null) this.past.push(this.now);
    this.past = this.past.slice(-200);
    this.future = [];
    this.now = address;
  }

  move(from, to) {
    if (!from.length) return null;
    to.push(this.now);
    this.now = from.pop();
    return this.now;
  }

  undo() {
    return this.move(this.past, this.future);
  }

  redo() {
    return this.move(this.future, this.past);
  }
}

/** Standard normals of a seed, where the page carries them; null elsewhere. */
const decoded = new Map();
export function normalsOf(seed) {
  if (!decoded.has(seed)) {
    const rows = facts.normals[seed];
    if (!rows) return null;
    decoded.set(seed, decode(rows));
  }
  return decoded.get(seed);
}

function decode(rows) {
  return Object.fromEntries(Object.entries(rows).map(([name, text]) => [name, numbers(text)]));
}

/** Keep the normals of a seed that the server has sent. */
export function keepNormals(seed, rows) {
  decoded.set(seed, decode(rows));
}

/** Numbers from base64 of little-endian float64. */
export function numbers(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}
