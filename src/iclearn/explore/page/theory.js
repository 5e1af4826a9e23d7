/**
 * What the theory of zhang2025 says of a run from its initial weights: levels, drops, curves.
 *
 * Merged attention makes one drop, by (10) and its generalization to any spectrum. Separate attention makes one drop for
 * each eigenvector: between drops small heads move alone, v̇ = ½ Σ_d c_d (a_d e^{2c_dθ} − b_d e^{−2c_dθ}), θ̇ = v, with
 * c_d = g λ_d² for eigenvectors not learned yet, and blow up in a finite time; a drop by a new head follows (21), one by a
 * new pair of a grown head a logistic curve. Times are t/τ = 2·lr·step. The same theory is in `iclearn.theory.zhang2025`,
 * where it is derived; a test holds the two together. This file imports nothing, so that a worker can be made of it.
 */

/** L(M_0) … L(M_D) of (19) and, by eigenvector, λ_d/a_d, which learning it takes off the loss, and w_d, where A_dd ends. */
export function levelsOf(values, context, gain) {
  const trace = values.reduce((a, b) => a + b, 0);
  const inflation = values.map((value) => 1 + (1 + trace / value) / context);
  const gained = values.map((value, d) => value / inflation[d]);
  const heights = new Float64Array(values.length + 1);
  heights[0] = trace;
  for (let d = 0; d < values.length; d++) heights[d + 1] = heights[d] - gained[d];
  const target = values.map((value, d) => 1 / (gain * value * inflation[d]));
  return { heights, gained, target };
}

/** The loss of a progress ρ_d = A_dd/w_d: tr Λ − Σ_d (λ_d/a_d)(2ρ_d − ρ_d²). */
function lossOfProgress(levels, progress) {
  let loss = levels.heights[0];
  for (let d = 0; d < progress.length; d++) loss -= levels.gained[d] * (2 * progress[d] - progress[d] ** 2);
  return loss;
}

/** ∫ dx/(x²(1 − x³)) as a function of ln(x/(1 − x)). */
function primitive(logit) {
  const x = 1 / (1 + Math.exp(-logit));
  const soft = logit > 0 ? logit + Math.log1p(Math.exp(-logit)) : Math.log1p(Math.exp(logit));
  const root = Math.sqrt(3);
  return -1 - Math.exp(-logit) + soft / 3 + Math.log1p(x + x * x) / 6 - Math.atan((2 * x + 1) / root) / root;
}

const HALF = Math.cbrt(1 - Math.SQRT1_2); // v/v* at which half of the drop in the loss is done
const LEAD = 1 - Math.log(3) / 2 + Math.PI / (6 * Math.sqrt(3));
const logitOf = (x) => Math.log(x) - Math.log1p(-x);

/** v/v* of (21) at a time in its own units, from x_0 at time 0. */
function ownCourse(units, start) {
  if (start >= 1 - 1e-12) return 1;
  const goal = primitive(logitOf(start)) + units;
  let low = -700;
  let high = 46;
  let logit = goal < -2 ? -Math.log(-goal) : 0;
  for (let i = 0; i < 100; i++) {
    const rest = goal - primitive(logit);
    if (rest > 0) low = logit;
    else high = logit;
    const x = 1 / (1 + Math.exp(-logit));
    let next = logit + rest * x * (1 + x + x * x);
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (Math.abs(next - logit) < 1e-12 * Math.max(1, Math.abs(logit))) break;
    logit = next;
  }
  return 1 / (1 + Math.exp(-logit));
}

/** The time in its own units that (21) takes from x_0 until half of the drop is done. */
function ownWait(start) {
  const from = Math.min(start, HALF);
  return primitive(logitOf(HALF)) - primitive(logitOf(from));
}

/**
 * Follow one small head for the time `until` (Infinity: until it blows up).
 *
 * `grow` and `shrink` are a_d and b_d, the squared sizes of the modes (k ± q)/√2. Returns {time, theta, value}; the time
 * is Infinity for a head that nothing drives.
 */
