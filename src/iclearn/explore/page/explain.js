/** The theory's sentence for a point in time: which plateau, what is learned next, when, and why that long. */

const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉";
export const sub = (n) => String(n).replace(/\d/g, (digit) => SUBSCRIPT[digit]);
export const short = (x, digits = 3) => Number(x.toPrecision(digits)).toLocaleString("en-US", { maximumSignificantDigits: digits });
export const whole = (x) => Math.round(x).toLocaleString("en-US");
const list = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);

function separate(step, loss, { setting, theory, values, gain }) {
  const time = 2 * setting.lr * step;
  const levels = theory.levels.heights;
  const done = theory.drops.filter((drop) => drop.time <= time);
  const next = theory.drops[done.length];
  const m = done.length;
  const words = [];
  const fast = (drop) => 2.5 / drop.rate; // about half of a drop's width
  const dropping = theory.drops.find((drop) => Math.abs(drop.time - time) < fast(drop));
  const who = done.map((drop) => `head ${drop.head + 1} e${sub(drop.component + 1)}`);
  if (dropping) {
    const way = dropping.newHead ? "a new head" : "an unused pair of a grown head";
    words.push(`A drop: head ${dropping.head + 1} learns e${sub(dropping.component + 1)} (λ = ${short(values[dropping.component])}), ${way}.`);
  } else if (next) {
    words.push(`On the plateau L(M${sub(m)}) = ${short(levels[m], 4)} (here ${short(loss, 4)}).`);
  } else {
    words.push(`At the end, L(M${sub(m)}) = ${short(levels[m], 4)} (here ${short(loss, 4)}).`);
  }
  if (m === 0 && !dropping) words.push("Nothing is learned yet: the model answers 0.");
  else if (m > 0) words.push(`Learned: ${list(who)}; the model computes principal component regression with ${m} component${m > 1 ? "s" : ""}.`);
  const coming = dropping && dropping.time > time ? theory.drops[theory.drops.indexOf(dropping) + 1] : next;
  if (coming) words.push(...why(coming, setting, values, gain));
  else if (theory.drops.length < values.length && !next) {
    words.push(`${setting.heads} head${setting.heads > 1 ? "s" : ""} of rank ${setting.rank} have no room for more than ${theory.drops.length} of ${values.length} eigenvectors, so training stays here.`);
  } else if (!coming) words.push("Everything is learned: this is the least loss any weights could reach.");
  return words.join(" ");
}

function why(drop, setting, values, gain) {
  const at = drop.time / (2 * setting.lr);
  const name = `e${sub(drop.component + 1)} (λ = ${short(values[drop.component])})`;
  const late = at > setting.steps ? ", after the end of this run" : "";
  const words = [`Next: ${name}, by head ${drop.head + 1}, at step ${whole(at)} by theory${late}.`];
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
  return `At the end, L(M${sub(last)}) = ${short(levels[last], 4)} (here ${short(loss, 4)}): everything is learned; the model is one preconditioned step of gradient descent.`;
}

/** The sentence for the loss `loss` before update `step`. */
export function explain(step, loss, scene) {
  if (scene.result.divergedAt >= 0 && step >= scene.result.steps - 1) {
    return `Training diverged at step ${whole(scene.result.divergedAt)}: the learning rate ${scene.setting.lr} is too large for these eigenvalues and this sum over tokens.`;
  }
  return (scene.setting.family === "merged" ? merged : separate)(step, loss, scene);
}
