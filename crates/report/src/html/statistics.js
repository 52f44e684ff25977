// Shows JSON whose keys this page does not know: texts as sentences, lists of objects as tables, series as charts.
// A chart is an object with `points` ([[x, y], …]) or `series` ([{ name, points }]), and `x` and `y` that name the axes.

const MOST_NESTED = 6;
// Scalars of an object below which it is a table of its own.
const MOST_CELLS = 24;

function anything(key, value, depth) {
  if (isNothing(value) || depth > MOST_NESTED) return null;
  if (typeof value === "string") return note(value, "sentence");
  if (typeof value !== "object") return factList([[wordsOf(key), figureText(key, value)]]);
  if (Array.isArray(value)) return list(key, value, depth);
  const drawn = chartOf(key, value);
  const { scalars, others } = apart(value, Boolean(drawn));
  const texts = scalars.filter(([name, part]) => typeof part === "string" && /^(sentences?|text|summary|verdict|note)$/.test(name));
  const figures = scalars.filter((entry) => !texts.includes(entry) && entry[0] !== "title");
  const title = typeof value.title === "string" ? value.title.trim() : depth > 0 ? capital(wordsOf(key)) : null;
  const inner = [texts.map(([, text]) => note(text, "sentence")), drawn, factList(figures.slice(0, 200).map(([name, part]) => [wordsOf(name), figureText(name, part)])), others.map(([name, part]) => anything(name, part, depth + 1))].flat(Infinity).filter(Boolean);
  if (inner.length === 0) return null;
  return el("div", { class: "group" }, title && !drawn ? el(depth > 1 ? "h4" : "h3", {}, plain(title)) : null, inner);
}

function apart(value, isDrawn) {
  const entries = Object.entries(value).filter(([name]) => !(isDrawn && ["points", "series", "x", "y", "title"].includes(name)));
  return { scalars: entries.filter(([, part]) => part === null || typeof part !== "object"), others: entries.filter(([, part]) => part !== null && typeof part === "object") };
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function list(key, values, depth) {
  const known = values.filter((value) => !isNothing(value));
  if (known.length === 0) return null;
  if (known.every((value) => typeof value === "string")) return known.length > 8 ? el("ul", {}, known.slice(0, 200).map((text) => el("li", {}, plain(text)))) : known.map((text) => note(text, "sentence"));
  if (known.every((value) => typeof value !== "object")) return factList([[wordsOf(key), known.slice(0, 200).map((value) => figureText(key, value)).join(", ")]]);
  const rows = known.filter((value) => typeof value === "object" && !Array.isArray(value)).map((row) => flat(row));
  if (rows.length === 0) return null;
  const keys = [...new Set(rows.slice(0, 200).flatMap((row) => Object.keys(row)))].slice(0, MOST_CELLS);
  const columns = keys.map((name) => ({ key: name, title: wordsOf(name), left: rows.some((row) => typeof row[name] === "string"), value: (row) => row[name], text: (row) => figureText(name, row[name]) }));
  const deep = known.length <= 12 ? known.map((value) => Object.entries(value).filter(([, part]) => Array.isArray(part) && part.some((one) => one !== null && typeof one === "object")).map(([name, part]) => list(name, part, depth + 1))) : [];
  return [table(capital(wordsOf(key)), columns, rows, { showCaption: true }), deep];
}

// An object's scalars, and those of the objects in it, as one row.
function flat(row, prefix = "", into = {}) {
  for (const [name, value] of Object.entries(row)) {
    if (value !== null && typeof value === "object") {
      if (!Array.isArray(value) && prefix.length < 60) flat(value, `${prefix}${name} `, into);
      else if (Array.isArray(value) && value.length <= 8 && value.every((part) => typeof part !== "object")) into[prefix + name] = name === "shape" ? shapeText(value) : value.join(", ");
    } else into[prefix + name] = value;
  }
  return into;
}

function chartOf(key, value) {
  const isPoints = (points) => Array.isArray(points) && points.length > 1 && points.every((point) => Array.isArray(point) && point.length >= 2);
  const series = isPoints(value.points) ? [{ name: key, points: value.points, kind: value.kind }]
    : Array.isArray(value.series) && value.series.length > 0 && value.series.every((one) => one && isPoints(one.points)) ? value.series.map((one) => ({ name: one.name || key, points: one.points, kind: one.kind || value.kind })) : null;
  if (!series) return null;
  const axisOf = (part, fallback) => {
    const name = part && typeof part === "object" ? part.label || fallback : typeof part === "string" ? part : fallback;
    const unit = part && typeof part === "object" ? part.unit || "" : "";
    return { label: plain(unit && unit !== "ns" ? `${name} (${unit})` : name), text: (n) => (unit === "ns" || /_ns$/.test(name) ? timeText(n) : quantityText(n, "")) };
  };
  return plot({ label: value.title || capital(wordsOf(key)), series, x: axisOf(value.x, "x"), y: axisOf(value.y, "y"), zero: value.zero !== false });
}

// In the order in which they are shown; what is not among them comes last.
const TITLES = { steps: "Tokens over time", growth: "What grows with the context", work: "Time against work", counters: "Counters", backends: "Backends", experts: "Experts", lanes: "Lanes", layers: "Layers", models: "Models and sequences" };

function statisticsSection(statistics) {
  if (isNothing(statistics) || typeof statistics !== "object") return null;
  const parts = Object.entries(statistics).filter(([name, part]) => !["format", "version", "completeness", "trace"].includes(name) && !isNothing(part) && typeof part === "object");
  const place = ([name]) => (Object.keys(TITLES).indexOf(name) + 1 || Infinity);
  parts.sort((a, b) => place(a) - place(b) || 0);
  const groups = parts.map(([name, part]) => {
    const title = TITLES[name] || capital(wordsOf(name));
    const why = typeof part.absent === "string" ? part.absent : null;
    if (why) return el("details", { "data-part": name }, el("summary", {}, title), note(why));
    const charts = [PICTURES[name] ? PICTURES[name](part) : null].flat(2).filter(Boolean);
    const tables = anything(name, { ...part, title: " " }, 0);
    return charts.length || tables ? el("details", { "data-part": name, open: charts.length > 0 }, el("summary", {}, title), charts.length ? el("div", { class: "plots" }, charts) : null, charts.length ? el("details", {}, el("summary", {}, "All of it as tables"), tables) : tables) : null;
  });
  return section("statistics", "Statistics", groups);
}