function follow(value, grow, shrink, rates, until) {
  const dim = rates.length;
  let fastest = 0;
  for (let d = 0; d < dim; d++) if (grow[d] + shrink[d] > 0) fastest = Math.max(fastest, rates[d]);
  if (!(fastest > 0)) return { time: Infinity, theta: Number.isFinite(until) ? value * until : 0, value };
  const force = (theta) => {
    let sum = 0;
    for (let d = 0; d < dim; d++) {
      const e = Math.exp(2 * rates[d] * theta);
      sum += rates[d] * (grow[d] * e - shrink[d] / e);
    }
    return sum / 2;
  };
  let theta = 0;
  let v = value;
  let time = 0;
  for (let i = 0; i < 20000; i++) {
    let size = v * v;
    for (let d = 0; d < dim; d++) {
      const e = Math.exp(2 * rates[d] * theta);
      size += grow[d] * e + shrink[d] / e;
    }
    const push = force(theta);
    const rest = push * v > 0 ? v / push : Infinity; // time left, to leading order
    if (rest < 1e-6 * time) return { time: time + rest, theta, value: v };
    let h = 0.04 / (fastest * Math.sqrt(size));
    const ends = time + h >= until;
    if (ends) h = until - time;
    const v2 = v + (h / 2) * push;
    const a2 = force(theta + (h / 2) * v);
    const v3 = v + (h / 2) * a2;
    const a3 = force(theta + (h / 2) * v2);
    const v4 = v + h * a3;
    const a4 = force(theta + h * v3);
    theta += (h / 6) * (v + 2 * v2 + 2 * v3 + v4);
    v += (h / 6) * (push + 2 * a2 + 2 * a3 + a4);
    time += h;
    if (ends) return { time, theta, value: v };
  }
  return { time: Infinity, theta, value: v };
}

/** All heads of one run, in the eigenbasis: who escapes next, and what follows. */
class Race {
  constructor(weights, sizes, values, context, gain) {
    const { dim, heads, rank, block } = sizes;
    Object.assign(this, { dim, rank, now: 0, learned: 0 });
    const trace = values.reduce((a, b) => a + b, 0);
    this.target = values.map((value) => 1 / (gain * (value + (value + trace) / context)));
    this.limit = this.target.map(Math.cbrt);
    this.force = values.map((value) => gain * value * value);
    this.heads = Array.from({ length: heads }, (_, h) => {
      const plus = new Float64Array(block);
      const minus = new Float64Array(block);
      for (let e = 0; e < block; e++) {
        const key = weights[heads + h * block + e];
        const query = weights[heads + heads * block + h * block + e];
        plus[e] = (key + query) * Math.SQRT1_2;
        minus[e] = (key - query) * Math.SQRT1_2;
      }
      return { value: weights[h], plus, minus, grown: false, held: [], sign: 1, drop: 0 };
    });
  }

  rates() {
    return this.force.map((c, d) => (d < this.learned ? 0 : c));
  }

  squares(modes) {
    const sums = new Float64Array(this.dim);
    for (let e = 0; e < modes.length; e++) sums[e % this.dim] += modes[e] ** 2;
    return sums;
  }

  following(head, until) {
    return follow(head.value, this.squares(head.plus), this.squares(head.minus), this.rates(), until);
  }

  /** The next unused pair of a grown head: its size κ, where that ends, its rate and its span; null where there is none. */
  pairOf(head) {
    if (!head.grown || head.held.length >= this.rank) return null;
    const d = this.learned;
    let kappa = 0;
    for (let r = 0; r < this.rank; r++) kappa += head.plus[r * this.dim + d] ** 2;
    kappa = Math.sqrt(kappa / 2);
    if (!(kappa > 0)) return null;
    const held = head.held.reduce((sum, e) => sum + this.target[e], 0);
    const full = Math.sqrt(this.target[d] / Math.cbrt(held + this.target[d]));
    const rate = this.force[d] * head.value;
    return { kappa, full, rate, span: Math.max(0, Math.log(full / kappa) / rate) };
  }

  /** Let the time `span` pass, at the end of which the next eigenvector is learned. */
  pass(span, winner) {
    const rates = this.rates();
    for (const head of this.heads) {
      if (head.grown) {
        if (head.held.length >= this.rank || head === winner.fresh) continue;
        for (let e = 0; e < head.plus.length; e++) head.plus[e] *= Math.exp(rates[e % this.dim] * head.value * span);
      } else if (this.learned + 1 < this.dim) {
        const { theta, value } = this.following(head, Math.max(0, span));
        head.value = value;
        for (let e = 0; e < head.plus.length; e++) {
          const grown = Math.exp(rates[e % this.dim] * theta);
          head.plus[e] *= grown;
          head.minus[e] /= grown;
        }
      }
    }
    this.now += span;
    this.learned += 1;
  }

