/**
 * Plateaus of a loss curve without noise, by the rule of `iclearn.probes.plateaus`: a stretch in which the loss moves at
 * least ten times more slowly than in the drops on both sides of it. Nothing of a theory enters.
 *
 * The loss of gradient descent on infinitely many prompts has no noise and falls, so what the Python detector does about
 * noise is left out: a curve that rises by more than rounding is not read, and `findPlateaus` returns null.
 */

const CONTRAST = 10; // "much smaller": an order of magnitude in slope
const EDGE = 0.1; // a stretch ends where the curve has gone this fraction of the way to the next one
const FASTEST = 1 / 3; // the speed of a drop is that of its fastest third
const STRAIGHT = 1e-2; // of the whole distance: equal speeds over less than this happen in smooth curves, too
const RESOLUTION = 1e-10; // of the whole distance: slower motion than this is rounding
const ROUNDING = 1e-9; // of the curve's range: a rise of more than this is none
const POINTS = 2000; // at which a curve is read

/** The first index whose value is at least `value` (left), or above it (right). */
function place(sorted, value, right = false) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (right ? sorted[middle] <= value : sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

const even = (x) => (x - Math.floor(x) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)); // as numpy rounds

/** Steps at which a curve is read: evenly spaced, and in logarithmic time as many evenly in that. */
export function readSteps(steps, log) {
  const count = Math.min(steps, log ? POINTS / 2 : POINTS);
  const found = new Set();
  for (let i = 0; i < count; i++) {
    const share = count > 1 ? i / (count - 1) : 0;
    found.add(even(share * (steps - 1)));
    if (log) found.add(even(Math.exp(share * Math.log(steps)) - 1));
  }
  return Float64Array.from(found).sort();
}

/** The nearest falling curve, by averaging neighbors that rise. */
function falling(loss) {
  const blocks = [];
  for (const value of loss) {
    blocks.push([value, 1]);
    while (blocks.length > 1 && blocks.at(-1)[0] / blocks.at(-1)[1] > blocks.at(-2)[0] / blocks.at(-2)[1]) {
      const [total, count] = blocks.pop();
      blocks.at(-1)[0] += total;
      blocks.at(-1)[1] += count;
    }
  }
  return Float64Array.from(blocks.flatMap(([total, count]) => new Array(count).fill(total / count)));
}

class Curve {
  constructor(loss, time) {
    this.loss = loss;
    this.time = time;
    this.smooth = falling(loss);
    this.traveled = this.smooth.map((value) => this.smooth[0] - value);
    this.total = this.traveled.at(-1);
  }

  /** The first time at which the curve has traveled this far. */
  crossing(distance) {
    const { traveled, time } = this;
    const i = Math.min(Math.max(place(traveled, distance), 1), traveled.length - 1);
    const [low, high] = [traveled[i - 1], traveled[i]];
    const share = high > low ? Math.min(1, Math.max(0, (distance - low) / (high - low))) : 0;
    return time[i - 1] + share * (time[i] - time[i - 1]);
  }

  meanSpeed(begin, end) {
    const stop = end >= this.total ? this.time.at(-1) : this.crossing(end);
    return (end - begin) / Math.max(stop - this.crossing(begin), 1e-300);
  }

  /** Speed over the fastest third of the distance from `begin` to `end`. */
  fastest(begin, end) {
    const window = FASTEST * (end - begin);
    const [first, last] = [place(this.traveled, begin), place(this.traveled, end)];
    const starts = Array.from({ length: 33 }, (_, i) => begin + ((end - begin) * i) / 32);
    for (let i = first; i < last; i += Math.max(1, (last - first) >> 9)) starts.push(this.traveled[i], this.traveled[i] - window);
    let least = Infinity;
    for (const start of starts) {
      if (start >= begin && start <= end - window) least = Math.min(least, this.crossing(start + window) - this.crossing(start));
    }
    return window / Math.max(least, 1e-300);
  }

