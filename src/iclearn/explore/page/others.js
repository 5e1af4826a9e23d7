/**
 * Models beside which linear attention would mean nothing (linear self-attention with a prior mean, softmax layers that
 * read documents): what Python trained is all there is to draw, with the losses that its theory or a gradient step gives.
 */
import { short, whole } from "iclearn/explain";
import { served } from "iclearn/link";
import { at, sampleSteps } from "iclearn/reading";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Losses that the run is compared with: [{name, loss}], from the highest. */
export function references(python) {
  const found = (python?.levels ?? []).map((loss, i) => ({ name: python.names[i], loss }));
  if (python?.measures) found.push({ name: "one gradient step", loss: python.measures.descent });
  return found;
}

/** Draw the loss, and for a softmax layer its distance to a gradient step. */
export function drawOther(panels, scene, kept, log) {
  const { python, setting } = scene;
  const steps = sampleSteps(setting.steps);
  const series = [];
  const ghost = kept?.losses;
  if (ghost) series.push({ label: "compared with", data: at(ghost, steps), color: css("--ghost"), width: 2.5 });
  const losses = python?.losses ?? [];
  series.push({ label: "loss", data: at(losses, steps), color: css("--python"), width: python?.measures ? 1 : 2 });
  let most = 1e-12;
  for (const list of [losses, ghost ?? []]) for (const step of steps) most = Math.max(most, list[step] ?? 0);
  if (!losses.length) most = 1;
  const lines = references(python);
  const measures = python?.measures;
  if (measures) {
    const held = new Map(measures.steps.map((step, i) => [step, measures.loss[i]]));
    const x = Float64Array.from(new Set([...steps, ...held.keys()])).sort();
    series.forEach((one, i) => (one.data = at(i === 0 && ghost ? ghost : losses, x)));
    series.push({ label: "held-out", data: joined(x, held), color: css("--ink"), width: 2.4 });
    panels.loss.draw(x, series, { log, extras: { below: named(lines, python.plateaus, log) }, range: [0, 1.06 * most] });
    const rows = [
      { label: "apart", data: measures.apart, color: css("--c1"), width: 2 },
      { label: "cosine", data: measures.cosine.map((c) => 1 - c), color: css("--c0"), width: 2 },
    ];
    const top = Math.max(...rows.flatMap((row) => row.data));
    panels.distances.draw(measures.steps, rows, { log, range: [0, 1.08 * Math.min(2, top)] });
  } else panels.loss.draw(steps, series, { log, extras: { below: named(lines, python?.plateaus ?? [], log) }, range: [0, 1.06 * most] });
}

/** Values known at some of the places `x`, with straight lines between them. */
function joined(x, known) {
  const places = [...known.keys()];
  let i = 0;
  return Array.from(x, (step) => {
    while (i + 1 < places.length && places[i + 1] <= step) i++;
    const [from, to] = [places[i], places[Math.min(i + 1, places.length - 1)]];
    const share = to > from ? (step - from) / (to - from) : 0;
    return known.get(from) + share * (known.get(to) - known.get(from));
  });
}

/** Dotted lines with their names, one above the other where they are close, and bars while the loss is on a plateau. */
function named(lines, bands, log) {
  return (u) => {
    const { ctx, bbox } = u;
    const unit = devicePixelRatio;
    ctx.save();
    ctx.fillStyle = css("--band");
    for (const band of bands) {
      const [left, right] = [band.start, band.end].map((step) => u.valToPos(step + Number(log), "x", true));
      ctx.fillRect(Math.max(bbox.left, left), bbox.top + bbox.height - 7 * unit, Math.max(0, right - left), 7 * unit);
    }
    ctx.font = `${12 * unit}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.strokeStyle = css(lines.length > 1 ? "--level" : "--accent"); // a single one is named in the legend
    ctx.lineWidth = (lines.length > 1 ? 1 : 2) * unit;
    ctx.fillStyle = css("--soft");
    ctx.setLineDash([2 * unit, 3 * unit]);
    let next = -Infinity;
    for (const { name, loss } of [...lines].sort((a, b) => b.loss - a.loss)) {
      const y = Math.round(u.valToPos(loss, "y", true));
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      const place = Math.max(y - 5 * unit, next);
      if (lines.length > 1) ctx.fillText(`${name}: ${short(loss, 4)}`, bbox.left + bbox.width - 4 * unit, place);
      next = place + 15 * unit;
    }
    ctx.restore();
  };
}

/** What the colors mean, as HTML. */
export function otherLegends(scene, kept) {
  const item = (shade, text) => `<span class="key"><i style="--k:${shade}"></i>${text}</span>`;
  const { python } = scene;
  const loss = [item("var(--python)", python?.measures ? "trained by Python, fresh documents" : "trained by Python")];
  if (python?.measures) {
    loss.push(item("var(--ink)", "held-out documents"));
    loss.push(item("var(--accent)", `one gradient step: ${short(python.measures.descent, 4)}`).replace("<i ", '<i class="dashed" '));
  }
  if (kept) loss.push(item("var(--ghost)", "compared with"));
  const distances = `${item("var(--c1)", "‖difference‖ / ‖gradient step‖")}${item("var(--c0)", "1 − cosine")}`;
  return { loss: loss.join(""), distances, values: "" };
}

/** The sentence for a point in time. */
export function explainOther(step, scene) {
  const { python } = scene;
  if (!python?.losses) {
    return served ? "Python is training this model …" : "This model is trained by Python: `iclearn explore` opens this page with Python behind it, where this preset shows its run.";
  }
  const loss = python.losses[Math.min(step, python.losses.length - 1)];
  const words = [`After ${whole(step)} steps the training loss is ${short(loss, 4)}.`];
  const { measures } = python;
  if (measures) {
    const i = Math.max(0, measures.steps.findLastIndex((s) => s <= step));
    const ratio = measures.loss[i] / measures.descent - 1;
    const more = Math.abs(ratio) < 0.005 ? "as much as" : `${short(100 * Math.abs(ratio), 2)} % ${ratio > 0 ? "more" : "less"} than`;
    words.push(`On documents it was not trained on the layer's loss is ${short(measures.loss[i], 4)} (at step ${whole(measures.steps[i])}), ${more} that of one gradient step from zero with the best length, ${short(measures.descent, 4)}. The two read a word in directions whose cosine is ${short(measures.cosine[i], 3)}.`);
  } else {
    const told = references(python).map(({ name, loss: height }) => `${name} ${short(height, 4)}`);
    if (told.length) words.push(`Theory: ${told.join(", ")}.`);
  }
  return words.join(" ");
}
