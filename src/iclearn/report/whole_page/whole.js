// The report's own script: search, filter and sort the verdicts; curves when they are opened; the explorer on request.
{
  const rows = [...document.querySelectorAll("#table tbody tr")];
  const search = document.getElementById("search");
  const filters = [...document.querySelectorAll("[data-filter]")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = filters.every((f) => !f.value || row.dataset[f.dataset.filter] === f.value);
      row.hidden = !(fits && words.every((word) => texts.get(row).includes(word)));
      shown += !row.hidden;
    }
    document.getElementById("count").textContent = `${shown} of ${rows.length} claims`;
  };
  search.addEventListener("input", apply);
  for (const filter of filters) filter.addEventListener("change", apply);
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea")) {
      event.preventDefault();
      search.focus();
    }
  });
  apply();

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.querySelectorAll("th[data-sort]")];
    for (const head of heads) {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const place = Number(head.dataset.sort);
        const box = (row) => row.children[place].querySelector("input");
        const key = (row) => (box(row) ? String(Number(!box(row).checked)) : row.children[place].textContent);
        const compare = (a, b) => {
          const numbers = [Number(key(a)), Number(key(b))];
          return numbers.some(Number.isNaN) ? key(a).localeCompare(key(b), "en", { numeric: true }) : numbers[0] - numbers[1];
        };
        const all = [...table.tBodies[0].rows].sort((a, b) => (down ? -1 : 1) * compare(a, b));
        table.tBodies[0].append(...all);
      });
    }
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const curves = JSON.parse(document.getElementById("curves").textContent);
  const plots = new Map();
  // a figure shows all its curves, a table of runs those that are chosen in it
  const chosenRuns = (box) => {
    if (box.dataset.curves) return curves[box.dataset.curves];
    const boxes = [...box.querySelectorAll("[data-run]:checked")].slice(0, 60);
    boxes.forEach((input, i) => {
      input.style.accentColor = css(`--c${i % 8}`);
    });
    return boxes.map((input) => curves[box.dataset.runs][Number(input.dataset.run)]);
  };
  const drawCurves = (box) => {
    const runs = chosenRuns(box);
    const host = box.querySelector(".chart");
    const log = box.querySelector(".switch input").checked;
    const told = box.querySelector("output");
    plots.get(box)?.destroy();
    plots.delete(box);
    if (!runs.length) return;
    const tables = runs.map((run) => [run.steps.map((step) => step + (log ? 1 : 0)), run.loss]);
    const data = uPlot.join(tables);
    for (let i = 1; i < data.length; i++) fill(data[0], data[i]);
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const options = {
      width: host.clientWidth, height: 280, legend: { show: false },
      cursor: { focus: { prox: 24 }, drag: { x: true, y: false } }, focus: { alpha: 0.25 },
      scales: { x: { time: false, distr: log ? 3 : 1, range: (u, low, high) => [low, high] } },
      axes: [{ ...axis, label: log ? "step + 1" : "step", labelSize: 18 }, { ...axis, label: "loss", labelSize: 18 }],
      series: [{}, ...runs.map((run, i) => ({ label: run.label, stroke: css(`--c${i % 8}`), width: 1.8, points: { show: false }, spanGaps: true }))],
      hooks: {
        setSeries: [(u, index) => { told.textContent = index ? runs[index - 1].label : ""; }],
      },
    };
    plots.set(box, new uPlot(options, data, host));
  };
  // between two points of a run the line goes straight on: other runs have points there
  const fill = (x, y) => {
    let before = -1;
    for (let i = 0; i < y.length; i++) {
      if (y[i] === null || y[i] === undefined) continue;
      for (let j = before + 1; before >= 0 && j < i; j++) y[j] = y[before] + ((x[j] - x[before]) / (x[i] - x[before])) * (y[i] - y[before]);
      before = i;
    }
  };
  for (const box of document.querySelectorAll("[data-curves]")) {
    box.addEventListener("toggle", () => box.open && !plots.has(box) && drawCurves(box));
    box.querySelector("input").addEventListener("change", () => drawCurves(box));
  }
  for (const box of document.querySelectorAll("[data-runs]")) {
    const lines = [...box.querySelectorAll("tbody tr")];
    const field = box.querySelector("[data-search]");
    const found = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const line of lines) line.hidden = !words.every((word) => line.textContent.toLowerCase().includes(word));
      box.querySelector("[data-count]").textContent = `${lines.filter((line) => !line.hidden).length} of ${lines.length} runs`;
    };
    field.addEventListener("input", found);
    box.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    box.addEventListener("change", (event) => event.target.matches("[type=checkbox]") && drawCurves(box));
    for (const button of box.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => {
        for (const line of lines) line.querySelector("input").checked = button.dataset.choose === "all" && !line.hidden;
        drawCurves(box);
      });
    }
    found();
    drawCurves(box);
  }
  const redraw = () => {
    for (const box of plots.keys()) drawCurves(box);
  };
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  let address = "";
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => {
      if (!address) {
        const bytes = Uint8Array.from(atob(document.getElementById("explorer-page").textContent), (c) => c.charCodeAt(0));
        address = URL.createObjectURL(new Blob([bytes], { type: "text/html" }));
      }
      const place = button.closest("article").querySelector(".explorer");
      const open = place.dataset.preset === button.dataset.preset;
      for (const other of document.querySelectorAll(".explorer")) {
        other.replaceChildren();
        other.dataset.preset = "";
      }
      if (open) return;
      const frame = document.createElement("iframe");
      frame.title = button.textContent;
      frame.src = `${address}#preset=${button.dataset.preset}`;
      place.append(frame);
      place.dataset.preset = button.dataset.preset;
    });
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.curves)")];
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of opened) box.open = false;
  });
}