  /** Times and distances that cut the curve each time it has moved by more than rounding. */
  knots() {
    const { traveled, time, total } = this;
    const least = RESOLUTION * total;
    const knots = [[time[0], 0]];
    let here = 0;
    for (;;) {
      const target = knots.at(-1)[1] + least;
      const reached = place(traveled, target);
      if (reached >= traveled.length) break;
      const jump = traveled[reached] - target >= least;
      if (!(jump && reached === here + 1)) {
        const share = (target - traveled[reached - 1]) / (traveled[reached] - traveled[reached - 1]);
        knots.push([time[reached - 1] + share * (time[reached] - time[reached - 1]), target]);
      }
      if (jump) knots.push([time[reached], traveled[reached]]);
      here = jump ? reached : reached - 1;
    }
    if (time.at(-1) > knots.at(-1)[0]) knots.push([time.at(-1), total]);
    return knots;
  }

  /** How far the curve has traveled at a time. */
  distanceAt(when) {
    const i = Math.min(Math.max(place(this.time, when, true), 1), this.time.length - 1);
    const share = (when - this.time[i - 1]) / (this.time[i] - this.time[i - 1]);
    return this.traveled[i - 1] + share * (this.traveled[i] - this.traveled[i - 1]);
  }

  /** Slowest points: each counts once speed has fallen tenfold before it and risen tenfold after it. */
  candidates() {
    const knots = this.knots();
    const lengths = knots.slice(1).map((knot, i) => Math.max(knot[1] - knots[i][1], RESOLUTION * this.total));
    const speed = lengths.map((length, i) => Math.log(length / (knots[i + 1][0] - knots[i][0])));
    const hint = Math.log(CONTRAST);
    const cores = [];
    let slowing = null;
    let [least, most] = [0, 0];
    speed.forEach((value, i) => {
      if (value < speed[least]) least = i;
      if (value > speed[most]) most = i;
      if (slowing !== true && value < speed[most] - hint) [slowing, least] = [true, i];
      else if (slowing !== false && value > speed[least] + hint) {
        const where = slowing === null ? 0 : this.slowest(speed, knots, lengths, least);
        cores.push([where, where]);
        [slowing, most] = [false, i];
      }
    });
    if (slowing) cores.push([this.total, this.total]);
    return cores;
  }

  /** Distance of the slowest point; on a straight stretch, where rounding would choose it, the middle of that. */
  slowest(speed, knots, lengths, least) {
    const rounding = lengths.map((length) => (16 * Number.EPSILON * this.total) / length);
    const alike = (i) => Math.abs(speed[i] - speed[least]) <= rounding[i] + rounding[least];
    let [first, last] = [least, least + 1];
    while (first > 0 && alike(first - 1)) first--;
    while (last < speed.length && alike(last)) last++;
    if (last - first < 3 || knots[last][1] - knots[first][1] < STRAIGHT * this.total) {
      return this.distanceAt((knots[least][0] + knots[least + 1][0]) / 2);
    }
    return (knots[first][1] + knots[last][1]) / 2;
  }
}

/** Where each stretch begins and ends: a tenth of the way from its core to its neighbors'. */
function spans(cores, total) {
  return cores.map(([first, last], i) => {
    const before = i ? cores[i - 1][1] : 0;
    const after = i + 1 < cores.length ? cores[i + 1][0] : total;
    return [first - EDGE * (first - before), last + EDGE * (after - last)];
  });
}

/** A stretch against the drops on both sides of it: how many times faster each is, and whether it is more than rounding. */
function pairsOf(curve, cores, i) {
  const [first, last] = cores[i];
  const before = i ? cores[i - 1][1] : 0;
  const after = i + 1 < cores.length ? cores[i + 1][0] : curve.total;
  const drops = [[false, before, first], [true, last, after]].filter(([, upper, lower]) => lower > upper);
  const smaller = drops.length ? Math.min(...drops.map(([, upper, lower]) => lower - upper)) : 0;
  const margin = Math.min(EDGE * smaller, smaller / 2);
  const own = curve.meanSpeed(Math.max(first - margin, 0), Math.min(last + margin, curve.total));
  return drops.map(([isAfter, upper, lower]) => {
    const size = lower - upper;
    const drop = curve.fastest(upper + EDGE * size, lower - EDGE * size);
    return { contrast: drop / Math.max(own, 1e-300), clear: size >= 10 * RESOLUTION * curve.total, after: isAfter, i };
  });
}

