/** Python behind the page: the same run by `iclearn.simulate`, compared number by number, and runs only Python makes. */
import { ask, difference, served } from "iclearn/link";
import { numbers, trainedInPage } from "iclearn/settings";

const CLOSE = 1e-10; // what the page promises
let timer = 0;

function tell(text, kind) {
  const line = document.getElementById("referee");
  line.textContent = text;
  line.className = kind;
}

/** Say whether the page's run and Python's are the same. */
export function referee(answer, result) {
  const apart = difference(answer, result);
  const worst = Math.max(apart.loss, apart.weights);
  if (worst <= CLOSE) tell(`agrees with iclearn to ${worst.toExponential(0)}`, "good");
  else tell(`DISAGREES with iclearn: loss by ${apart.loss.toExponential(1)}, weights by ${apart.weights.toExponential(1)}`, "bad");
}

/** Let Python train a setting a moment after it came to rest, and call `done` with what it says. */
export function askPython(setting, key, current, done) {
  clearTimeout(timer);
  if (!served) {
    tell("", "");
    return;
  }
  const own = trainedInPage(setting);
  tell(own ? "asking iclearn …" : "Python is training …", "");
  timer = setTimeout(async () => {
    try {
      const answer = await ask("run", { setting });
      if (!current()) return;
      if (answer.stale) return;
      done({ ...answer, key, losses: own ? null : numbers(answer.loss) });
      document.getElementById("referee").dataset.key = key;
      if (!own) tell(`trained by Python: ${answer.sentence}, ${answer.engine} engine, ${answer.seconds.toFixed(1)} s`, "good");
    } catch (error) {
      if (current()) tell(error.message, "bad");
    }
  }, 250);
}
