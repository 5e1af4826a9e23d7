/** The pictures that are no curves: keys and queries, the prompt, the fixed points. */
import { sub } from "iclearn/explain";
import { sizesOf } from "iclearn/engine";
import { color } from "iclearn/panels";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

/** A color between two, by way of the background, for −1 … 1. */
function diverging(x) {
  const share = Math.round(100 * Math.min(1, Math.abs(x)));
  return `color-mix(in srgb, ${x < 0 ? "var(--minus)" : "var(--plus)"} ${share}%, var(--zero))`;
}

/** Keys and queries of every head in the eigenbasis (merged: the matrix of each head), as small colored tables. */
export function drawHeads(host, setting, weights, top, note) {
  const { dim, heads, rank, merged, block } = sizesOf(setting);
  const tables = [];
  const cell = (value) => `<td style="background:${diverging(value / top)}"></td>`;
  const row = (name, start) => {
    let cells = "";
    for (let d = 0; d < dim; d++) cells += cell(weights[start + d]);
    return `<tr><th>${name}</th>${cells}</tr>`;
  };
  const header = Array.from({ length: dim }, (_, d) => `<th>${d + 1}</th>`).join("");
  for (let h = 0; h < heads; h++) {
    let rows = "";
    if (merged) {
      for (let i = 0; i < dim; i++) rows += row(`${i + 1}`, heads + h * block + i * dim);
    } else {
      for (let r = 0; r < rank; r++) {
        rows += row("k", heads + (h * rank + r) * dim) + row("q", heads + heads * block + (h * rank + r) * dim);
      }
    }
    const v = weights[h];
    tables.push(
      `<figure class="head"><figcaption><b style="color:var(--c${h % 9})">head ${h + 1}</b> v = ${v.toFixed(3)}</figcaption>` +
        `<table aria-hidden="true"><tr><th></th>${header}</tr>${rows}</table></figure>`,
    );
  }
  const dense = heads * rank * (merged ? dim : 2) * dim > 200 ? " dense" : "";
  const markup = (note ? `<p class="sub">${note}</p>` : "") + `<div class="heads${dense}">${tables.join("")}</div>`;
  host.innerHTML = markup;
}

/** Losses of all sets of eigenvectors against how many are learned, and the path of the training through them. */
export function drawLandscape(host, scene) {
  const { heights, gained } = scene.theory.levels;
  const dim = gained.length;
  const [width, height, left, bottom, right, top] = [320, 250, 34, 34, 10, 10];
  host.replaceChildren();
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, host);
  const most = heights[0] * 1.05;
  const x = (m) => left + ((width - left - right) * (m + 0.15)) / (dim + 0.3);
  const y = (loss) => top + (height - top - bottom) * (1 - Math.min(loss, most) / most);
  for (let m = 0; m <= dim; m++) {
    shape("text", { x: x(m), y: height - 12, class: "tick", "text-anchor": "middle" }, svg, String(m));
  }
  shape("text", { x: (left + width) / 2, y: height, class: "tick", "text-anchor": "middle" }, svg, "eigenvectors learned");
  for (const part of [0, 0.5, 1]) {
    const loss = heights[0] * part;
    shape("text", { x: left - 6, y: y(loss) + 4, class: "tick", "text-anchor": "end" }, svg, loss.toPrecision(2));
    shape("line", { x1: left, x2: width - right, y1: y(loss), y2: y(loss), class: "grid" }, svg);
  }
  const lossOf = (set) => heights[0] - gained.reduce((sum, g, d) => sum + ((set >> d) & 1 ? g : 0), 0);
  const count = (set) => set.toString(2).replaceAll("0", "").length;
  if (dim <= 4) {
    for (let set = 0; set < 1 << dim; set++) {
      for (let d = 0; d < dim; d++) {
        if ((set >> d) & 1) continue;
        const next = set | (1 << d);
        shape("line", { x1: x(count(set)), y1: y(lossOf(set)), x2: x(count(next)), y2: y(lossOf(next)), class: "edge" }, svg);
      }
    }
  }
  for (let set = 0; set < 1 << dim; set++) {
    const leading = (set & (set + 1)) === 0; // the first so many eigenvectors
    const dot = { cx: x(count(set)), cy: y(lossOf(set)), r: leading ? 5 : 3, class: leading ? "saddle" : "other" };
    shape("circle", dot, svg);
  }
  const { progress, losses } = scene.curves;
  const points = Array.from(progress, (p, i) => `${x(p).toFixed(1)},${y(losses[i]).toFixed(1)}`).join(" ");
  shape("polyline", { points, class: "path" }, svg);
  const here = shape("circle", { r: 6, class: "here" }, svg);
  return (p, loss) => {
    here.setAttribute("cx", x(p));
    here.setAttribute("cy", y(loss));
    host.dataset.here = `${p.toFixed(4)},${loss.toPrecision(6)}`;
  };
}

