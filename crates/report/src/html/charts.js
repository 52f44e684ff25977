// Charts of the report: bars out of HTML, which print and need no canvas; heat maps and curves on canvases.

const SERIES = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8", "--c9"];

// Colours that dark text is read on.
const LIGHT = ["--waiting", "--sleeping", "--runnable", "--empty", "--c9", "--c1"];

// One bar of several parts: [{ name, value, colour }]; `text` says a value.
function stackedBar(label, parts, total, text) {
  const shown = parts.filter((part) => part.value > 0);
  const rendered = shown.map((part) => `${part.name} ${shareText(part.value / total)}`).join(", ");
  return el("div", { class: "stack-row" },
    el("span", { class: "stack-label" }, plain(label)),
    el("div", { class: "stack", role: "img", "aria-label": `${plain(label)}: ${rendered}` }, shown.map((part) => {
      const share = part.value / total;
      const tip = (event) => showTip(event, [part.name, `${text(part.value)} · ${shareText(share)}`]);
      return el("span", { class: `${LIGHT.includes(part.colour) ? "light" : ""} ${share < 0.16 ? "narrow" : ""}`, colour: `var(${part.colour})`, "width%": share * 100, onpointermove: tip, onpointerleave: hideTip },
        share > 0.09 ? shareText(share) : null);
    })));
}

