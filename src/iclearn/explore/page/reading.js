/** What is read off a training: curves over time, distances to known algorithms. */
import { effective, lossForm, lossOf, sizesOf } from "iclearn/engine";

/** Steps at which a curve of `steps` steps is drawn: evenly spaced, and as many in the logarithm of time. */
export function sampleSteps(steps, count = 420) {
  const last = steps - 1;
  const found = new Set([0, last]);
  for (let i = 0; i <= count; i++) {
    found.add(Math.round((last * i) / count));
    found.add(Math.min(last, Math.round(Math.exp((Math.log(last + 1) * i) / count)) - 1));
  }
  return Float64Array.from(found).sort();
}

/** A curve known at every step, at some steps; null beyond its end. */
export function at(losses, steps) {
  return Array.from(steps, (step) => (step < losses.length ? losses[step] : null));
}

/** E[(ŷ − ŷ')²] over prompts of two models with the matrices A and B. */
export function squaredDistance(form, matrix, other) {
  let sum = 0;
  for (let e = 0; e < matrix.length; e++) sum += form.brake[e] * (matrix[e] - other[e]) ** 2;
  return sum;
}

/** The step size of the best single step of gradient descent, ŷ = η g β̂·x: the minimum of L(η I). */
export function bestStep(form) {
  const dim = form.values.length;
  let pull = 0;
  let brake = 0;
  for (let d = 0; d < dim; d++) {
    pull += form.pull[d];
    brake += form.brake[d * dim + d];
  }
  return pull / brake;
}

/** The matrices of PCR_0 … PCR_D, and of one step of gradient descent. */
export function knownAlgorithms(form) {
  const dim = form.values.length;
  const components = Array.from({ length: dim + 1 }, (_, m) => {
    const matrix = new Float64Array(dim * dim);
    for (let d = 0; d < m; d++) matrix[d * dim + d] = form.pull[d] / form.brake[d * dim + d];
    return matrix;
  });
  const descent = new Float64Array(dim * dim);
  for (let d = 0; d < dim; d++) descent[d * dim + d] = bestStep(form);
  return { components, descent };
}

/**
 * Curves at the recorded steps: {steps, values: a row a head, distances: a row for each PCR_m, descent, progress}.
 *
 * Distances are root mean squares of the difference of two predictions, over that of the labels.
 */
export function recordedCurves(result, count = 260) {
  const { setting, records, stride } = result;
  const sizes = sizesOf(setting);
  const { dim, heads, total } = sizes;
  const form = lossForm(setting);
  const known = knownAlgorithms(form);
  const available = Math.floor(Math.max(0, result.steps - 1) / stride) + 1;
  const chosen = [];
  for (const place of sampleSteps(available, Math.min(available, count))) chosen.push(place);
  const row = () => new Float64Array(chosen.length);
  const steps = row();
  const values = Array.from({ length: heads }, row);
  const distances = Array.from({ length: dim + 1 }, row);
  const descent = row();
  const progress = row();
  const losses = row();
  const matrix = new Float64Array(dim * dim);
  chosen.forEach((place, i) => {
    const weights = records.subarray(place * total, (place + 1) * total);
    steps[i] = place * stride;
    for (let h = 0; h < heads; h++) values[h][i] = weights[h];
    effective(setting, weights, matrix);
    losses[i] = lossOf(form, matrix);
    for (let m = 0; m <= dim; m++) {
      distances[m][i] = Math.sqrt(squaredDistance(form, matrix, known.components[m]) / form.constant);
    }
    descent[i] = Math.sqrt(squaredDistance(form, matrix, known.descent) / form.constant);
    for (let d = 0; d < dim; d++) {
      const share = (matrix[d * dim + d] * form.brake[d * dim + d]) / form.pull[d];
      progress[i] += Math.min(1, Math.max(0, share));
    }
  });
  return { steps, values, distances, descent, progress, losses };
}
