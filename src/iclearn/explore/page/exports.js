/** A state in other forms: recipe, command line, Python, picture, table. */
import { at, sampleSteps } from "iclearn/reading";
import { defaults, facts, trainedInPage } from "iclearn/settings";
import { sub } from "iclearn/explain";
import { references } from "iclearn/others";
import { theoryOf } from "iclearn/theory";

/** The recipe, as `iclearn train --recipe` and `Recipe.from_json` read it. */
export function recipeOf(setting) {
  const optimizer = { kind: "optimizer", rule: setting.rule, lr: setting.lr, batch_size: setting.batch || null };
  const { steps, seed } = setting;
  if (setting.kind === "documents") {
    const task = { kind: "softmax_regression", context_len: setting.context, dim: setting.embedding, scale: setting.logits };
    const init = { kind: "init", scale: setting.init };
    return { kind: "recipe", task, model: facts.layers[setting.layer], init, optimizer, steps, seed, dtype: "float32" };
  }
  const dim = setting.eigenvalues.length;
  const finite = setting.prompts > 0;
  const mean = setting.prior ? new Array(dim).fill(setting.prior / Math.sqrt(dim)) : null;
  const self = setting.kind === "lsa" || setting.kind === "yq-lsa";
  const attention = {
    kind: "attention", family: setting.family, num_heads: setting.heads,
    rank: setting.family === "merged" ? 1 : setting.rank, softmax: setting.kind === "softmax", normalize: setting.normalize,
  };
  const guess = setting.kind === "yq-lsa" ? "trainable" : "none";
  return {
    kind: "recipe",
    task: {
      kind: "linear_regression", dim, context_len: setting.context,
      covariance: { kind: "covariance", shape: "eigenvalues", parameters: setting.eigenvalues, rotate: true, trace: null },
      prior_mean: mean, num_prompts: finite ? setting.prompts : null, prefixes: setting.prefixes,
      center: finite, whiten: finite && !mean,
    },
    model: self ? { kind: "lsa", num_heads: setting.heads, guess } : attention,
    init: { kind: "init", scale: setting.init, scheme: self ? "per_head" : setting.scheme },
    optimizer,
    steps,
    seed,
  };
}

/** The command line that trains the same, or null where only a recipe can say it. */
export function commandOf(setting) {
  if (facts.others.includes(setting.kind)) return null;
  const merged = setting.family === "merged";
  const words = [
    "iclearn train", `--model ${setting.family}`, `--heads ${setting.heads}`, merged ? "" : `--rank ${setting.rank}`,
    `--eigenvalues ${setting.eigenvalues.join(" ")}`, `--context ${setting.context}`,
    `--prompts ${setting.prompts || "inf"}`, `--init ${setting.init}`, `--init-scheme ${setting.scheme}`,
    `--normalize ${setting.normalize}`, `--optimizer ${setting.rule}`, `--lr ${setting.lr}`, `--steps ${setting.steps}`,
    `--seed ${setting.seed}`, setting.batch ? `--batch-size ${setting.batch}` : "", setting.kind === "softmax" ? "--softmax" : "", setting.prefixes ? "--vary-len" : "",
  ];
  if (setting.prior) {
    const each = setting.prior / Math.sqrt(setting.eigenvalues.length);
    words.push(`--prior-mean ${setting.eigenvalues.map(() => each).join(" ")}`);
  }
  return words.filter(Boolean).join(" ");
}

/** The same in Python. */
export function pythonOf(setting) {
  const recipe = JSON.stringify(recipeOf(setting));
  const theory = trainedInPage(setting) ? "theory = icl.predict(trace)          # the theory of this very run\n" : "";
  const drawn = trainedInPage(setting) ? "trace.plot(theory=True, values=True)" : "trace.plot()";
  return `import iclearn as icl

recipe = icl.Recipe.from_json('${recipe}')
trace = icl.simulate(recipe)
${theory}print(icl.find_plateaus(trace).plateaus)
${drawn}
`;
}

/** Loss, theory and value weights as comma-separated values; what Python trained has a column of its own. */
export function csvOf(scene) {
  const { python, setting } = scene;
  if (scene.onlyPython) {
    const steps = Array.from(sampleSteps(setting.steps, 2000)).filter((step) => step < (python?.losses?.length ?? 0));
    return `step,loss\n${steps.map((step) => `${step},${python.losses[step]}\n`).join("")}`;
  }
  const heads = scene.curves.values.map((_, h) => `value_${h + 1}`);
  const lines = [["step", "time", "loss", "theory_loss", ...(python?.losses ? ["python_loss"] : []), ...heads].join(",")];
  const theory = theoryOf(setting, scene.start, scene.sizes, scene.values, scene.gain, scene.curves.steps).loss;
  scene.curves.steps.forEach((step, i) => {
    const time = 2 * setting.lr * step;
    const loss = scene.result.losses[step];
    const extra = python?.losses ? [python.losses[step] ?? ""] : [];
    if (loss !== undefined) lines.push([step, time, loss, theory[i], ...extra, ...scene.curves.values.map((row) => row[i])].join(","));
  });
  return `${lines.join("\n")}\n`;
}