/** Remove a drop or the stretch i beside it, whichever the motion of the two together resembles less. */
function cancel(curve, cores, pair) {
  const { i, after } = pair;
  const { total } = curve;
  const core = cores[i];
  const other = after ? i + 1 : i - 1;
  const endsCurve = after ? core[0] <= 0 : core[1] >= total;
  const lost = !pair.clear;
  if (other < 0 || other >= cores.length) { // the drop is the first or the last of the curve
    if (endsCurve && !lost) return [];
    const grown = after ? [core[0], total] : [0, core[1]];
    return [...cores.slice(0, i), grown, ...cores.slice(i + 1)];
  }
  const merged = [Math.min(core[0], cores[other][0]), Math.max(core[1], cores[other][1])];
  const without = [...cores.slice(0, i), ...cores.slice(i + 1)];
  const joined = [...cores.slice(0, Math.min(i, other)), merged, ...cores.slice(Math.max(i, other) + 1)];
  if (lost) return joined;
  if (endsCurve) return without;
  const bounds = spans(cores, total);
  const region = after ? [bounds[i][0], bounds[other][0]] : [bounds[other][1], bounds[i][1]];
  const far = after ? [i ? cores[i - 1][1] : 0, core[0]] : [core[1], i + 1 < cores.length ? cores[i + 1][0] : total];
  const likeDrop = curve.meanSpeed(...region) ** 2 > curve.fastest(...far) * curve.meanSpeed(...bounds[other]);
  return likeDrop ? without : joined;
}

/** The stretches that are ten times slower than all drops beside them. */
function slowSegments(curve) {
  let cores = curve.candidates();
  while (cores.length) {
    const every = cores.flatMap((_, i) => pairsOf(curve, cores, i));
    const lost = every.find((pair) => !pair.clear);
    const weakest = lost ?? every.reduce((least, pair) => (least && least.contrast <= pair.contrast ? least : pair), null);
    if (!weakest || !(lost || weakest.contrast < CONTRAST)) break;
    cores = cancel(curve, cores, weakest);
  }
  const whole = cores.length === 1 && cores[0][0] === 0 && cores[0][1] === curve.total;
  return whole ? [] : cores;
}

function median(list) {
  const sorted = Float64Array.from(list).sort();
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/**
 * Plateaus of the losses at every step, in the order of time: {start, end, height}, in steps; where the curve comes to
 * rest is none. With `log` in logarithmic time, where other stretches are slow. null for a curve that does not fall.
 */
export function findPlateaus(losses, log = false) {
  const steps = readSteps(losses.length, log).filter((step) => !log || step > 0);
  const loss = Float64Array.from(steps, (step) => losses[step]);
  if (loss.length < 8) return null;
  let [lowest, rise] = [Infinity, 0];
  for (const value of loss) {
    lowest = Math.min(lowest, value);
    rise = Math.max(rise, value - lowest);
  }
  if (!(rise <= ROUNDING * (loss[0] - lowest) + 1e-13 * loss[0])) return null;
  const curve = new Curve(loss, log ? steps.map(Math.log) : steps);
  if (!(curve.total > 1e-14 * loss[0])) return [];
  const cores = slowSegments(curve);
  const clock = log ? Math.exp : (t) => t;
  const found = spans(cores, curve.total).map(([begin, end]) => {
    const start = begin <= 0 ? curve.time[0] : curve.crossing(begin);
    const stop = end >= curve.total ? curve.time.at(-1) : curve.crossing(end);
    const quarter = (stop - start) / 4;
    let inside = Array.from(loss).filter((_, i) => curve.time[i] >= start + quarter && curve.time[i] <= stop - quarter);
    if (!inside.length) {
      const gap = Array.from(curve.time, (t) => Math.abs(t - (start + stop) / 2));
      inside = [loss[gap.indexOf(Math.min(...gap))]];
    }
    return { start: clock(start), end: clock(stop), height: median(inside) };
  });
  const resting = cores.length > 0 && cores.at(-1)[1] >= curve.total;
  return resting ? found.slice(0, -1) : found;
}