  /** A head takes the pair direction of an eigenvector, leaving to its other modes what is orthogonal to it. */
  hold(head, component) {
    const { dim, rank } = this;
    const taken = Array.from({ length: rank }, (_, r) => head.plus[r * dim + component]);
    const norm = Math.hypot(...taken) || 1;
    for (let d = 0; d < dim; d++) {
      let along = 0;
      for (let r = 0; r < rank; r++) along += (taken[r] / norm) * head.plus[r * dim + d];
      for (let r = 0; r < rank; r++) head.plus[r * dim + d] -= (taken[r] / norm) * along;
    }
    head.held.push(component);
    head.value = Math.cbrt(head.held.reduce((sum, e) => sum + this.target[e], 0));
  }

  next() {
    const d = this.learned;
    const unit = 1 / (this.force[d] * this.limit[d]);
    let best = { span: Infinity };
    this.heads.forEach((head, index) => {
      if (head.grown) return;
      const { time, value } = this.following(head, Infinity);
      const span = Math.max(0, time - unit);
      if (span < best.span) best = { span, index, end: time, sign: value >= 0 ? 1 : -1 };
    });
    [...this.heads.keys()].sort((a, b) => this.heads[a].drop - this.heads[b].drop || a - b).forEach((index) => {
      const pair = this.pairOf(this.heads[index]);
      if (pair && pair.span < best.span) best = { span: pair.span, index, pair };
    });
    if (!Number.isFinite(best.span)) return null;
    const head = this.heads[best.index];
    const start = this.now;
    return best.pair ? this.growPair(head, best, d, start) : this.growHead(head, best, d, start);
  }

  growPair(head, { index, pair }, d, start) {
    const x0 = Math.min((pair.kappa / pair.full) ** 2, HALF ** 3);
    const wait = (logitOf(HALF ** 3) - logitOf(x0)) / 2;
    this.pass(pair.span, {});
    this.hold(head, d);
    const common = { component: d, head: index, newHead: false, start, sign: head.sign, rate: pair.rate };
    return { ...common, time: start + wait / pair.rate, scale: pair.kappa, limit: pair.full };
  }

  growHead(head, { index, end, sign, span }, d, start) {
    const rates = this.rates();
    const scale = 1 / (rates[d] * end);
    const limit = this.limit[d];
    const rate = rates[d] * limit;
    const modes = sign > 0 ? head.plus.slice() : head.minus.slice();
    head.grown = true;
    this.pass(span, { fresh: head });
    let size = 0;
    for (let r = 0; r < this.rank; r++) size += modes[r * this.dim + d] ** 2;
    const traveled = Math.max(0, Math.log((Math.SQRT2 * limit) / Math.sqrt(size)) + LEAD - 1);
    head.plus = modes.map((mode, e) => mode * Math.exp((rates[e % this.dim] / rates[d]) * traveled));
    head.sign = sign;
    head.drop = d;
    this.hold(head, d);
    const common = { component: d, head: index, newHead: true, start, sign, rate };
    return { ...common, time: start + ownWait(scale / limit) / rate, scale, limit };
  }
}

/** The drops of separate attention from given weights, in order. */
export function dropSequence(weights, sizes, values, context, gain) {
  const race = new Race(weights, sizes, values, context, gain);
  const room = Math.min(sizes.dim, sizes.heads * sizes.rank);
  const drops = [];
  while (drops.length < room) {
    const drop = race.next();
    if (drop === null) break;
    drops.push(drop);
  }
  return drops;
}

/** ρ_d of one drop at a time. */
function progressOf(drop, time) {
  const x0 = drop.scale / drop.limit;
  if (x0 >= 1 - 1e-12) return time >= drop.start ? 1 : 0;
  if (drop.newHead) return ownCourse(Math.max(0, time - drop.start) * drop.rate, x0) ** 3;
  return 1 / (1 + Math.exp(Math.log(1 / x0 ** 2 - 1) - 2 * drop.rate * (time - drop.start)));
}

