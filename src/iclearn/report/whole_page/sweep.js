// The sweep browser: a phase diagram over two axes of a stored sweep. A cell, by click or by keyboard, shows its runs.
{
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (x, digits = 4) => (Number.isFinite(x) ? String(Number(x.toPrecision(digits))) : "none");
  const make = (name, text = "", attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const MOST_ROWS = 200; // of a cell's runs in its table
  const MOST_CURVES = 60;
  const HOW = {
    median: (list) => (list.sort((a, b) => a - b), (list[(list.length - 1) >> 1] + list[list.length >> 1]) / 2),
    mean: (list) => list.reduce((sum, v) => sum + v, 0) / list.length,
    smallest: (list) => Math.min(...list),
    largest: (list) => Math.max(...list),
    spread: (list) => Math.max(...list) - Math.min(...list),
  };

  /** Numbers that `packed` of report/sweep_section.py wrote. */
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const raw = new Uint8Array(await new Response(stream).arrayBuffer());
    const count = raw.length / 4;
    const out = new Uint8Array(raw.length);
    for (let b = 0; b < 4; b++) for (let i = 0; i < count; i++) out[4 * i + b] = raw[b * count + i];
    return new Float32Array(out.buffer);
  };

  const save = (name, blob) => {
    const link = make("a", "", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  class Sweep {
    constructor(section, facts, numbers, losses) {
      Object.assign(this, { section, facts, numbers, losses, plot: null, axes: facts.axes });
      this.shape = facts.axes.map((axis) => axis.labels.length);
      this.runs = this.shape.reduce((a, b) => a * b, 1);
      this.strides = this.shape.map((_, k) => this.shape.slice(k + 1).reduce((a, b) => a * b, 1));
      this.status = numbers.subarray(this.runs * facts.columns.findIndex((c) => c.of === "status")).subarray(0, this.runs);
      this.diverged = facts.status.indexOf("diverged");
      // the first picture: the two longest axes that are no seeds
      const order = [...this.shape.keys()].filter((k) => this.shape[k] > 1 || this.shape.length === 1);
      order.sort((a, b) => facts.axes[a].seeds - facts.axes[b].seeds || this.shape[b] - this.shape[a]);
      const others = order.filter((k) => !facts.axes[k].seeds);
      this.x = order[0] ?? 0;
      this.y = others.length > 1 ? others[1] : -1;
      this.fixed = this.shape.map(() => -1);
      this.how = "median";
      this.scale = "auto";
      const telling = ["crossing_step", "final_loss"].map((name) => facts.columns.findIndex((c) => c.of === name));
      this.value = telling.find((at) => at >= 0);
      this.cell = [0, 0];
      this.logTime = false;
      this.canvas = section.querySelector("canvas");
      this.canvas.addEventListener("keydown", (event) => this.key(event));
      this.canvas.addEventListener("click", (event) => this.point(event, true));
      this.canvas.addEventListener("mousemove", (event) => this.point(event, false));
      this.canvas.addEventListener("mouseleave", () => this.tell(this.cell));
      section.querySelector("[data-save=png]").addEventListener("click", () => {
        this.canvas.toBlob((blob) => save(`${facts.name}.png`, blob));
      });
      section.querySelector("[data-save=csv]").addEventListener("click", () => save(`${facts.name}.csv`, new Blob([this.csv()], { type: "text/csv" })));
      section.querySelector(".cells").addEventListener("toggle", () => this.table());
      this.form();
      this.update();
    }

    /** The drop-downs; those of the axes depend on which ones the diagram has. */
    form() {
      const form = this.section.querySelector("form");
      const focused = form.contains(document.activeElement) ? document.activeElement.dataset.name : "";
      form.replaceChildren();
      const menu = (name, label, options, value, change) => {
        const select = make("select", "", { "data-name": name });
        let group = select;
        for (const [key, text, of] of options) {
          if (of !== undefined && of !== group.label) {
            group = make("optgroup", "", { label: of });
            select.append(group);
          }
          group.append(make("option", text, { value: key }));
        }
        select.value = String(value);
        select.addEventListener("change", () => {
          change(select.value);
          this.update();
        });
        const box = make("label", `${label} `);
        box.append(select);
        form.append(box);
        if (name === focused) select.focus();
      };
      const columns = this.facts.columns.map((c, i) => [i, c.name, c.meaning]).filter(([i]) => this.facts.columns[i].of !== "status");
      const shares = this.facts.status.map((word, code) => [-1 - code, `share ${word}`, "how runs ended"]);
      const axes = this.axes.map((axis, k) => [k, axis.name]);
      menu("value", "value", [...columns, ...shares], this.value, (v) => (this.value = Number(v)));
      if (this.value >= 0) menu("how", "of a cell's runs", Object.keys(HOW).map((h) => [h, h]), this.how, (v) => (this.how = v));
      menu("x", "across", axes, this.x, (v) => this.place("x", "y", Number(v)));
      if (axes.length > 1) menu("y", "up", [[-1, "nothing (a profile)"], ...axes], this.y, (v) => this.place("y", "x", Number(v)));
      menu("scale", "scale", ["auto", "linear", "log"].map((s) => [s, s]), this.scale, (v) => (this.scale = v));
      this.axes.forEach((axis, k) => {
        if (k === this.x || k === this.y || this.shape[k] === 1) return;
        const all = [-1, `all ${this.shape[k]}`];
        menu(`fix-${axis.name}`, axis.name, [all, ...axis.labels.map((label, i) => [i, label])], this.fixed[k], (v) => (this.fixed[k] = Number(v)));
      });
    }

    /** Put an axis across or up; the one that was there changes places with it. */
    place(here, there, axis) {
      if (this[there] === axis) this[there] = here === "y" && this.y < 0 ? [...this.shape.keys()].find((k) => k !== axis) : Math.max(this[here], there === "y" ? -1 : 0);
      this[here] = axis;
      this.cell = [0, 0];
    }

    update() {
      for (const k of [this.x, this.y]) if (k >= 0) this.fixed[k] = -1;
      this.form();
      this.compute();
      this.draw();
      this.show();
      this.table();
    }

    /** Where in the arrays the runs of cell (0, 0) are; other cells are shifted. */
    offsets() {
      let list = [0];
      this.shape.forEach((count, k) => {
        if (k === this.x || k === this.y) return;
        const chosen = this.fixed[k] < 0 ? [...Array(count).keys()] : [this.fixed[k]];
        list = list.flatMap((start) => chosen.map((i) => start + i * this.strides[k]));
      });
      return list;
    }

    runsAt([i, j]) {
      const start = i * this.strides[this.x] + (this.y < 0 ? 0 : j * this.strides[this.y]);
      return this.offset.map((shift) => start + shift);
    }

    /** The number of one run that the diagram shows; what it is instead: "not run", "diverged", "no number". */
    numberOf(run) {
      const code = this.status[run];
      if (code < 0) return "not run";
      if (this.value < 0) return Number(code === -1 - this.value);
      const column = this.facts.columns[this.value];
      if (code === this.diverged && !column.always) return "diverged";
      const number = this.numbers[this.value * this.runs + run];
      return Number.isFinite(number) ? number : "no number";
    }

    compute() {
      this.offset = this.offsets();
      this.across = this.shape[this.x];
      this.up = this.y < 0 ? 1 : this.shape[this.y];
      this.found = Array.from({ length: this.across * this.up }, (_, n) => {
        const counts = { "not run": 0, diverged: 0, "no number": 0 };
        const list = [];
        for (const run of this.runsAt([n % this.across, Math.floor(n / this.across)])) {
          const number = this.numberOf(run);
          if (typeof number === "number") list.push(number);
          else counts[number]++;
        }
        const word = counts.diverged ? "diverged" : counts["no number"] ? "no number" : "not run";
        const value = list.length ? (this.value < 0 ? HOW.mean(list) : HOW[this.how](list)) : NaN;
        return { value, word: list.length ? "" : word, counts, size: list.length };
      });
      const values = this.found.map((c) => c.value).filter(Number.isFinite);
      let [low, high] = [Infinity, -Infinity];
      for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)];
      if (this.value < 0) [low, high] = [0, 1];
      this.log = this.scale === "log" ? low > 0 : this.scale === "auto" && this.value >= 0 && low > 0 && high > 30 * low;
      this.range = [low, high];
    }

    at([i, j]) {
      return this.found[j * this.across + i];
    }

    share(value) {
      const f = this.log ? Math.log : (v) => v;
      const [low, high] = this.range.map(f);
      return high > low ? (f(value) - low) / (high - low) : 0.5;
    }

    get title() {
      if (this.value < 0) return `share of runs that ${this.facts.status[-1 - this.value]}`;
      const { name } = this.facts.columns[this.value];
      return this.offset.length > 1 ? `${this.how} of ${name} over ${this.offset.length} runs` : name;
    }

    draw() {
      const colors = { ink: css("--ink"), soft: css("--soft"), line: css("--line"), bad: css("--contradicted"), panel: css("--panel"), focus: css("--focus") };
      this.box = drawDiagram(this, colors);
      this.canvas.setAttribute("aria-label", `phase diagram, ${this.title}: ${this.axes[this.x].name} across${this.y < 0 ? "" : `, ${this.axes[this.y].name} up`}. Arrow keys move from cell to cell, Enter goes to its runs.`);
      this.tell(this.cell);
    }

    words([i, j]) {
      const words = [`${this.axes[this.x].name} = ${this.axes[this.x].labels[i]}`];
      if (this.y >= 0) words.push(`${this.axes[this.y].name} = ${this.axes[this.y].labels[j]}`);
      this.fixed.forEach((chosen, k) => chosen >= 0 && words.push(`${this.axes[k].name} = ${this.axes[k].labels[chosen]}`));
      return words.join(", ");
    }

    tell(cell) {
      const { value, word, counts, size } = this.at(cell);
      const rest = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`);
      const told = word || `${this.title.replace(/ over \d+ runs/, "")} ${short(value)}`;
      const runs = size + Object.values(counts).reduce((a, b) => a + b, 0);
      this.section.querySelector("output").textContent = `${this.words(cell)}: ${told} (${[plural(runs, "run"), ...rest].join(", ")})`;
    }

    key(event) {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-1e9, 0], End: [1e9, 0] };
      if (event.key === "Enter" || event.key === " ") this.section.querySelector(".cell button")?.focus();
      else if (moves[event.key]) {
        const [dx, dy] = moves[event.key];
        const inside = (v, count) => Math.max(0, Math.min(count - 1, v));
        this.choose([inside(this.cell[0] + dx, this.across), inside(this.cell[1] + dy, this.up)]);
      } else return;
      event.preventDefault();
    }

    point(event, click) {
      const edge = this.canvas.getBoundingClientRect();
      const { left, top, width, height } = this.box;
      const i = Math.floor(((event.clientX - edge.left - left) / width) * this.across);
      const j = this.up - 1 - Math.floor(((event.clientY - edge.top - top) / height) * this.up);
      if (i < 0 || j < 0 || i >= this.across || j >= this.up) return;
      if (click) this.choose([i, j]);
      else this.tell([i, j]);
    }

    choose(cell) {
      this.cell = cell;
      this.draw();
      this.show();
    }

    /** The runs of the chosen cell. */
    show() {
      const host = this.section.querySelector(".cell");
      this.cellRuns = this.runsAt(this.cell);
      const free = this.axes.map((_, k) => k).filter((k) => k !== this.x && k !== this.y && this.fixed[k] < 0 && this.shape[k] > 1);
      const columns = this.facts.columns.map((c, i) => [c, i]).filter(([c, i]) => c.of !== "status" && this.cellRuns.some((run) => Number.isFinite(this.numbers[i * this.runs + run])));
      columns.sort(([, a], [, b]) => (b === this.value) - (a === this.value)); // the one that is shown comes first
      const table = make("table");
      const head = make("tr");
      for (const name of ["run", ...free.map((k) => this.axes[k].name), "ended", ...columns.map(([c]) => c.name)]) head.append(make("th", name, { scope: "col" }));
      table.append(make("thead"), make("tbody"));
      table.tHead.append(head);
      this.cellRuns.slice(0, MOST_ROWS).forEach((run, n) => {
        const row = make("tr", "", { "data-run": run });
        const button = make("button", String(n + 1), { type: "button", "aria-label": `choose run ${n + 1}` });
        button.addEventListener("click", () => this.pick(run));
        const first = make("td");
        first.append(button);
        row.append(first, ...free.map((k) => make("td", this.axes[k].labels[this.indexOf(run, k)])), this.endOf(run));
        for (const [, i] of columns) row.append(make("td", short(this.numbers[i * this.runs + run], 5)));
        table.tBodies[0].append(row);
      });
      const scroll = make("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs of this cell" });
      scroll.append(table);
      const more = this.cellRuns.length > MOST_ROWS ? `, the first ${MOST_ROWS} of them here` : "";
      host.replaceChildren(make("h3", this.words(this.cell)), make("p", `${plural(this.cellRuns.length, "run")}${more}. Choose one to see its recipe.`, { class: "note" }));
      if (this.losses) {
        const box = make("label", "", { class: "switch" });
        const input = make("input", "", { type: "checkbox" });
        input.checked = this.logTime;
        input.addEventListener("change", () => {
          this.logTime = input.checked;
          this.curves();
        });
        box.append(input, " logarithmic time");
        host.append(make("div", "", { class: "chart", role: "img", "aria-label": "training loss of the runs of this cell" }), box);
      } else host.append(make("p", "The sweep kept no curves (reduce: {curve: true} keeps them); the command below trains a run again.", { class: "note" }));
      host.append(scroll, make("div", "", { class: "again" }));
      this.pick(this.cellRuns[0]);
    }

    indexOf(run, k) {
      return Math.floor(run / this.strides[k]) % this.shape[k];
    }

    endOf(run) {
      const code = this.status[run];
      const at = this.numbers[this.facts.columns.findIndex((c) => c.of === "status_step") * this.runs + run];
      if (code < 0) return make("td", "not run yet");
      return make("td", code === this.diverged ? `diverged by step ${at}` : this.facts.status[code], code === this.diverged ? { class: "contradicted" } : {});
    }

    /** The recipe of a run: the base with what its point on every axis changes. */
    recipeOf(run) {
      const recipe = structuredClone(this.facts.base);
      this.axes.forEach((axis, k) => {
        axis.fields.forEach((field, f) => {
          const path = field.split(".");
          const last = path.pop();
          path.reduce((table, name) => table[name], recipe)[last] = axis.values[this.indexOf(run, k)][f];
        });
      });
      return recipe;
    }

    pick(run) {
      this.run = run;
      for (const row of this.section.querySelectorAll(".cell tbody tr")) row.toggleAttribute("aria-current", Number(row.dataset.run) === run);
      const recipe = this.recipeOf(run);
      const changed = this.axes.flatMap((axis, k) => axis.fields.map((field, f) => [field, axis.values[this.indexOf(run, k)][f]]));
      const list = make("dl");
      for (const [field, value] of changed) list.append(make("dt", field), make("dd", typeof value === "string" ? value : JSON.stringify(value)));
      const line = `echo '${JSON.stringify(recipe).replaceAll("'", "'\\''")}' > run.json && iclearn train --recipe run.json`;
      const number = this.cellRuns.indexOf(run) + 1;
      const block = (title, text) => {
        const box = make("details");
        const copy = make("button", "Copy", { type: "button" });
        copy.addEventListener("click", async () => {
          await navigator.clipboard.writeText(text);
          copy.textContent = "Copied";
        });
        box.append(make("summary", title), copy, make("pre", text, { tabindex: "0" }));
        return box;
      };
      this.section.querySelector(".again").replaceChildren(make("h4", `Run ${number}: its settings`), list, block("Train this very run again (command line)", line), block("Recipe (JSON)", JSON.stringify(recipe, null, 1)));
      this.curves();
    }

    /** The stored curves of the cell's runs, the chosen one in front. */
    curves() {
      this.plot?.destroy();
      this.plot = null;
      const host = this.section.querySelector(".cell .chart");
      if (!host || !host.clientWidth) return;
      const { points, steps, axis } = this.facts.curves;
      const shown = [...this.cellRuns.slice(0, MOST_CURVES).filter((run) => run !== this.run), this.run].filter((run) => this.status[run] >= 0);
      const shift = this.logTime ? 1 : 0;
      const tables = shown.map((run) => {
        const own = steps[axis < 0 ? 0 : this.indexOf(run, axis)];
        const kept = own.map((_, i) => i).filter((i) => i === 0 || own[i] > own[i - 1]);
        const loss = kept.map((i) => this.losses[run * points + i]);
        const top = 3 * loss[0];
        return [kept.map((i) => own[i] + shift), loss.map((v) => (Number.isFinite(v) && v <= top ? v : null))];
      });
      if (!tables.length) return;
      const grid = { stroke: css("--line"), width: 1 };
      const axisLook = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
      const look = (run) => (run === this.run ? { stroke: css("--c2"), width: 2.6 } : { stroke: css("--c1"), width: 1, alpha: 0.45 });
      const options = {
        width: host.clientWidth, height: 240, legend: { show: false }, cursor: { show: false },
        scales: { x: { time: false, distr: this.logTime ? 3 : 1, range: (u, low, high) => [low, high] } },
        axes: [{ ...axisLook, size: 34, label: shift ? "step + 1" : "step", labelSize: 16 }, { ...axisLook, label: "loss", labelSize: 18 }],
        series: [{}, ...shown.map((run) => ({ ...look(run), points: { show: false }, spanGaps: axis >= 0 }))],
      };
      this.plot = new uPlot(options, uPlot.join(tables), host);
    }

    rows() {
      const up = [...Array(this.up).keys()];
      const name = (cell) => cell.word || short(cell.value, 6);
      return up.map((j) => [this.y < 0 ? this.title : this.axes[this.y].labels[j], ...Array.from({ length: this.across }, (_, i) => name(this.at([i, j])))]);
    }

    csv() {
      const corner = `${this.y < 0 ? "" : `${this.axes[this.y].name} \\ `}${this.axes[this.x].name}`;
      const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      return `${[[corner, ...this.axes[this.x].labels], ...this.rows()].map((row) => row.map(cell).join(",")).join("\n")}\n`;
    }

    /** The diagram as a table, for those who do not see it. */
    table() {
      const box = this.section.querySelector(".cells");
      if (!box.open) return;
      const table = make("table");
      const head = make("tr");
      head.append(make("th", this.title, { scope: "col" }), ...this.axes[this.x].labels.map((label) => make("th", `${this.axes[this.x].name} ${label}`, { scope: "col" })));
      table.append(head);
      for (const [name, ...cells] of this.rows()) {
        const row = make("tr");
        row.append(make("th", this.y < 0 ? "" : `${this.axes[this.y].name} ${name}`, { scope: "row" }), ...cells.map((text) => make("td", text)));
        table.append(row);
      }
      box.querySelector(".scroll").replaceChildren(table);
    }
  }

  (async () => {
    const all = JSON.parse(document.getElementById("sweeps").textContent);
    const made = [];
    for (const section of document.querySelectorAll("[data-sweep]")) {
      const facts = all[section.dataset.sweep];
      const losses = facts.curves ? await unpacked(facts.curves.losses) : null;
      made.push(new Sweep(section, facts, await unpacked(facts.numbers), losses));
      section.dataset.ready = "yes";
    }
    const redraw = () => {
      for (const sweep of made) {
        sweep.draw();
        sweep.curves();
      }
    };
    addEventListener("resize", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  })();
}
