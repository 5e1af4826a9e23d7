/** The controls at the side, made from the table of settings that Python gives. */
import { controls, facts, largestSeed, problemWith } from "iclearn/settings";
import { served } from "iclearn/link";

const GROUPS = {
  model: "Model", task: "Task", training: "Training", python: "With Python", documents: "Documents",
};
const nice = (value) => (Number.isInteger(value) ? String(value) : Math.abs(value) >= 1e-3 || value === 0 ? String(Number(value.toPrecision(4))) : value.toExponential(2).replace(".00e", "e"));

function position(rule, value) {
  if (rule.scale !== "log") return value;
  return (1000 * Math.log(value / rule.min)) / Math.log(rule.max / rule.min);
}

function valueAt(rule, place) {
  if (rule.scale !== "log") return Number(place);
  const value = rule.min * (rule.max / rule.min) ** (place / 1000);
  return rule.step >= 1 ? Math.round(value) : Number(value.toPrecision(3));
}

/** The eigenvalue that a slider stands at; they are spaced logarithmically. */
function eigenvalueAt(rule, range) {
  return Number((rule.min * (rule.max / rule.min) ** (range.value / 1000)).toPrecision(3));
}

/** All controls; `onChange(name, value, final)` is called while one moves and, with `final`, when it rests. */
export class Controls {
  constructor(host, onChange, onProblem) {
    Object.assign(this, { onChange, onProblem, fields: new Map() });
    for (const [group, title] of Object.entries(GROUPS)) {
      const box = document.createElement("details");
      box.open = served || (group !== "python" && group !== "documents");
      box.dataset.group = group;
      box.innerHTML = `<summary>${title}</summary>`;
      if (group === "python" && !served) {
        box.insertAdjacentHTML("beforeend", '<p class="hint">This file stands alone. <code>iclearn explore</code> opens the same page with Python behind it: finite P, softmax, linear self-attention with a guess, other optimizers.</p>');
      }
      for (const rule of controls.filter((c) => c.group === group)) box.append(this.make(rule));
      host.append(box);
    }
  }

  make(rule) {
    const row = document.createElement("div");
    row.className = "control";
    row.dataset.name = rule.name;
    const disabled = (rule.group === "python" || rule.group === "documents") && !served ? "disabled" : "";
    const help = rule.help ? `title="${rule.help}"` : "";
    if (rule.name === "eigenvalues") {
      row.innerHTML = `<span class="name" id="label-eigenvalues">${rule.label}</span><div class="bars" role="group" aria-labelledby="label-eigenvalues"></div>`;
    } else if (rule.choices) {
      const options = rule.choices.map((c) => `<option value="${c}">${String(c).replace("_", " ")}</option>`).join("");
      row.innerHTML = `<label for="c-${rule.name}" ${help}>${rule.label}</label><select id="c-${rule.name}" ${disabled}>${options}</select>`;
      const select = row.querySelector("select");
      const typed = (text) => rule.choices.find((c) => String(c) === text);
      select.addEventListener("change", () => this.onChange(rule.name, typed(select.value), true));
      this.fields.set(rule.name, (value) => (select.value = String(value)));
    } else this.makeSlider(row, rule, disabled, help);
    return row;
  }

  makeSlider(row, rule, disabled, help) {
    const log = rule.scale === "log";
    const [low, high, step] = log ? [0, 1000, 1] : [rule.min, rule.max, rule.step ?? "any"];
    row.innerHTML = `<label for="c-${rule.name}" ${help}>${rule.label}</label>
      <input type="number" id="n-${rule.name}" aria-label="${rule.label}, number" step="any" ${disabled}>
      <input type="range" id="c-${rule.name}" min="${low}" max="${high}" step="${step}" ${disabled}>`;
    const [number, range] = row.querySelectorAll("input");
    const slide = (final) => () => {
      const value = valueAt(rule, Number(range.value));
      number.value = nice(value);
      this.onChange(rule.name, value, final);
    };
    range.addEventListener("input", slide(false));
    range.addEventListener("change", slide(true));
    number.addEventListener("change", () => {
      const value = number.value === "" ? NaN : Number(number.value);
      const problem = rule.name === "dim" && Number.isInteger(value) && value >= rule.min && value <= rule.max ? null : problemWith(rule.name, value, this.setting);
      if (problem) {
        this.onProblem(problem);
        this.show(this.setting);
      } else this.onChange(rule.name, value, true);
    });
    this.fields.set(rule.name, (value) => {
      number.value = nice(value);
      if (valueAt(rule, Number(range.value)) !== value) range.value = position(rule, value); // else it stays where it is
      range.setAttribute("aria-valuetext", nice(value));
    });
  }

  /** Eigenvalue sliders, upright, one for each dimension. */
  makeEigenvalues(values) {
    const host = document.querySelector(".bars");
    const rule = controls.find((c) => c.name === "eigenvalues");
    if (host.children.length !== values.length) {
      host.replaceChildren(
        ...values.map((_, d) => {
          const box = document.createElement("div");
          box.innerHTML = `<input type="range" class="upright" min="0" max="1000" aria-label="eigenvalue ${d + 1}" id="c-eigenvalue-${d + 1}">
            <input type="number" min="0" step="any" aria-label="eigenvalue ${d + 1}, number" id="n-eigenvalue-${d + 1}">`;
          const [range, number] = box.querySelectorAll("input");
          const send = (value, final) => {
            const next = [...this.setting.eigenvalues];
            next[d] = value;
            const problem = problemWith("eigenvalues", next);
            if (problem) {
              this.onProblem(problem);
              this.show(this.setting);
            } else this.onChange("eigenvalues", final ? next.sort((a, b) => b - a) : next, final);
          };
          const slid = () => eigenvalueAt(rule, range);
          range.addEventListener("input", () => send(slid(), false));
          range.addEventListener("change", () => send(slid(), true));
          number.addEventListener("change", () => send(number.value === "" ? NaN : Number(number.value), true));
          return box;
        }),
      );
    }
    values.forEach((value, d) => {
      const [range, number] = host.children[d].querySelectorAll("input");
      if (eigenvalueAt(rule, range) !== value) range.value = (1000 * Math.log(value / rule.min)) / Math.log(rule.max / rule.min);
      range.setAttribute("aria-valuetext", nice(value));
      if (document.activeElement !== number) number.value = values.length > 5 ? Number(value.toPrecision(2)) : nice(value);
    });
  }

  /** Show a setting. */
  show(setting) {
    this.setting = setting;
    this.makeEigenvalues(setting.eigenvalues);
    for (const [name, write] of this.fields) write(name === "dim" ? setting.eigenvalues.length : setting[name]);
    for (const rule of controls) {
      const fits = !rule.kinds || rule.kinds.includes(setting.kind);
      document.querySelector(`.control[data-name="${rule.name}"]`).hidden = !fits;
    }
    for (const box of document.querySelectorAll("[data-group]")) {
      box.hidden = [...box.querySelectorAll(".control")].every((row) => row.hidden);
    }
    const rank = document.getElementById("c-rank");
    rank.disabled = setting.family === "merged";
    rank.max = Math.min(controls.find((c) => c.name === "rank").max, setting.eigenvalues.length + 1);
    document.getElementById("n-rank").disabled = rank.disabled;
    if (!facts.server) document.getElementById("c-seed").max = largestSeed();
  }
}