/** The curves of separate attention at these times: {loss, values: a row for each head, drops}. */
export function separateCurves(times, drops, sizes, levels) {
  const loss = new Float64Array(times.length);
  const values = Array.from({ length: sizes.heads }, () => new Float64Array(times.length));
  const progress = new Float64Array(sizes.dim);
  times.forEach((time, i) => {
    progress.fill(0);
    const sums = new Float64Array(sizes.heads);
    for (const drop of drops) {
      progress[drop.component] = progressOf(drop, time);
      sums[drop.head] += progress[drop.component] * levels.target[drop.component];
    }
    loss[i] = lossOfProgress(levels, progress);
    const signs = new Int8Array(sizes.heads).fill(1);
    for (const drop of drops) signs[drop.head] = drop.sign;
    for (let h = 0; h < sizes.heads; h++) values[h][i] = signs[h] * Math.cbrt(sums[h]);
  });
  return { loss, values };
}

/** The part of each merged head that grows, (v_h + ⟨Λ², U_h⟩/‖Λ²‖)/2. */
export function growingModes(weights, sizes, values) {
  const squares = values.map((value) => value * value);
  const norm = Math.hypot(...squares);
  return Float64Array.from({ length: sizes.heads }, (_, h) => {
    let along = 0;
    for (let d = 0; d < sizes.dim; d++) {
      along += (squares[d] / norm) * weights[sizes.heads + h * sizes.block + d * sizes.dim + d];
    }
    return (weights[h] + along) / 2;
  });
}

/** The curves of merged attention at these times: {loss, values, dropTime}, from vanishing initial weights. */
export function mergedCurves(times, modes, values, levels, gain) {
  const dim = values.length;
  const size = Math.hypot(...modes);
  const squares = values.map((value) => value * value);
  const norm = Math.hypot(...squares);
  let state = Float64Array.from([size, ...squares.map((square) => (size * square) / norm)]);
  const field = (s) => {
    const out = new Float64Array(dim + 1);
    for (let d = 0; d < dim; d++) {
      const drive = gain * squares[d] * (1 - (s[0] * s[d + 1]) / levels.target[d]);
      out[0] += drive * s[d + 1];
      out[d + 1] = s[0] * drive;
    }
    return out;
  };
  const plus = (a, b, h) => a.map((value, i) => value + h * b[i]);
  const fall = levels.heights[0] - levels.heights[dim];
  const loss = new Float64Array(times.length);
  const heads = Array.from(modes, () => new Float64Array(times.length));
  let now = 0;
  let dropTime = Infinity;
  let previous = Infinity;
  const current = () => lossOfProgress(levels, levels.target.map((w, d) => (state[0] * state[d + 1]) / w));
  times.forEach((time, i) => {
    let moved = true;
    while (now < time && moved) {
      let fastest = gain * norm;
      const spread = state.reduce((sum, s) => sum + s * s, 0);
      for (let d = 0; d < dim; d++) fastest = Math.max(fastest, (gain * squares[d] * spread) / levels.target[d]);
      const h = Math.min(0.1 / fastest, time - now);
      const k1 = field(state);
      const k2 = field(plus(state, k1, h / 2));
      const k3 = field(plus(state, k2, h / 2));
      const k4 = field(plus(state, k3, h));
      state = state.map((value, j) => value + (h / 6) * (k1[j] + 2 * k2[j] + 2 * k3[j] + k4[j]));
      now += h;
      moved = k1.some((k, j) => Math.abs(k) > 1e-13 * fastest * Math.abs(state[j]));
      const half = levels.heights[0] - fall / 2;
      const here = current();
      if (dropTime === Infinity && here <= half) {
        dropTime = now - (previous > here && previous < Infinity ? (h * (half - here)) / (previous - here) : 0);
      }
      previous = here;
    }
    now = Math.max(now, time);
    loss[i] = current();
    modes.forEach((mode, h) => {
      heads[h][i] = (mode / size) * state[0];
    });
  });
  return { loss, values: heads, dropTime, size };
}

/** Everything the theory says of a setting whose initial weights are given, at steps `steps` (increasing). */
export function theoryOf(setting, weights, sizes, values, gain, steps) {
  const levels = levelsOf(values, setting.context, gain);
  const times = Float64Array.from(steps, (step) => 2 * setting.lr * step);
  if (sizes.merged) {
    const curves = mergedCurves(times, growingModes(weights, sizes, values), values, levels, gain);
    return { levels, steps, ...curves, drops: [] };
  }
  const drops = dropSequence(weights, sizes, values, setting.context, gain);
  return { levels, steps, drops, ...separateCurves(times, drops, sizes, levels) };
}
