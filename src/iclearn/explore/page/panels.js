/** The panels with curves, drawn by uPlot: loss, value weights, distances. A line in each marks the time. */
import { sub } from "iclearn/explain";
import { at, sampleSteps } from "iclearn/reading";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** The color of head (or component) number i. */
export const color = (i) => css(`--c${i % 9}`);

/** One panel: its plot is made anew when the kinds of its curves change, and gets new numbers otherwise. */
class LinePanel {
  constructor(host, label, onTime) {
    Object.assign(this, { host, label, onTime, plot: null, signature: "", extras: {} });
    new ResizeObserver(() => this.resize()).observe(host);
  }

  size() {
    return { width: Math.max(220, this.host.clientWidth), height: Math.max(150, this.host.clientHeight) };
  }

  resize() {
    if (this.plot) this.plot.setSize(this.size());
    this.mark(this.step);
  }

  /** Draw `series` ({label, data, color, width, dash}) over the steps `x`. */
  draw(x, series, { log, extras = {}, range }) {
    this.log = log;
    this.extras = extras;
    const shift = log ? 1 : 0; // a logarithmic axis begins at 1
    const data = [Array.from(x, (step) => step + shift), ...series.map((s) => Array.from(s.data))];
    const look = series.map((s) => [s.label, s.color, s.width, s.dash]);
    const signature = JSON.stringify([log, look, css("--ink"), range === undefined]);
    this.range = range;
    if (signature !== this.signature) {
      this.plot?.destroy();
      this.signature = signature;
      this.plot = new uPlot(this.options(series, log), data, this.host);
      this.marker = document.createElement("div");
      this.marker.className = "marker";
      this.plot.over.append(this.marker);
      this.pointer(this.plot.over);
    } else this.plot.setData(data);
    this.mark(this.step);
  }

  options(series, log) {
    const grid = { stroke: css("--grid"), width: 1 };
    const axis = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const whole = (u, splits) => splits.map((s) => (s === null ? "" : s >= 1000 ? `${s / 1000}k` : String(s)));
    return {
      ...this.size(),
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      legend: { show: false },
      padding: [10, this.label === "loss" ? 44 : 12, 0, 0],
      scales: { x: { time: false, distr: log ? 3 : 1, range: (u, low, high) => [low, high] }, y: { range: (u, low, high) => this.range ?? padded(low, high) } },
      axes: [
        { ...axis, size: 32, values: whole, space: 60 },
        { ...axis, size: 46 },
      ],
      series: [
        {},
        ...series.map((s) => ({
          label: s.label, stroke: s.color, width: s.width ?? 2, dash: s.dash, points: { show: false }, spanGaps: false,
        })),
      ],
      hooks: { drawClear: [(u) => this.extras.below?.(u)], draw: [() => this.mark(this.step)] },
    };
  }

  /** Clicking or dragging in a panel moves the time. */
  pointer(over) {
    const go = (event) => {
      const x = event.clientX - over.getBoundingClientRect().left;
      this.onTime(Math.round(this.plot.posToVal(x, "x")) - (this.log ? 1 : 0));
    };
    over.addEventListener("pointerdown", (event) => {
      over.setPointerCapture(event.pointerId);
      go(event);
    });
    over.addEventListener("pointermove", (event) => {
      if (event.buttons) go(event);
    });
  }

  /** Put the line at a step. */
  mark(step) {
    this.step = step;
    if (!this.plot || step === undefined) return;
    const x = this.plot.valToPos(step + (this.log ? 1 : 0), "x");
    this.marker.style.transform = `translateX(${x}px)`;
    this.host.dataset.step = step;
  }
}

function padded(low, high) {
  const room = 0.06 * (high - low || 1);
  return [low - room, high + room];
}

