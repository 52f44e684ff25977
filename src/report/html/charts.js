// Charts of the report: bars out of HTML, which print and need no canvas; heat maps and curves on canvases.

const SERIES = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8", "--c9"];

// Colours that dark text is read on.
const LIGHT = ["--waiting", "--sleeping", "--runnable", "--empty", "--c9", "--c1"];

// One bar of several parts: [{ name, value, colour }]; `text` says a value.
function stackedBar(label, parts, total, text) {
  const shown = parts.filter((part) => part.value > 0);
  const said = shown.map((part) => `${part.name} ${shareText(part.value / total)}`).join(", ");
  return el("div", { class: "stack-row" },
    el("span", { class: "stack-label" }, plain(label)),
    el("div", { class: "stack", role: "img", "aria-label": `${plain(label)}: ${said}` }, shown.map((part) => {
      const share = part.value / total;
      const tip = (event) => showTip(event, [part.name, `${text(part.value)} · ${shareText(share)}`]);
      return el("span", { class: `${LIGHT.includes(part.colour) ? "light" : ""} ${share < 0.16 ? "narrow" : ""}`, colour: `var(${part.colour})`, "width%": share * 100, onpointermove: tip, onpointerleave: hideTip },
        share > 0.09 ? shareText(share) : null);
    })));
}

function legend(parts) {
  return el("ul", { class: "legend", "aria-hidden": "true" }, parts.map((part) => el("li", { colour: `var(${part.colour})` }, part.name)));
}

// Horizontal bars, one a row: [{ name, value, text }].
function bars(label, rows) {
  const most = Math.max(...rows.map((row) => row.value), 0) || 1;
  return el("div", { class: "bars", role: "img", "aria-label": label }, rows.map((row) => el("div", { class: row.odd ? "odd" : null },
    el("span", {}, plain(row.name)),
    el("span", { class: "track" }, el("i", { "width%": (row.value / most) * 100 })),
    el("span", { class: "number" }, row.text))));
}

// Round numbers along an axis.
function ticks(from, to, count) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) || power * 10;
  const all = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-6 && all.length < 50; tick += step) all.push(tick);
  return all;
}

// Cells in two dimensions: value(row, column) from 0 to 1, or null where there is nothing.
function heatMap({ label, rows, columns, value, tip, rowName, columnName }) {
  const cellHeight = Math.max(6, Math.min(26, Math.floor(420 / rows.length)));
  const left = 56, top = 20;
  const map = drawing({ class: "heat", role: "img", "aria-label": label }, top + rows.length * cellHeight + 4, (context, width, height, colour) => {
    const cell = (width - left) / columns.length;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    rows.forEach((row, y) => {
      columns.forEach((column, x) => {
        const share = value(row, column);
        context.fillStyle = share === null ? colour("--empty") : colour("--heat");
        context.globalAlpha = share === null ? 1 : 0.08 + 0.92 * share;
        const gap = cell > 6 ? 1 : 0;
        context.fillRect(left + x * cell, top + y * cellHeight, Math.max(1, cell - gap), cellHeight - (cellHeight > 6 ? 1 : 0));
      });
      context.globalAlpha = 1;
      context.fillStyle = colour("--muted");
      context.textAlign = "right";
      if (y % Math.ceil(14 / cellHeight) === 0) context.fillText(plain(rowName(row)), left - 8, top + (y + 0.5) * cellHeight);
    });
    context.textAlign = "center";
    const every = Math.ceil(26 / cell);
    columns.forEach((column, x) => { if (x % every === 0) context.fillText(plain(columnName(column)), left + (x + 0.5) * cell, top / 2); });
  });
  map.canvas.addEventListener("pointermove", (event) => {
    const [x, y] = within(event, map.canvas);
    const row = rows[Math.floor((y - top) / cellHeight)];
    const at = columns[Math.floor((x - left) / ((map.canvas.clientWidth - left) / columns.length))];
    if (row === undefined || at === undefined || x < left) return hideTip();
    showTip(event, tip(row, at));
  });
  map.canvas.addEventListener("pointerleave", hideTip);
  return map.canvas;
}

// A curve, or dots: series are [{ name, points: [[x, y]], line }]; axes are { label, text: value => shown }.
function plot({ label, series: given, x, y, zero = true, log = false }) {
  // Of logarithms, where values span powers of ten: what is not above 0 has none.
  const series = log ? given.map((one) => ({ ...one, points: one.points.filter(([a, b]) => a > 0 && b > 0).map(([a, b]) => [Math.log10(a), Math.log10(b)]) })) : given;
  const said = (axis) => (tick) => axis.text(log ? 10 ** tick : tick);
  const marks = (from, to, count) => (log ? powers(from, to) : ticks(from, to, count));
  const points = series.flatMap((one) => one.points).filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b));
  if (points.length < 2) return null;
  const bound = (pick, index, floor) => points.reduce((best, point) => pick(best, point[index]), floor);
  const [x0, x1] = [bound(Math.min, 0, Infinity), bound(Math.max, 0, -Infinity)];
  const [y0, y1] = [zero && !log ? Math.min(0, bound(Math.min, 1, Infinity)) : bound(Math.min, 1, Infinity), bound(Math.max, 1, -Infinity)];
  const left = 64, bottom = 34, top = 8;
  const { canvas } = drawing({ class: "plot", role: "img", "aria-label": label }, 240, (context, width, height, colour) => {
    const atX = (value) => left + ((value - x0) / (x1 - x0 || 1)) * (width - left - 12);
    const atY = (value) => height - bottom - ((value - y0) / (y1 - y0 || 1)) * (height - bottom - top);
    axis(context, colour, { left, width, height, bottom, y: { text: said(y) }, atY, ticks: marks(y0, y1, 4) });
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of marks(x0, x1, Math.max(2, width / 120))) context.fillText(said(x)(tick), atX(tick), height - bottom + 6);
    context.fillText(x.label, left + (width - left) / 2, height - 13);
    series.forEach((one, index) => {
      context.fillStyle = context.strokeStyle = colour(SERIES[index % SERIES.length]);
      context.lineWidth = 1.5;
      if (one.line) {
        context.beginPath();
        one.points.forEach(([a, b], n) => (n ? context.lineTo(atX(a), atY(b)) : context.moveTo(atX(a), atY(b))));
        context.stroke();
      } else {
        context.globalAlpha = one.points.length > 300 ? 0.4 : 0.8;
        one.points.forEach(([a, b]) => { context.beginPath(); context.arc(atX(a), atY(b), 2.6, 0, 7); context.fill(); });
        context.globalAlpha = 1;
      }
    });
  });
  const names = series.map((one, index) => ({ name: plain(one.name), colour: SERIES[index % SERIES.length] }));
  return el("figure", {}, el("figcaption", {}, plain(label), y.label ? el("span", { class: "muted" }, ` ${y.label}`) : null), canvas, series.length > 1 ? legend(names) : null);
}

function powers(from, to) {
  const all = [];
  for (let power = Math.ceil(from); power <= to; power++) all.push(power);
  return all.length > 1 ? all : [from, to];
}

// The vertical axis of a chart: lines and what they are.
function axis(context, colour, { left, width, height, bottom, y, atY, ticks: at }) {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const tick of at) {
    context.strokeStyle = colour("--line");
    context.beginPath();
    context.moveTo(left, Math.round(atY(tick)) + 0.5);
    context.lineTo(width, Math.round(atY(tick)) + 0.5);
    context.stroke();
    context.fillStyle = colour("--muted");
    context.fillText(y.text(tick), left - 8, atY(tick));
  }
  context.fillStyle = colour("--muted");
}
