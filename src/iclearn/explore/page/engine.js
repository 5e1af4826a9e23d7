/**
 * The population loss of linear attention in the eigenbasis of the inputs, and gradient descent on it.
 *
 * The model answers ŷ = Σ_ij A_ij β_i x_j, β = (g/N) Σ_n y_n x_n, where A = Σ_h v_h Σ_r k_hr q_hrᵀ (separate) or
 * A = Σ_h v_h U_h (merged). Over infinitely many prompts with w ~ N(0, I) its loss is
 *
 *     L(A) = Σ_i λ_i − 2 g Σ_i λ_i² A_ii + Σ_ij s_i λ_j A_ij²,   s_i = g² (λ_i² + (λ_i² + λ_i Σλ)/N).
 *
 * A setting is a plain object: family, eigenvalues (any order), heads, rank, context, init, scheme, normalize, lr, steps,
 * seed. Weights are one Float64Array: v of all heads, then the keys (head, rank, dim), then the queries (head, rank, dim);
 * for merged attention v, then U (head, dim, dim) with the key's index first. This file imports nothing, so that a
 * worker can be made of it.
 */

/** Eigenvalues as the theory counts them, largest first. */
export function sortedSpectrum(setting) {
  return Float64Array.from(setting.eigenvalues).sort().reverse();
}

/** How many times β̂ = (1/N) Σ y_n x_n the model sees. */
export function gainOf(setting) {
  const n = setting.context;
  return { none: n, context: 1, tokens: n / (n + 1) }[setting.normalize];
}

/** Numbers of weights: {dim, heads, rank, pair, total}; `pair` is the size of one head's keys, queries or U. */
export function sizesOf(setting) {
  const dim = setting.eigenvalues.length;
  const merged = setting.family === "merged";
  const rank = merged ? 1 : setting.rank;
  const block = merged ? dim * dim : rank * dim;
  return { dim, heads: setting.heads, rank, merged, block, total: setting.heads * (1 + (merged ? 1 : 2) * block) };
}

/** Q of the QR decomposition of a square matrix, row by row, with R's diagonal positive. */
export function orthogonal(rows, dim) {
  const q = Float64Array.from(rows);
  for (let column = 0; column < dim; column++) {
    for (let pass = 0; pass < 2; pass++) { // the second pass takes away what rounding left
      for (let other = 0; other < column; other++) {
        let overlap = 0;
        for (let i = 0; i < dim; i++) overlap += q[i * dim + other] * q[i * dim + column];
        for (let i = 0; i < dim; i++) q[i * dim + column] -= overlap * q[i * dim + other];
      }
    }
    let norm = 0;
    for (let i = 0; i < dim; i++) norm += q[i * dim + column] ** 2;
    norm = Math.sqrt(norm);
    for (let i = 0; i < dim; i++) q[i * dim + column] /= norm;
  }
  return q;
}

/** Standard deviations of values and of keys and queries, as `iclearn.models.initialize` defines the schemes. */
function scales(setting) {
  const { heads, rank, dim, merged } = sizesOf(setting);
  const entry = dim + 1;
  const init = setting.init;
  if (merged || setting.scheme === "entries") return { value: init, pair: init };
  if (setting.scheme === "stacked") {
    return { value: init / Math.sqrt(heads * entry ** 2), pair: init / Math.sqrt(heads * rank * entry) };
  }
  return { value: init, pair: init / Math.sqrt(rank * entry) };
}

/**
 * The weights that `iclearn.simulate` starts from, in the eigenbasis.
 *
 * `normals` are the seed's standard normals: {value, key, query, rotation}, rows of which any size takes a prefix.
 */
