// The picture of a sweep on a canvas: colored cells over two axes, or the values of all runs over one.
const drawDiagram = (sweep, colors) => {
  const FONT = "12px system-ui, sans-serif";
  const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(3))) : "none");
  const { canvas, axes, facts, across, up } = sweep;
  const wide = canvas.parentElement.clientWidth;
  const profile = sweep.y < 0;
  const context = canvas.getContext("2d");
  context.font = FONT;
  const labels = profile ? [] : axes[sweep.y].labels;
  const widest = Math.max(...(profile ? [46] : labels.map((text) => Math.min(0.3 * wide, context.measureText(text).width))));
  const left = Math.ceil(widest + 34);
  const top = 64;
  const width = wide - left - 12;
  const height = profile ? 250 : Math.max(150, Math.min(460, up * Math.max(30, Math.min(64, (0.8 * width) / across))));
  const ratio = devicePixelRatio || 1;
  canvas.style.height = `${height + top + 52}px`;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round((height + top + 52) * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colors.panel;
  context.fillRect(0, 0, wide, height + top + 52);
  context.font = FONT;
  const [cellWidth, cellHeight] = [width / across, height / up];
  const corner = ([i, j]) => [left + i * cellWidth, top + (up - 1 - j) * cellHeight];
  const shade = (value) => facts.colors[Math.round(63 * Math.max(0, Math.min(1, sweep.share(value))))];
  const text = (words, x, y, align = "center", color = colors.soft, most = undefined) => {
    context.textAlign = align;
    context.fillStyle = color;
    context.fillText(words, x, y, most);
  };
  const dark = (hex) => {
    const [r, g, b] = [1, 3, 5].map((k) => Number.parseInt(hex.slice(k, k + 2), 16));
    return 0.3 * r + 0.59 * g + 0.11 * b < 140;
  };
  const gap = cellWidth > 8 && cellHeight > 8 ? 1 : 0;

  const hatch = (x, y, w, h) => {
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.strokeStyle = colors.bad;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let s = -h; s < w; s += 7) {
      context.moveTo(x + s, y + h);
      context.lineTo(x + s + h, y);
    }
    context.stroke();
    context.restore();
  };

  const cells = () => {
    for (let j = 0; j < up; j++) {
      for (let i = 0; i < across; i++) {
        const cell = sweep.at([i, j]);
        const [x, y] = corner([i, j]);
        const [w, h] = [cellWidth - gap, cellHeight - gap];
        if (cell.word === "diverged") hatch(x, y, w, h);
        else {
          context.fillStyle = cell.word ? colors.line : shade(cell.value);
          context.globalAlpha = cell.word === "not run" ? 0.3 : 1;
          context.fillRect(x, y, w, h);
          context.globalAlpha = 1;
        }
        if (cellWidth > 42 && cellHeight > 17 && cell.word !== "diverged") {
          const color = cell.word ? colors.ink : dark(shade(cell.value)) ? "#fff" : "#111";
          text(cell.word ? "–" : short(cell.value), x + w / 2, y + h / 2 + 4, "center", color);
        }
        if (!cell.word && cell.counts.diverged && cellWidth > 12 && cellHeight > 12) {
          const size = Math.min(11, cellWidth / 3); // some of its runs diverged: a marked corner
          context.fillStyle = colors.bad;
          context.beginPath();
          context.moveTo(x + w, y);
          context.lineTo(x + w - size, y);
          context.lineTo(x + w, y + size);
          context.fill();
        }
      }
    }
  };

  const runs = () => {
    const all = [];
    for (let i = 0; i < across; i++) {
      const list = sweep.runsAt([i, 0]).map((run) => sweep.numberOf(run)).filter((v) => typeof v === "number" && (!sweep.log || v > 0));
      const stride = Math.max(1, Math.ceil(list.length / 400));
      all.push(list.filter((_, n) => n % stride === 0));
    }
    let [low, high] = sweep.range;
    for (const v of sweep.value < 0 ? [] : all.flat()) [low, high] = [Math.min(low, v), Math.max(high, v)];
    const scale = sweep.log ? Math.log : (v) => v;
    const room = high > low ? 0.06 * (scale(high) - scale(low)) : Math.max(1e-12, Math.abs(scale(high)) * 0.1);
    const y = (v) => top + height * (1 - (scale(v) - scale(low) + room) / (scale(high) - scale(low) + 2 * room));
    if (Number.isFinite(low)) {
      const middle = sweep.log ? Math.sqrt(low * high) : (low + high) / 2;
      for (const v of high > low ? [low, middle, high] : [low]) {
        context.strokeStyle = colors.line;
        context.beginPath();
        context.moveTo(left, y(v));
        context.lineTo(left + width, y(v));
        context.stroke();
        text(short(v), left - 8, y(v) + 4, "right");
      }
    }
    const middleOf = (i) => left + (i + 0.5) * cellWidth;
    context.fillStyle = colors.soft;
    context.globalAlpha = 0.45;
    if (sweep.value >= 0 && sweep.offset.length > 1) {
      all.forEach((list, i) => list.forEach((v) => {
        context.beginPath();
        context.arc(middleOf(i), y(v), 2.4, 0, 7);
        context.fill();
      }));
    }
    context.globalAlpha = 1;
    context.strokeStyle = colors.focus;
    context.lineWidth = 2.2;
    context.beginPath();
    let pen = false;
    for (let i = 0; i < across; i++) {
      const { value } = sweep.at([i, 0]);
      if (Number.isFinite(value)) context[pen ? "lineTo" : "moveTo"](middleOf(i), y(value));
      pen = Number.isFinite(value);
    }
    context.stroke();
    for (let i = 0; i < across; i++) {
      const { value, word, counts } = sweep.at([i, 0]);
      context.fillStyle = colors.focus;
      if (Number.isFinite(value)) {
        context.beginPath();
        context.arc(middleOf(i), y(value), 4, 0, 7);
        context.fill();
      } else if (word === "diverged") hatch(left + i * cellWidth, top, cellWidth - 1, height);
      if (!word && counts.diverged) text("✕", middleOf(i), top + 12, "center", colors.bad);
    }
  };

  const key = () => {
    text(sweep.title, left, 18, "left", colors.ink, width);
    const bar = Math.min(220, 0.45 * width);
    let [x, y] = [left, 28];
    if (!profile && Number.isFinite(sweep.range[0])) {
      const steps = facts.colors.length;
      for (let k = 0; k < steps; k++) {
        context.fillStyle = facts.colors[k];
        context.fillRect(left + (bar * k) / steps, 28, bar / steps + 0.6, 10);
      }
      text(short(sweep.range[0]), left, 53, "left");
      text(short(sweep.range[1]), left + bar, 53, "right");
      if (sweep.log && bar > 150) text("log", left + bar / 2, 53);
      x += bar + 18;
    }
    const begin = x;
    const kinds = new Set(sweep.found.map((cell) => cell.word));
    if (sweep.found.some((cell) => !cell.word && cell.counts.diverged)) kinds.add("some diverged");
    for (const word of ["diverged", "some diverged", "no number", "not run"]) {
      const room = 22 + context.measureText(word).width;
      if (!kinds.has(word)) continue;
      if (x + room > wide) [x, y] = [begin, y + 16];
      if (word === "diverged") hatch(x, y, 14, 10);
      else if (word === "some diverged") text(profile ? "✕" : "◥", x + 7, y + 10, "center", colors.bad);
      else {
        context.fillStyle = colors.line;
        context.globalAlpha = word === "not run" ? 0.3 : 1;
        context.fillRect(x, y, 14, 10);
        context.globalAlpha = 1;
      }
      text(word, x + 19, y + 10, "left");
      x += room + 12;
    }
  };

  const names = () => {
    const own = axes[sweep.x].labels;
    const need = Math.max(...own.map((t) => context.measureText(t).width)) + 8;
    const every = Math.max(1, Math.ceil(Math.min(need, 120) / cellWidth));
    own.forEach((label, i) => {
      if (i % every === 0) text(label, left + (i + 0.5) * cellWidth, top + height + 17, "center", colors.soft, every * cellWidth - 4);
    });
    text(axes[sweep.x].name, left + width / 2, top + height + 40, "center", colors.ink);
    const rows = Math.max(1, Math.ceil(14 / cellHeight));
    labels.forEach((label, j) => {
      if (j % rows === 0) text(label, left - 8, top + (up - 0.5 - j) * cellHeight + 4, "right", colors.soft, widest);
    });
    context.save();
    context.translate(13, top + height / 2);
    context.rotate(-Math.PI / 2);
    text(profile ? "" : axes[sweep.y].name, 0, 0, "center", colors.ink);
    context.restore();
  };

  if (profile) runs();
  else cells();
  key();
  names();
  const [x, y] = corner(sweep.cell);
  context.lineWidth = 4;
  context.strokeStyle = colors.panel;
  context.strokeRect(x + 0.5, y + 0.5, cellWidth - 1, cellHeight - 1);
  context.lineWidth = 2.5;
  context.strokeStyle = colors.ink;
  context.strokeRect(x - 0.5, y - 0.5, cellWidth + 0.5, cellHeight + 0.5);
  return { left, top, width, height };
};