/** A small generator of random numbers for the prompt: the same seed, the same prompt. */
function generator(seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** One sample prompt in the eigenbasis, which can be edited: task vector, context, query; and the model's answer to it. */
export class PromptPicture {
  constructor(host) {
    this.host = host;
    this.key = "";
    this.draws = 0;
    this.matrix = null;
  }

  /** Another prompt. */
  again() {
    this.draws++;
    this.key = "";
  }

  update(setting, values, gain, matrix, columns) {
    Object.assign(this, { setting, values, gain, matrix, columns });
    const key = `${values.length}/${setting.context}/${this.draws}`;
    if (key !== this.key) this.fresh(key);
    this.draw();
  }

  fresh(key) {
    this.key = key;
    const normal = generator(17 * this.draws + 3);
    const dim = this.values.length;
    const pairs = Math.min(this.setting.context, 200);
    this.task = Array.from({ length: dim }, normal);
    this.unit = Array.from({ length: pairs }, () => Array.from({ length: dim }, normal)); // to be scaled by √λ
    this.offset = new Array(pairs).fill(0);
    this.query = Array.from({ length: dim }, normal);
  }

  inputs() {
    return this.unit.map((row) => row.map((u, d) => u * Math.sqrt(this.values[d])));
  }

  /** The vector ŵ with ŷ = ŵ·x_q that the model makes of this context. */
  answer() {
    const dim = this.values.length;
    const beta = new Float64Array(dim);
    this.inputs().forEach((x, n) => {
      const label = x.reduce((sum, value, d) => sum + value * this.task[d], 0) + this.offset[n];
      x.forEach((value, d) => {
        beta[d] += (this.gain / this.unit.length) * label * value;
      });
    });
    return Array.from({ length: dim }, (_, j) => {
      let sum = 0;
      for (let i = 0; i < dim; i++) sum += beta[i] * this.matrix[i * dim + j];
      return sum;
    });
  }

  draw() {
    const dim = this.values.length;
    const guess = this.answer();
    this.host.replaceChildren();
    const svg = shape("svg", { viewBox: "0 0 320 250", role: "img", "aria-label": this.words(guess) }, this.host);
    this.svg = svg;
    if (dim === 1) this.drawLine(svg, guess);
    else if (dim === 2) this.drawPlane(svg, guess);
    else this.drawBars(svg, guess);
    this.host.dataset.guess = guess.map((g) => g.toPrecision(6)).join(",");
  }

  words(guess) {
    const pairs = guess.map((g, d) => `component ${d + 1}: true ${this.task[d].toFixed(2)}, answered ${g.toFixed(2)}`);
    return `Task vector of a sample prompt and the model's answer. ${pairs.join("; ")}`;
  }

  /** Let an element be dragged; `move` gets the place in the drawing's units. */
  drag(element, move) {
    element.classList.add("drag");
    element.addEventListener("pointerdown", (down) => {
      down.preventDefault();
      const svg = this.svg;
      const frame = svg.getBoundingClientRect();
      const go = (event) => {
        move(((event.clientX - frame.left) * 320) / frame.width, ((event.clientY - frame.top) * 250) / frame.height);
        this.draw();
      };
      const stop = () => {
        removeEventListener("pointermove", go);
        removeEventListener("pointerup", stop);
      };
      addEventListener("pointermove", go);
      addEventListener("pointerup", stop);
    });
  }

  drawLine(svg, guess) {
    const reach = 3 * Math.sqrt(this.values[0]);
    const high = Math.max(1, Math.abs(this.task[0])) * reach;
    const x = (value) => 160 + (150 * value) / reach;
    const y = (value) => 130 - (112 * value) / high;
    shape("line", { x1: 8, x2: 312, y1: 130, y2: 130, class: "grid" }, svg);
    shape("line", { x1: 160, x2: 160, y1: 14, y2: 244, class: "grid" }, svg);
    const line = (slope, kind) => shape("line", { x1: x(-reach), y1: y(-slope * reach), x2: x(reach), y2: y(slope * reach), class: kind }, svg);
    line(this.task[0], "truth");
    line(guess[0], "model");
    this.inputs().forEach(([value], n) => {
      const dot = shape("circle", { cx: x(value), cy: y(value * this.task[0] + this.offset[n]), r: 4.5, class: "point" }, svg);
      this.drag(dot, (px, py) => {
        const moved = ((px - 160) * reach) / 150;
        this.unit[n][0] = moved / Math.sqrt(this.values[0]);
        this.offset[n] = ((130 - py) * high) / 112 - moved * this.task[0];
      });
    });
    shape("text", { x: 8, y: 13, class: "label truth-text" }, svg, `true slope ${this.task[0].toFixed(2)}`);
    shape("text", { x: 8, y: 29, class: "label model-text" }, svg, `model's slope ${guess[0].toFixed(2)}`);
  }

  drawPlane(svg, guess) {
    const reach = 3.2 * Math.sqrt(this.values[0]);
    const unit = 115 / reach;
    const far = 115 / Math.max(1.5, Math.hypot(...this.task) * 1.25);
    const place = (v, scale) => [160 + v[0] * scale, 134 - v[1] * scale];
    shape("line", { x1: 10, x2: 310, y1: 134, y2: 134, class: "grid" }, svg);
    shape("line", { x1: 160, x2: 160, y1: 20, y2: 248, class: "grid" }, svg);
    this.inputs().forEach((value, n) => {
      const label = value[0] * this.task[0] + value[1] * this.task[1];
      const [cx, cy] = place(value, unit);
      const dot = shape("circle", { cx, cy, r: 5, class: "point", style: `fill:${diverging(label / (1.5 * Math.hypot(...this.task)))}` }, svg);
      this.drag(dot, (px, py) => {
        this.unit[n] = [(px - 160) / unit / Math.sqrt(this.values[0]), (134 - py) / unit / Math.sqrt(this.values[1])];
      });
    });
    const arrow = (vector, kind) => {
      const [x2, y2] = place(vector, far);
      shape("line", { x1: 160, y1: 134, x2, y2, class: kind }, svg);
      return shape("circle", { cx: x2, cy: y2, r: kind === "truth" ? 7 : 5, class: `${kind}-tip` }, svg);
    };
    const tip = arrow(this.task, "truth");
    this.drag(tip, (px, py) => {
      this.task = [(px - 160) / far, (134 - py) / far];
    });
    arrow(guess, "model");
    shape("text", { x: 8, y: 13, class: "label truth-text" }, svg, "task vector w (drag)");
    shape("text", { x: 8, y: 29, class: "label model-text" }, svg, "what the model reads off the context");
  }

  drawBars(svg, guess) {
    const dim = this.values.length;
    const high = Math.max(1.2, ...this.task.map(Math.abs), ...guess.map((g) => Math.min(4, Math.abs(g)))) * 1.08;
    const y = (value) => 132 - (96 * Math.max(-high, Math.min(high, value))) / high;
    const width = 304 / dim;
    shape("line", { x1: 8, x2: 312, y1: 132, y2: 132, class: "grid" }, svg);
    for (let d = 0; d < dim; d++) {
      const left = 8 + d * width;
      const bar = (value, offset, kind) => {
        const box = { x: left + offset, width: width * 0.36, y: Math.min(y(value), 132), height: Math.max(1, Math.abs(y(value) - 132)), class: kind };
        return shape("rect", box, svg);
      };
      const truth = bar(this.task[d], width * 0.06, "truth-bar");
      bar(guess[d], width * 0.46, "model-bar");
      const grip = shape("circle", { cx: left + width * 0.24, cy: y(this.task[d]), r: 6, class: "truth-tip" }, svg);
      for (const handle of [truth, grip]) {
        this.drag(handle, (px, py) => {
          this.task[d] = ((132 - py) * high) / 96;
        });
      }
      shape("text", { x: left + width * 0.42, y: 246, class: "tick", "text-anchor": "middle" }, svg, `e${sub(d + 1)}`);
    }
    shape("text", { x: 8, y: 13, class: "label truth-text" }, svg, "task vector w (drag)");
    shape("text", { x: 165, y: 13, class: "label model-text" }, svg, "read off the context");
  }
}