export function initialWeights(setting, normals) {
  const { dim, heads, rank, merged, block, total } = sizesOf(setting);
  const entry = dim + 1;
  const std = scales(setting);
  const weights = new Float64Array(total);
  const basis = orthogonal(normals.rotation.subarray(0, dim * dim), dim);
  for (let h = 0; h < heads; h++) weights[h] = std.value * normals.value[h * entry + dim];
  if (merged) {
    for (let h = 0; h < heads; h++) {
      for (let a = 0; a < dim; a++) { // key's index in the eigenbasis
        for (let b = 0; b < dim; b++) {
          let sum = 0;
          for (let j = 0; j < dim; j++) {
            const start = (h * dim + j) * entry;
            let inner = 0;
            for (let i = 0; i < dim; i++) inner += normals.key[start + i] * basis[i * dim + a];
            sum += inner * basis[j * dim + b];
          }
          weights[heads + h * block + a * dim + b] = std.pair * sum;
        }
      }
    }
    return weights;
  }
  const keys = heads;
  const queries = heads + heads * block;
  for (let pair = 0; pair < heads * rank; pair++) {
    for (let a = 0; a < dim; a++) {
      let key = 0;
      let query = 0;
      for (let i = 0; i < dim; i++) {
        key += normals.key[pair * entry + i] * basis[i * dim + a];
        query += normals.query[pair * dim + i] * basis[i * dim + a];
      }
      weights[keys + pair * dim + a] = std.pair * key;
      weights[queries + pair * dim + a] = std.pair * query;
    }
  }
  return weights;
}

/** The numbers of the loss: {values, gain, pull, brake, constant}; pull_i = g λ_i², brake_ij = s_i λ_j. */
export function lossForm(setting) {
  const values = sortedSpectrum(setting);
  const dim = values.length;
  const gain = gainOf(setting);
  const trace = values.reduce((a, b) => a + b, 0);
  const pull = values.map((value) => gain * value * value);
  const brake = new Float64Array(dim * dim);
  for (let i = 0; i < dim; i++) {
    const second = gain * gain * (values[i] ** 2 + (values[i] ** 2 + trace * values[i]) / setting.context);
    for (let j = 0; j < dim; j++) brake[i * dim + j] = second * values[j];
  }
  return { values, gain, pull, brake, constant: trace };
}

/** The matrix A of the weights, into `matrix` (dim × dim, row by row). */
export function effective(setting, weights, matrix) {
  const { dim, heads, rank, merged, block } = sizesOf(setting);
  matrix.fill(0);
  const queries = heads + heads * block;
  for (let h = 0; h < heads; h++) {
    const v = weights[h];
    if (merged) {
      const start = heads + h * block;
      for (let e = 0; e < block; e++) matrix[e] += v * weights[start + e];
      continue;
    }
    for (let r = 0; r < rank; r++) {
      const key = heads + (h * rank + r) * dim;
      const query = queries + (h * rank + r) * dim;
      for (let i = 0; i < dim; i++) {
        const vk = v * weights[key + i];
        for (let j = 0; j < dim; j++) matrix[i * dim + j] += vk * weights[query + j];
      }
    }
  }
  return matrix;
}

/** L(A). */
export function lossOf(form, matrix) {
  const dim = form.values.length;
  let loss = form.constant;
  for (let i = 0; i < dim; i++) {
    loss -= 2 * form.pull[i] * matrix[i * dim + i];
    for (let j = 0; j < dim; j++) loss += form.brake[i * dim + j] * matrix[i * dim + j] ** 2;
  }
  return loss;
}

/** Training that can be carried on in parts. `advance(n)` makes up to n more steps; `losses[i]` is before update i. */
export class Training {
  constructor(setting, start, records = 800) {
    this.setting = setting;
    this.form = lossForm(setting);
    this.sizes = sizesOf(setting);
    this.weights = Float64Array.from(start);
    this.step = 0;
    this.losses = new Float64Array(setting.steps);
    const most = Math.max(2, Math.min(records, Math.floor(2e6 / this.sizes.total)));
    this.stride = Math.max(1, Math.ceil(setting.steps / (most - 1)));
    this.records = new Float64Array((Math.floor(setting.steps / this.stride) + 1) * this.sizes.total);
    this.divergedAt = -1;
    this.matrix = new Float64Array(this.sizes.dim ** 2);
    this.slope = new Float64Array(this.sizes.dim ** 2);
    this.product = new Float64Array(this.sizes.dim);
  }

