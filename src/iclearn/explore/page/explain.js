/** The theory's sentence for a point in time: which plateau, what is learned next, when, and why that long. */

const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉";
export const sub = (n) => String(n).replace(/\d/g, (digit) => SUBSCRIPT[digit]);
export const short = (x, digits = 3) => Number(x.toPrecision(digits)).toLocaleString("en-US", { maximumSignificantDigits: digits });
export const whole = (x) => Math.round(x).toLocaleString("en-US");
const list = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);

/** Which head holds each of the first m eigenvectors, by what it adds to A_dd. */
function holders(m, weights, { dim, heads, rank, block }) {
  return Array.from({ length: m }, (_, d) => {
    let best = [0, 0];
    for (let h = 0; h < heads; h++) {
      let sum = 0;
      for (let r = 0; r < rank; r++) {
        const place = heads + (h * rank + r) * dim + d;
        sum += weights[place] * weights[place + heads * block];
      }
      const size = Math.abs(weights[h] * sum);
      if (size > best[0]) best = [size, h];
    }
    return `e${sub(d + 1)} by head ${best[1] + 1}`;
  });
}

function separate(step, loss, { setting, theory, values, gain, sizes }, weights) {
  const levels = theory.levels.heights;
  const room = Math.min(values.length, sizes.heads * sizes.rank);
  let m = 0; // drops that are more than half done
  while (m < room && loss < (levels[m] + levels[m + 1]) / 2) m++;
  const words = [];
  const above = m > 0 ? (loss - levels[m]) / (levels[m - 1] - levels[m]) : 0;
  const below = m < room ? (levels[m] - loss) / (levels[m] - levels[m + 1]) : 0;
  const passing = above > 0.1 ? m - 1 : below > 0.1 ? m : -1;
  if (passing >= 0) {
    words.push(`A drop, from L(M${sub(passing)}) = ${short(levels[passing], 4)} to L(M${sub(passing + 1)}) = ${short(levels[passing + 1], 4)} (here ${short(loss, 4)}): e${sub(passing + 1)} (λ = ${short(values[passing])}) is being learned.`);
  } else if (m < room) {
    words.push(`On the plateau L(M${sub(m)}) = ${short(levels[m], 4)} (here ${short(loss, 4)}).`);
  } else {
    words.push(`At the end, L(M${sub(m)}) = ${short(levels[m], 4)} (here ${short(loss, 4)}).`);
  }
  if (m > 0) {
    const parts = `${m} component${m > 1 ? "s" : ""}`;
    words.push(`Learned: ${list(holders(m, weights, sizes))}; the model computes principal component regression with ${parts}.`);
  } else if (passing < 0) words.push("Nothing is learned yet: the model answers 0.");
  const next = theory.drops[Math.max(m, passing + 1)];
  if (next) words.push(...why(next, step, setting, values, gain));
  else if (room < values.length && m === room) {
    words.push(`${setting.heads} head${setting.heads > 1 ? "s" : ""} of rank ${setting.rank} have no room for more than ${room} of ${values.length} eigenvectors, so training stays here.`);
  } else if (m === room) words.push("Everything is learned: this is the least loss any weights could reach.");
  return words.join(" ");
}

function why(drop, step, setting, values, gain) {
  const at = drop.time / (2 * setting.lr);
  const name = `e${sub(drop.component + 1)} (λ = ${short(values[drop.component])})`;
  const late = at > setting.steps ? ", after the end of this run" : "";
  const told = at < step ? `theory expected it at step ${whole(at)}` : `at step ${whole(at)} by theory${late}`;
  const words = [`Next: ${name}, by head ${drop.head + 1}, ${told}.`];
  const lambda = values[drop.component];
  if (drop.newHead) {
    const wait = 1 / (gain * lambda * lambda * drop.scale) / (2 * setting.lr);
    words.push(`Why so long: a small head is pushed only by its own weights, v̇ = gλ²v², so from the scale v₀ = ${short(drop.scale)} it needs about 1/(gλ²v₀), ${whole(wait)} steps: twice the eigenvalue, a quarter of the wait; twice the initial weights, half of it.`);
  } else {
    words.push(`Why so soon: head ${drop.head + 1} has grown already and has a pair left, which its value pushes at once: it grows as e^{gλ²vt}, and the wait is only a logarithm of the initial weights.`);
  }
  return words;
}

function merged(step, loss, { setting, theory, values, gain }) {
  const levels = theory.levels.heights;
  const at = theory.dropTime / (2 * setting.lr);
  const norm = Math.hypot(...values.map((value) => value * value));
  const last = levels.length - 1;
  const fall = (levels[0] - loss) / (levels[0] - levels[last]);
  if (fall < 0.1) {
    const when = Number.isFinite(at) ? `at step ${whole(at)} by theory` : "after the end of this run";
    const wait = Math.log(1 / theory.size) / (gain * norm) / (2 * setting.lr);
    return `On the only plateau, near zero, L(M₀) = ${short(levels[0], 4)} (here ${short(loss, 4)}). Next: all ${values.length} eigenvectors at once, ${when}. Why: merged weights grow exponentially, at the rate g‖Λ²‖ = ${short(gain * norm)}, from w_init = ${short(theory.size)}: about ln(1/w_init)/(g‖Λ²‖), ${whole(wait)} steps; ten times smaller initial weights add only ${whole(Math.log(10) / (gain * norm) / (2 * setting.lr))} steps.`;
  }
  if (fall < 0.9) return `The one drop: all eigenvectors are learned together (half done at step ${whole(at)} by theory). Merged attention has two fixed points only, zero and the optimum.`;
  const where = fall < 0.99 ? "Nearly at the end" : "At the end";
  return `${where}, L(M${sub(last)}) = ${short(levels[last], 4)} (here ${short(loss, 4)}): there the model is one preconditioned step of gradient descent.`;
}

/** The sentence for the loss `loss` and the weights before update `step`. */
export function explain(step, loss, scene, weights) {
  if (scene.result.divergedAt >= 0 && step >= scene.result.steps - 1) {
    return `Training diverged at step ${whole(scene.result.divergedAt)}: the learning rate ${scene.setting.lr} is too large for these eigenvalues and this sum over tokens.`;
  }
  const first = scene.result.losses[0] / scene.theory.levels.heights[0];
  const big = scene.theory.drops.some((drop) => drop.newHead && drop.start === 0 && drop.scale > 0.4 * drop.limit);
  if (Math.abs(first - 1) > 0.1 || big) {
    return `These initial weights are of the size of the final ones, so nothing has to escape from zero, and the theory, which is for small weights, does not say what happens here (loss ${short(loss, 4)}). Make the initial scale ten times smaller to see plateaus.`;
  }
  return (scene.setting.family === "merged" ? merged : separate)(step, loss, scene, weights);
}
