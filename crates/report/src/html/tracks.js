// The timeline's rows, and how they are drawn: spans that are wide enough one by one, the others as what most of a
// pixel is. What a row costs depends on its pixels, not on its spans.

const STATES = ["running", "runnable", "sleeping", "blocked"];
const CALLS = [{ name: "submitting", colour: "--c2" }, { name: "waiting for the device", colour: "--waiting" }, { name: "copying", colour: "--c7" }];
const HEIGHTS = { steps: 22, graphs: 14, encoding: 14, calls: 13, queue: 20, operators: 28, regions: 13, states: 7, frequency: 18 };
// Spans that are looked at for one pixel.
const SAMPLES = 24;
// Spans within spans that have rows of their own; deeper ones share the last.
const MOST_DEPTH = 4;

// One row a track and depth: spans of a row do not lie within each other.
function rowsOf(tracks) {
  const rows = [];
  for (const track of tracks) {
    const count = track.start.length;
    const depth = new Uint8Array(count);
    const open = [];
    let depths = 1;
    for (let n = 0; n < count; n++) {
      while (open.length && open[open.length - 1] <= track.start[n]) open.pop();
      depth[n] = Math.min(open.length, MOST_DEPTH - 1);
      depths = Math.max(depths, depth[n] + 1);
      open.push(track.end[n]);
    }
    for (let level = 0; level < depths; level++) {
      if (depths === 1) { rows.push({ ...track, level }); continue; }
      const chosen = [];
      for (let n = 0; n < count; n++) if (depth[n] === level) chosen.push(n);
      const pick = (values) => values && values.constructor.from(chosen, (n) => values[n]);
      const counts = track.counts.map(pick);
      rows.push({ ...track, level, start: pick(track.start), end: pick(track.end), what: pick(track.what), waiting: pick(track.waiting), number: pick(track.number), extra: pick(track.extra), counts });
    }
  }
  let y = 0, before = null;
  for (const row of rows) {
    const belongs = before && row.lane !== null && row.lane === before.lane;
    y += before === null ? 0 : belongs ? 2 : 8;
    row.y = y;
    row.height = row.level > 0 ? Math.min(14, HEIGHTS[row.kind]) : HEIGHTS[row.kind];
    row.isFirst = !belongs;
    row.matches = null;
    y += row.height;
    before = row;
  }
  return { rows, height: y };
}

// What spans are called and coloured.
class Names {
  constructor(facts, steps) {
    this.facts = facts;
    this.steps = steps;
    this.kinds = facts.kinds.map(([name, op, shape, dtype, layer, covers, flops, bytes, isBound]) => {
      const text = (id) => (id < 0 ? "" : plain(facts.texts[id]));
      return { name: text(name), op: text(op), shape, dtype: text(dtype), layer: text(layer), covers: text(covers), flops, bytes, isBound };
    });
    this.colours = [];
  }

  // Each operator type has its colour; those that take most time have colours that differ most.
  colourBy(rows) {
    const time = new Map();
    for (const row of rows.filter((row) => row.kind === "operators" || row.kind === "encoding")) {
      for (let n = 0; n < row.start.length; n++) {
        const op = this.kinds[row.what[n]].op;
        time.set(op, (time.get(op) || 0) + row.end[n] - row.start[n] - (row.waiting ? row.waiting[n] : 0));
      }
    }
    const ranked = [...time].sort((a, b) => b[1] - a[1]).map(([op]) => op);
    this.ranks = new Map(ranked.map((op, rank) => [op, Math.min(rank, SERIES.length - 1)]));
    this.ranked = ranked;
    this.colours = this.kinds.map((kind) => SERIES[this.ranks.has(kind.op) ? this.ranks.get(kind.op) : SERIES.length - 1]);
  }

  step(row, n) {
    const number = row.steps[row.what[n]];
    const at = this.steps.find(number);
    return { number, phase: at < 0 ? "step" : this.steps.phase(at), at };
  }