  get finished() {
    return this.divergedAt >= 0 || this.step >= this.setting.steps;
  }

  keep() {
    if (this.step % this.stride === 0) {
      this.records.set(this.weights, (this.step / this.stride) * this.sizes.total);
    }
  }

  advance(count) {
    const last = Math.min(this.setting.steps, this.step + count);
    const { setting, form, matrix, weights } = this;
    const limit = 1e6 * form.constant;
    while (this.step < last) {
      this.keep();
      effective(setting, weights, matrix);
      const loss = lossOf(form, matrix);
      if (!(loss < limit)) {
        this.divergedAt = this.step;
        return;
      }
      this.losses[this.step] = loss;
      this.move(setting.lr);
      this.step++;
    }
    this.keep();
  }

  /** One update, weights ← weights − lr ∂L/∂weights, from the A that `matrix` holds. */
  move(lr) {
    const { form, matrix, slope, weights, sizes } = this;
    const { dim, heads, rank, merged, block } = sizes;
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < dim; j++) slope[i * dim + j] = 2 * form.brake[i * dim + j] * matrix[i * dim + j];
      slope[i * dim + i] -= 2 * form.pull[i];
    }
    if (merged) this.moveMerged(lr, heads, block);
    else this.moveSeparate(lr, dim, heads, rank, block);
  }

  moveMerged(lr, heads, block) {
    const { slope, weights } = this;
    for (let h = 0; h < heads; h++) {
      const start = heads + h * block;
      const v = weights[h];
      let along = 0;
      for (let e = 0; e < block; e++) {
        along += slope[e] * weights[start + e];
        weights[start + e] -= lr * v * slope[e];
      }
      weights[h] -= lr * along;
    }
  }

  moveSeparate(lr, dim, heads, rank, block) {
    const { slope, weights, product } = this;
    const queries = heads + heads * block;
    for (let h = 0; h < heads; h++) {
      const v = weights[h];
      let along = 0;
      for (let r = 0; r < rank; r++) {
        const key = heads + (h * rank + r) * dim;
        const query = queries + (h * rank + r) * dim;
        product.fill(0); // slopeᵀ key
        for (let i = 0; i < dim; i++) {
          const k = weights[key + i];
          let sum = 0;
          for (let j = 0; j < dim; j++) {
            const g = slope[i * dim + j];
            sum += g * weights[query + j];
            product[j] += g * k;
          }
          along += k * sum;
          weights[key + i] = k - lr * v * sum;
        }
        for (let j = 0; j < dim; j++) weights[query + j] -= lr * v * product[j];
      }
      weights[h] -= lr * along;
    }
  }

  /** What a finished training leaves: plain arrays that can be posted between threads. */
  result() {
    const steps = this.divergedAt >= 0 ? this.divergedAt : this.setting.steps;
    return {
      setting: this.setting,
      losses: this.losses.subarray(0, steps),
      records: this.records,
      stride: this.stride,
      final: this.weights,
      steps,
      divergedAt: this.divergedAt,
    };
  }
}

/** The whole training at once. */
export function train(setting, normals, records) {
  const training = new Training(setting, initialWeights(setting, normals), records);
  training.advance(setting.steps);
  return training.result();
}

/** The weights of a result before update `step`, exactly: from the record before it, a few steps further. */
export function weightsAt(result, step) {
  const { setting, stride, records, steps } = result;
  if (step >= steps && result.divergedAt < 0) return result.final;
  const { total } = sizesOf(setting);
  const index = Math.floor(Math.min(step, Math.max(0, steps - 1)) / stride);
  const part = new Training({ ...setting, steps: stride }, records.subarray(index * total, (index + 1) * total), 2);
  part.advance(Math.min(step, steps) - index * stride);
  return part.weights;
}

/** Floating-point operations of one step, roughly: says whether a run needs a worker. */
export function costOf(setting) {
  const { dim, heads, rank, merged } = sizesOf(setting);
  return setting.steps * (heads * (merged ? 1 : rank) * dim * dim * (merged ? 2 : 4) + 3 * dim * dim + 20);
}