function legend(parts) {
  return el("ul", { class: "legend", "aria-hidden": "true" }, parts.map((part) => el("li", { class: part.kind || null, colour: `var(${part.colour})` }, part.name)));
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
    columns.forEach((column, x) => { if (x % every === 0 && left + (x + 0.5) * cell + 12 < width) context.fillText(plain(columnName(column)), left + (x + 0.5) * cell, top / 2); });
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

// Curves and dots: series are [{ name, points: [[x, y]], kind, colour, ringed, errors }]; `kind` is `line`, `dashes` or dots,
// `ringed(n)` says whether a point has a ring, `errors[n]` is half an interval. Axes are { label, text: value => shown }.
// With `cut`, a few points that are far above all others do not make the scale: they stand at its upper end, as triangles.
function plot({ label, caption, ring, series: given, x, y, zero = true, log = false, cut = false, numbers }) {
  // Of logarithms, where values span powers of ten: what is not above 0 has none.
  const scale = (value) => (log ? Math.log10(value) : value);
  const isShown = ([a, b]) => (log ? a > 0 && b > 0 : true) && Number.isFinite(a) && Number.isFinite(b);
  const series = given.map((one, index) => ({ ...one, colour: one.colour || SERIES[index % SERIES.length], points: one.points.map((point, n) => ({ point, n, at: [scale(point[0]), scale(point[1])], error: one.errors ? one.errors[n] : null })).filter(({ point }) => isShown(point)) }));
  const rendered = (axis) => (tick) => axis.text(log ? 10 ** tick : tick);
  const marks = (from, to, count) => (log ? powers(from, to) : ticks(from, to, count));
  const points = series.flatMap((one) => one.points);
  if (points.length < 2) return null;
  const bound = (pick, of, floor) => points.reduce((best, point) => pick(best, of(point)), floor);
  const [x0, x1] = [bound(Math.min, ({ at }) => at[0], Infinity), bound(Math.max, ({ at }) => at[0], -Infinity)];
  const low = bound(Math.min, ({ at, error }) => at[1] - (error || 0), Infinity), high = bound(Math.max, ({ at, error }) => at[1] + (error || 0), -Infinity);
  const most = cut ? usual(series) : high;
  const [y0, y1] = zero && !log ? [Math.min(0, low), Math.max(0, Math.min(high, most))] : [low, Math.min(high, most)];
  const isCut = high > y1;
  const left = 64, right = 14, bottom = 36, top = 26;
  let places = [];
  const { canvas } = drawing({ class: "plot", role: "img", "aria-label": `${plain(label)}: ${plain(y.label)} against ${plain(x.label)}` }, 260, (context, width, height, colour) => {
    // Nothing is cut off at the edges.
    const atX = (value) => left + 8 + ((value - x0) / (x1 - x0 || 1)) * (width - left - right - 16);
    const atY = (value) => height - bottom - 4 - ((value - y0) / (y1 - y0 || 1)) * (height - bottom - top - 8);
    axis(context, colour, { left, width, height, bottom, y: { text: rendered(y) }, atY, ticks: marks(y0, y1, 4) });
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText(`↑ ${plain(y.label)}`, 2, 2);
    context.textAlign = "center";
    let end = 0;
    for (const tick of marks(x0, x1, Math.max(2, width / 120))) {
      const text = rendered(x)(tick), half = context.measureText(text).width / 2, middle = Math.min(atX(tick), width - 20);
      if (middle - half < end + 8) continue;
      context.fillText(text, middle, height - bottom + 7);
      end = middle + half;
    }
    context.textAlign = "right";
    context.fillText(`${plain(x.label)} →`, width - 2, height - 14);
    places = [];
    series.forEach((one) => {
      context.fillStyle = context.strokeStyle = colour(one.colour);
      context.lineWidth = 1.5;
      if (one.kind === "line" || one.kind === "dashes") {
        context.setLineDash(one.kind === "dashes" ? [5, 4] : []);
        context.beginPath();
        one.points.forEach(({ at: [a, b] }, n) => (n ? context.lineTo(atX(a), atY(b)) : context.moveTo(atX(a), atY(b))));
        context.stroke();
        context.setLineDash([]);
      }
      if (one.kind !== "dashes") dots(context, one, atX, atY, colour, places);
    });
  });
  const nearest = (event) => {
    const [a, b] = within(event, canvas);
    const by = (place) => Math.hypot(place.x - a, place.y - b);
    const best = places.reduce((best, place) => (best === null || by(place) < by(best) ? place : best), null);
    if (!best || by(best) > 14) return hideTip();
    showTip(event, [plain(best.name), `${plain(x.label)}: ${x.text(best.point[0])}`, `${plain(y.label)}: ${y.text(best.point[1])}`]);
  };
  canvas.addEventListener("pointermove", nearest);
  canvas.addEventListener("pointerleave", hideTip);
  const names = series.filter((one) => one.points.length && one.name).map((one) => ({ name: plain(one.name), colour: one.colour, kind: one.kind }));
  if (ring && series.some((one) => one.ringed && one.points.some(({ n }) => one.ringed(n)))) names.push({ name: ring, colour: "--match", kind: "ring" });
  const rows = series.filter((one) => one.kind !== "dashes").flatMap((one) => one.points.map(({ point }) => ({ name: one.name, x: point[0], y: point[1] })));
  const own = { rows, columns: [column.text("name", "of"), { key: "x", title: plain(x.label), value: (row) => row.x, text: (row) => x.text(row.x) }, { key: "y", title: plain(y.label), value: (row) => row.y, text: (row) => y.text(row.y) }] };
  return figure(label, isCut ? `${caption} ▲: beyond the scale.` : caption, canvas, names.length > 1 ? legend(names) : null, numbers || own);
}

// What nine of ten points of each series keep within, and half as much again; all, where that is not far away.
function usual(series) {
  const of = series.map((one) => one.points.map(({ at }) => at[1]).sort((a, b) => a - b)).filter((values) => values.length > 0);
  const most = Math.max(...of.map((values) => values[values.length - 1]));
  const bound = 1.5 * Math.max(...of.map((values) => values[Math.floor(0.9 * (values.length - 1))]));
  return bound > 0 && most > 1.5 * bound ? bound : most;
}

// Above this, in pixels, no point is drawn.
const EDGE = 24;

function dots(context, one, atX, atY, colour, places) {
  context.globalAlpha = one.points.length > 300 ? 0.4 : 0.85;
  const size = one.kind === "line" ? 2 : 3;
  one.points.forEach(({ at: [a, b], n, point, error }) => {
    const [left, top] = [atX(a), Math.max(atY(b), EDGE)];
    places.push({ x: left, y: top, point, name: one.names ? one.names[n] : one.name });
    if (error) {
      context.beginPath();
      context.moveTo(left, atY(b - error));
      context.lineTo(left, atY(b + error));
      context.stroke();
    }
    context.beginPath();
    if (atY(b) < EDGE) [[left, top - 4], [left + 5, top + 4], [left - 5, top + 4]].forEach((corner) => context.lineTo(...corner));
    else context.arc(left, top, size, 0, 7);
    context.fill();
    if (!one.ringed || !one.ringed(n)) return;
    context.save();
    context.strokeStyle = colour("--match");
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(left, top, 7, 0, 7);
    context.stroke();
    context.restore();
  });
  context.globalAlpha = 1;
}

// A picture with its title, how to read it, and its numbers as a table.
function figure(label, caption, picture, key, numbers) {
  const shown = numbers ? table(label, numbers.columns, numbers.rows) : null;
  return el("figure", {}, el("figcaption", {}, plain(label), caption ? el("span", { class: "muted small" }, plain(caption)) : null), picture, key, shown ? el("details", { class: "numbers" }, el("summary", {}, "Numbers"), shown) : null);
}

// A picture of bars, the longest of which is the largest value: [{ name, value, text, odd }].
function ranking(label, caption, heading, measure, rows) {
  const known = rows.filter((row) => Number.isFinite(row.value));
  if (known.length === 0) return null;
  const numbers = { rows: known, columns: [column.text("name", heading), { key: "value", title: measure, value: (row) => row.value, text: (row) => row.text }] };
  const drawn = bars(`${plain(label)}: ${plain(measure)} by ${plain(heading)}`, known);
  drawn.classList.add("wide");
  return figure(label, caption, drawn, null, numbers);
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