/** The loss with the theory's levels and curve as SVG text, black on white, for a talk or a paper. */
export function svgOf(scene, other, log) {
  const [width, height, left, right, top, bottom] = [720, 420, 70, 76, 24, 56];
  const last = scene.setting.steps - 1;
  const x = (step) => left + (width - left - right) * (log ? Math.log(step + 1) / Math.log(last + 1) : step / last);
  const own = scene.onlyPython ? Math.max(1e-12, ...(scene.python?.losses?.filter((_, i) => i % 16 === 0) ?? [1])) : scene.theory.levels.heights[0];
  const most = own * 1.06;
  const y = (loss) => top + (height - top - bottom) * (1 - Math.min(loss, most) / most);
  const path = (steps, values) => {
    const points = [];
    steps.forEach((step, i) => {
      if (values[i] !== null && step <= last) points.push(`${x(step).toFixed(2)},${y(values[i]).toFixed(2)}`);
    });
    return points.join(" ");
  };
  const line = (points, look) => `<polyline fill="none" points="${points}" ${look}/>`;
  const text = (px, py, words, more = "") => `<text x="${px}" y="${py}" font-size="14" ${more}>${words}</text>`;
  const parts = [];
  const levels = scene.onlyPython ? references(scene.python).map(({ name, loss }) => [loss, name]) : scene.visited.map((level, m) => [level, `L(M${sub(scene.visitedNames[m])})`]);
  levels.forEach(([level, name]) => {
    parts.push(`<line x1="${left}" x2="${width - right}" y1="${y(level)}" y2="${y(level)}" stroke="#888" stroke-dasharray="2 4"/>`);
    const inside = scene.onlyPython; // longer names
    parts.push(text(width - right + (inside ? -6 : 6), y(level) + (inside ? -5 : 5), name, `fill="#444" text-anchor="${inside ? "end" : "start"}"`));
  });
  const steps = sampleSteps(scene.setting.steps, 600);
  if (other && !scene.onlyPython) parts.push(line(path(steps, at(other.result.losses, steps)), 'stroke="#aaa" stroke-width="3"'));
  if (scene.python?.losses) parts.push(line(path(steps, at(scene.python.losses, steps)), 'stroke="#009E73" stroke-width="3"'));
  if (!scene.onlyPython) parts.push(line(path(steps, at(scene.result.losses, steps)), 'stroke="#000" stroke-width="2.4"'));
  if (!scene.onlyPython) parts.push(line(path(scene.theory.steps, scene.theory.loss), 'stroke="#D55E00" stroke-width="2" stroke-dasharray="7 5"'));
  const ticks = log ? [1, 10, 100, 1000, 10000, 100000].filter((t) => t <= last + 1).map((t) => t - 1) : [0, 0.25, 0.5, 0.75, 1].map((t) => Math.round(last * t));
  for (const step of ticks) parts.push(text(x(step), height - bottom + 20, String(log ? step + 1 : step), 'text-anchor="middle"'));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const loss = own * share;
    parts.push(text(left - 8, y(loss) + 5, String(Number(loss.toPrecision(3))), 'text-anchor="end"'));
  }
  parts.push(text((left + width - right) / 2, height - 12, "step", 'text-anchor="middle"'));
  parts.push(text(18, (top + height - bottom) / 2, "training loss", `text-anchor="middle" transform="rotate(-90 18 ${(top + height - bottom) / 2})"`));
  const frame = `<path d="M${left} ${top}V${height - bottom}H${width - right}" fill="none" stroke="#000"/>`;
  const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`;
  return `${open}<rect width="100%" height="100%" fill="#fff"/>${parts.join("")}${frame}</svg>`;
}

/** The same picture as a PNG, twice as fine as the screen. */
export async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Let the browser save a file. */
export function save(name, content, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Which settings differ between two, in words. */
export function differences(one, two) {
  return Object.keys(defaults)
    .filter((name) => String(one[name]) !== String(two[name]))
    .map((name) => `${name}: ${one[name]} here, ${two[name]} beside`);
}