  name(row, n) {
    switch (row.kind) {
      case "steps": { const { phase, number } = this.step(row, n); return `${phase} ${number}`; }
      case "graphs": return "graph";
      case "operators": case "encoding": return this.kinds[row.what[n]].name || this.kinds[row.what[n]].op;
      case "calls": return plain(this.facts.texts[row.what[n] >>> 2]);
      case "queue": return row.extra[n] > 0 ? `device: ${timeText(row.extra[n] - 1)} measured` : `device: at most ${timeText(row.end[n] - row.start[n])}, not measured`;
      case "states": return STATES[row.what[n] & 3];
      case "frequency": return `${countText(Math.round(row.what[n] / 1000))} MHz`;
      default: return plain(this.facts.texts[row.what[n]]);
    }
  }

  colour(row, n) {
    switch (row.kind) {
      case "steps": return phaseColour(this.step(row, n).phase);
      case "graphs": return "--graph";
      case "operators": case "encoding": return this.colours[row.what[n]];
      case "calls": return CALLS[row.what[n] & 3].colour;
      case "queue": return row.extra[n] > 0 ? "--c5" : "--c9";
      case "frequency": return "--c7";
      case "states": return ["--running", "--runnable", "--sleeping", "--blocked"][row.what[n] & 3];
      default: return "--region";
    }
  }

  // What a search looks at.
  words(row, n) {
    if (row.kind === "queue") return "work pending device";
    if (row.kind !== "operators" && row.kind !== "encoding") return this.name(row, n).toLowerCase();
    const kind = this.kinds[row.what[n]];
    return `${kind.name} ${kind.op} ${kind.dtype} ${kind.shape} ${kind.covers}`.toLowerCase();
  }
}

// Where a step begins of which records were lost: a line over all rows, with a flag.
function drawLosses(context, losses, { from, to, width }, height, palette) {
  const scale = width / (to - from);
  context.strokeStyle = context.fillStyle = palette("--bad");
  context.lineWidth = 1;
  for (const [, start] of losses) {
    const x = Math.round((start - from) * scale) + 0.5;
    if (x < 0 || x > width) continue;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    [[x, -8], [x + 9, -4], [x, 0]].forEach((corner) => context.lineTo(...corner));
    context.fill();
  }
}

// `3 of lane 1, 2 of thread 77`; empty where a step misses nothing.
function lostText(losses, number) {
  const of = losses.find(([step]) => step === number);
  return of ? of[2].map(([records, whose]) => `${countText(records)} of ${plain(whose)}`).join(", ") : "";
}

function drawRow(context, row, names, view, palette, selected) {
  const { start, end, waiting } = row;
  const { from, to, width } = view;
  const scale = width / (to - from), count = start.length;
  const { y, height, matches } = row;
  if (row.kind === "frequency") return drawLevels(context, row, names, view, palette, selected);
  let n = firstVisible(row, from);
  while (n < count && start[n] < to) {
    const x0 = Math.max(0, (start[n] - from) * scale), x1 = Math.min(width, (end[n] - from) * scale);
    if (x1 - x0 >= 1.5) {
      drawSpan(context, row, names, n, x0, x1, scale, palette);
      n++;
      continue;
    }
    // All that begins in this pixel.
    const pixel = Math.floor(x0), limit = from + (pixel + 1) / scale;
    let next = lowerBound(start, limit, n + 1, Math.min(count, gallop(start, n, limit)));
    if (next - 1 > n && (end[next - 1] - limit) * scale > 1) next--;
    const stride = Math.max(1, Math.ceil((next - n) / SAMPLES));
    let busy = 0, longest = -1, best = n;
    for (let i = n; i < next; i += stride) {
      const lasts = Math.min(end[i], limit) - start[i];
      busy += lasts * stride;
      if (lasts > longest) [longest, best] = [lasts, i];
    }
    const isMatch = !matches || matches[next] > matches[n];
    context.globalAlpha = (isMatch ? 1 : 0.15) * Math.max(0.25, Math.min(1, busy * scale));
    context.fillStyle = palette(matches && isMatch ? "--match" : names.colour(row, best));
    context.fillRect(pixel, y, 1, height);
    n = next;
  }
  context.globalAlpha = 1;
  if (selected >= 0) {
    const x0 = (start[selected] - from) * scale, x1 = (end[selected] - from) * scale;
    context.strokeStyle = palette("--ink");
    context.lineWidth = 2;
    context.strokeRect(x0, y, Math.max(3, x1 - x0), height);
  }
}