/** Dotted lines at the levels with their names, and bars at the bottom while the loss is on a plateau. */
function levelLines(levels, names, bands, shift) {
  return (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    for (const band of bands) {
      const left = Math.max(bbox.left, u.valToPos(band.start + shift, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(band.end + shift, "x", true));
      const thick = 7 * devicePixelRatio;
      ctx.fillStyle = css("--band");
      ctx.fillRect(left, bbox.top + bbox.height - thick, Math.max(0, right - left), thick);
    }
    ctx.strokeStyle = css("--level");
    ctx.fillStyle = css("--soft");
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    let last = -Infinity;
    levels.forEach((height, m) => {
      const y = Math.round(u.valToPos(height, "y", true));
      if (y < bbox.top || y > bbox.top + bbox.height) return;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      if (y - last > 11 * devicePixelRatio) {
        ctx.fillText(`L(M${sub(names[m])})`, bbox.left + bbox.width + 4 * devicePixelRatio, y + 4 * devicePixelRatio);
        last = y;
      }
    });
    ctx.restore();
  };
}

/** All panels with curves. */
export class Panels {
  constructor(onTime) {
    const host = (id) => document.getElementById(id);
    this.loss = new LinePanel(host("loss"), "loss", onTime);
    this.values = new LinePanel(host("values"), "values", onTime);
    this.distances = new LinePanel(host("distances"), "distances", onTime);
  }

  /** Draw a scene, and the one it is compared with where there is one. */
  draw(scene, other, log) {
    const ink = css("--ink");
    const accent = css("--accent");
    const ghost = css("--ghost");
    const shift = log ? 1 : 0;
    const longest = Math.max(scene.setting.steps, other?.setting.steps ?? 0);
    const steps = longest === scene.setting.steps ? scene.theory.steps : sampleSteps(longest);
    const series = [];
    if (other) series.push({ label: "compared with", data: at(other.result.losses, steps), color: ghost, width: 3 });
    if (scene.python?.losses) series.push({ label: "iclearn", data: at(scene.python.losses, steps), color: css("--python"), width: 2.5 });
    series.push({ label: "loss", data: at(scene.result.losses, steps), color: ink, width: 2.2 });
    const theory = interpolated(scene.theory.steps, scene.theory.loss, steps);
    series.push({ label: "theory", data: theory, color: accent, width: 1.8, dash: [6, 5] });
    const bands = scene.python?.losses ? scene.python.plateaus : scene.plateaus(log);
    let most = scene.theory.levels.heights[0];
    for (const list of [scene.result.losses, other?.result.losses, scene.python?.losses]) {
      if (list?.length) most = Math.max(most, Math.min(list[0], 3 * most));
    }
    const extras = { below: levelLines(scene.visited, scene.visitedNames, bands, shift) };
    this.loss.draw(steps, series, { log, extras, range: [0, 1.06 * most] });
    this.drawValues(scene, other, log, steps);
    this.drawDistances(scene, log);
  }

  drawValues(scene, other, log, steps) {
    const series = [];
    if (other) {
      for (const row of other.curves.values) {
        series.push({ label: "compared with", data: interpolated(other.curves.steps, row, steps), color: css("--ghost"), width: 1.5 });
      }
    }
    scene.curves.values.forEach((row, h) => {
      series.push({ label: `head ${h + 1}`, data: interpolated(scene.curves.steps, row, steps), color: color(h), width: 2.2 });
    });
    scene.theory.values.forEach((row, h) => {
      const data = interpolated(scene.theory.steps, row, steps);
      series.push({ label: `theory, head ${h + 1}`, data, color: css("--ink"), width: 1.2, dash: [5, 5] });
    });
    this.values.draw(steps, series, { log });
  }

  drawDistances(scene, log) {
    const rows = scene.curves.distances;
    const merged = scene.setting.family === "merged";
    const shown = merged ? [0, rows.length - 1] : [...rows.keys()];
    const series = shown.map((m) => ({ label: `PCR ${m}`, data: rows[m], color: color(m), width: 2 }));
    series.push({ label: "gradient descent", data: scene.curves.descent, color: css("--soft"), width: 1.6, dash: [4, 4] });
    this.distances.draw(scene.curves.steps, series, { log, range: [0, 1.08 * Math.max(1e-9, ...rows.flatMap((r) => [Math.min(r[0], 3), Math.min(Math.max(...r), 3)]))] });
  }

  mark(step) {
    for (const panel of [this.loss, this.values, this.distances]) panel.mark(step);
  }
}

/** A curve known at some increasing steps, at others; null outside. */
export function interpolated(known, values, steps) {
  const out = new Array(steps.length);
  let i = 0;
  for (let n = 0; n < steps.length; n++) {
    const step = steps[n];
    if (step > known[known.length - 1]) {
      out[n] = step - known[known.length - 1] < (known[1] ?? 1) + 1 ? values[known.length - 1] : null;
      continue;
    }
    while (i + 1 < known.length && known[i + 1] <= step) i++;
    const width = known[i + 1] - known[i];
    out[n] = i + 1 < known.length && width > 0 ? values[i] + ((step - known[i]) / width) * (values[i + 1] - values[i]) : values[i];
  }
  return out;
}

/** What each panel's colors mean, as HTML. */
export function legends(scene, other) {
  const item = (shade, text, dashed = "") => `<span class="key"><i class="${dashed}" style="--k:${shade}"></i>${text}</span>`;
  const loss = [item("var(--ink)", scene.python?.losses ? "linear attention, P = ∞" : "training"), item("var(--accent)", "theory", "dashed")];
  if (scene.python?.losses) loss.push(item("var(--python)", "trained by Python"));
  if (other) loss.push(item("var(--ghost)", "compared with"));
  loss.push('<span class="key"><i class="patch"></i>plateau</span>');
  const heads = scene.curves.values.map((_, h) => item(`var(--c${h % 9})`, `${h + 1}`));
  const rows = scene.curves.distances;
  const merged = scene.setting.family === "merged";
  const known = rows
    .map((_, m) => [m, item(`var(--c${m % 9})`, `PCR${sub(m)}`)])
    .filter(([m]) => !merged || m === 0 || m === rows.length - 1)
    .map(([, text]) => text);
  return {
    loss: loss.join(""),
    values: `head ${heads.join("")}${item("var(--ink)", "equation (21)", "dashed").replace("equation (21)", merged ? "theory" : "equation (21)")}`,
    distances: `${known.join("")}${item("var(--soft)", "gradient descent", "dashed")}`,
  };
}