// As high as the processor was fast, by the fastest of the row.
function drawLevels(context, row, names, { from, to, width }, palette, selected) {
  const scale = width / (to - from);
  row.most ??= row.what.reduce((most, khz) => Math.max(most, khz), 1);
  for (let n = firstVisible(row, from); n < row.start.length && row.start[n] < to; n++) {
    const x0 = Math.max(0, (row.start[n] - from) * scale), x1 = Math.min(width, (row.end[n] - from) * scale);
    const high = Math.max(1, (row.what[n] / row.most) * row.height);
    context.globalAlpha = !row.matches || row.matches[n + 1] > row.matches[n] ? 0.75 : 0.15;
    context.fillStyle = palette(names.colour(row, n));
    context.fillRect(x0, row.y + row.height - high, Math.max(1, x1 - x0), high);
    context.globalAlpha = 1;
    if (x1 - x0 > 70) {
      context.fillStyle = palette("--ink");
      context.fillText(names.name(row, n), x0 + 4, row.y + row.height / 2 + 0.5);
    }
    if (n === selected) {
      context.strokeStyle = palette("--ink");
      context.lineWidth = 2;
      context.strokeRect(x0, row.y, Math.max(3, x1 - x0), row.height);
    }
  }
}

// Dark or light text, whichever is read better on a colour (`#rrggbb`).
const inks = new Map();
function inkOn(colour) {
  if (!inks.has(colour)) {
    const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
    inks.set(colour, 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? "#16191d" : "#ffffff");
  }
  return inks.get(colour);
}

function drawSpan(context, row, names, n, x0, x1, scale, palette) {
  const { y, height, waiting, matches } = row;
  const isMatch = !matches || matches[n + 1] > matches[n];
  const wide = x1 - x0 > 3 ? x1 - x0 - 0.5 : x1 - x0;
  const waits = waiting ? Math.min(wide, waiting[n] * scale) : 0;
  const works = wide - waits;
  context.globalAlpha = isMatch ? 1 : 0.15;
  context.fillStyle = palette(names.colour(row, n));
  context.fillRect(x0, y, works, height);
  if (waits > 0) {
    context.fillStyle = palette("--waiting");
    context.fillRect(x0 + works, y + height * 0.3, waits, height * 0.4);
  }
  if (matches && isMatch) {
    context.fillStyle = palette("--match");
    context.fillRect(x0, y + height - 3, wide, 3);
  }
  if (works > 34 && height >= 12) {
    context.fillStyle = inkOn(palette(names.colour(row, n)));
    const room = Math.floor((works - 8) / 6.1);
    const name = names.name(row, n);
    context.fillText(name.length <= room ? name : `${name.slice(0, Math.max(1, room - 1))}…`, x0 + 4, y + height / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

// The first span that ends after a time.
function firstVisible(row, time) {
  let n = lowerBound(row.start, time, 0, row.start.length);
  // Spans of a row hardly overlap: only those right before can reach in.
  for (let back = 0; n > 0 && back < 4 && row.end[n - 1] > time; back++) n--;
  return n;
}

// An index beyond which values reach a limit.
function gallop(values, from, limit) {
  let step = 1;
  while (from + step < values.length && values[from + step] < limit) step *= 2;
  return from + step + 1;
}

// The span of a row at a time; of those that are narrower than `near`, the nearest. -1: none.
function spanAt(row, time, near) {
  const first = firstVisible(row, time - near);
  let best = -1, least = Infinity;
  for (let n = first; n < row.start.length && row.start[n] <= time + near && n < first + 200; n++) {
    const distance = time < row.start[n] ? row.start[n] - time : time > row.end[n] ? time - row.end[n] : 0;
    if (distance < least && distance <= near) [best, least] = [n, distance];
  }
  return best;
}
