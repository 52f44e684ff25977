// The timeline: zoom, pan, search and selection, by mouse, touch and keyboard.

const AXIS = 22;
const LEAST_NS = 200;
// Rows that tell what is in view.
const IN_VIEW = 12;

function timeline(facts, { tracks, sources }, steps) {
  const { rows, height: rowsHeight } = rowsOf(tracks);
  if (rows.length === 0) return { section: note("No spans were recorded."), goTo: () => false };
  const names = new Names(facts, steps);
  names.colourBy(rows);
  const around = neighbours(rows, sources);
  const left = () => (chart.canvas.clientWidth < 560 ? 0 : 132);
  const whole = rows.reduce((all, row) => row.end.reduce((most, end) => Math.max(most, end), all), 1);
  const stepRows = rows.filter((row) => row.kind === "steps");
  const view = { from: 0, to: whole, width: 1 };
  let selected = null, near = { reads: [], usedBy: [] }, hovered = null, found = [], current = -1, pendingTable = 0;

  const chart = drawing({ class: "timeline", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-describedby": "timeline-keys" }, AXIS + rowsHeight + 6, draw);
  const overview = drawing({ class: "overview", "aria-hidden": "true" }, 22, drawOverview);
  const status = el("p", { class: "status", role: "status" });
  const details = el("div", { class: "details", id: "timeline-details" });
  const inView = el("div", { id: "timeline-in-view" });
  const matchCount = el("span", { class: "muted", role: "status" });
  const search = el("input", { type: "search", id: "timeline-search", placeholder: "Search operators, steps, regions", "aria-label": "Search the timeline",
    oninput: () => find(search.value), onkeydown: (event) => {
      if (event.key === "Enter") { go(event.shiftKey ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") { search.value = ""; find(""); chart.canvas.focus(); }
    } });

  function draw(context, width, height, colour) {
    view.width = Math.max(1, width - left());
    const known = new Map();
    const palette = (name) => { if (!known.has(name)) known.set(name, colour(name)); return known.get(name); };
    const scale = view.width / (view.to - view.from);
    context.save();
    context.translate(left(), 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const tick of ticks(view.from, view.to, Math.max(2, view.width / 130))) {
      const x = Math.round((tick - view.from) * scale) + 0.5;
      context.strokeStyle = palette("--line");
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = palette("--muted");
      context.fillText(tickText(tick, view.to - view.from), x + 4, 9);
    }
    context.beginPath();
    context.rect(0, 0, view.width, height);
    context.clip();
    context.translate(0, AXIS);
    drawLosses(context, facts.losses, view, rowsHeight, palette);
    gaps(context, palette, scale);
    for (const row of rows) drawRow(context, row, names, view, palette, selected && selected.row === row ? selected.n : -1);
    near.reads.slice(0, MOST_ARROWS).forEach((source) => drawArrow(context, source, selected, view, palette("--muted")));
    near.usedBy.slice(0, MOST_ARROWS).forEach((user) => drawArrow(context, selected, user, view, palette("--match")));
    context.restore();
    labels(context, palette, left() > 0);
    chart.canvas.dataset.from = view.from;
    chart.canvas.dataset.to = view.to;
  }

  // Stretches whose steps are not in the page.
  function gaps(context, palette, scale) {
    if (facts.steps_left_out === 0) return;
    for (const row of stepRows) {
      for (let n = 0; n + 1 < row.start.length; n++) {
        const [a, b] = [row.steps[row.what[n]], row.steps[row.what[n + 1]]];
        if (b - a < 2 || row.end[n] > view.to || row.start[n + 1] < view.from) continue;
        const x0 = Math.max(-1, (row.end[n] - view.from) * scale), x1 = Math.min(view.width + 1, (row.start[n + 1] - view.from) * scale);
        context.fillStyle = palette("--empty");
        context.fillRect(x0, 0, x1 - x0, rowsHeight);
        if (x1 - x0 < 150) continue;
        context.fillStyle = palette("--muted");
        context.fillText(`steps ${a + 1} to ${b - 1}: not in this page`, x0 + 8, row.y + row.height / 2);
      }
    }
  }

  // Beside the rows; on a narrow screen above each row's left end.
  function labels(context, palette, isBeside) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const row of rows.filter((row) => row.isFirst && row.level === 0)) {
      context.fillStyle = palette("--muted");
      const label = plain(row.label);
      const shown = label.length > 20 ? `${label.slice(0, 19)}…` : label;
      if (isBeside) { context.fillText(shown, 0, AXIS + row.y + row.height / 2); continue; }
      if (row.kind !== "operators") continue;
      const width = context.measureText(shown).width + 8;
      context.fillStyle = palette("--panel");
      context.globalAlpha = 0.85;
      context.fillRect(0, AXIS + row.y, width, 15);
      context.globalAlpha = 1;
      context.fillStyle = palette("--ink");
      context.fillText(shown, 4, AXIS + row.y + 8);
    }
  }

  function drawOverview(context, width, height, colour) {
    const scale = width / whole;
    context.fillStyle = colour("--empty");
    context.fillRect(0, 4, width, height - 8);
    const all = stepRows.length ? stepRows : rows.slice(0, 1);
    for (const row of all) drawRow(context, { ...row, y: 6, height: height - 12, matches: null }, names, { from: 0, to: whole, width }, colour, -1);
    const x0 = view.from * scale, x1 = Math.max(x0 + 3, view.to * scale);
    context.fillStyle = colour("--veil");
    context.fillRect(0, 0, x0, height);
    context.fillRect(x1, 0, width - x1, height);
    context.strokeStyle = colour("--accent");
    context.lineWidth = 2;
    context.strokeRect(x0 + 1, 1, Math.max(2, x1 - x0 - 2), height - 2);
  }

  // Ticks as times since the trace's first span, as precise as they are apart.
  function tickText(ns, span) {
    const [unit, scale] = TIME_UNITS.slice().reverse().find(([, scale]) => span >= scale * 2) || TIME_UNITS[0];
    const n = ns / scale;
    const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(span / scale / 8))));
    const [integer, fraction] = n.toFixed(digits).split(".");
    return `${integer.replace(/\B(?=(\d{3})+$)/g, ",")}${fraction ? `.${fraction}` : ""} ${unit}`;
  }

  function show(from, to) {
    const span = Math.max(LEAST_NS, Math.min(whole * 1.02, to - from));
    const middle = (from + to) / 2;
    view.from = Math.max(-whole * 0.01, Math.min(middle - span / 2, whole * 1.01 - span));
    view.to = view.from + span;
    chart.redraw();
    overview.redraw();
    clearTimeout(pendingTable);
    pendingTable = setTimeout(tellView, 180);
  }
  function zoom(factor, time = (view.from + view.to) / 2) {
    show(time - (time - view.from) * factor, time + (view.to - time) * factor);
  }
  function pan(share) {
    const by = (view.to - view.from) * share;
    show(view.from + by, view.to + by);
  }

  // What is in view, as a table: the picture's text.
  function tellView() {
    const sums = new Map();
    for (const row of rows.filter((row) => row.kind === "operators")) {
      for (let n = firstVisible(row, view.from); n < row.start.length && row.start[n] < view.to; n++) {
        const kind = names.kinds[row.what[n]];
        const key = `${kind.op}\n${kind.name}`;
        const works = Math.max(0, Math.min(view.to, row.end[n] - row.waiting[n]) - Math.max(view.from, row.start[n]));
        const sum = sums.get(key) || { name: kind.name, op: kind.op, count: 0, work_ns: 0, waiting_ns: 0 };
        sum.count++;
        sum.work_ns += works;
        sum.waiting_ns += row.waiting[n];
        sums.set(key, sum);
      }
    }
    const all = [...sums.values()].sort((a, b) => b.work_ns - a.work_ns);
    const total = all.reduce((sum, row) => sum + row.work_ns, 0) || 1;
    const seen = stepRows.flatMap((row) => {
      const list = [];
      for (let n = firstVisible(row, view.from); n < row.start.length && row.start[n] < view.to && list.length < 1e5; n++) list.push(row.steps[row.what[n]]);
      return list;
    });
    const shownSteps = seen.length === 0 ? "no step" : seen.length === 1 ? `step ${seen[0]}` : `steps ${seen[0]} to ${seen[seen.length - 1]}`;
    status.textContent = `${timeText(view.to - view.from)} in view, from ${timeText(Math.max(0, view.from))} on: ${shownSteps}`;
    chart.canvas.setAttribute("aria-label", `Timeline. ${status.textContent}. ${all.slice(0, 3).map((row) => `${row.name} ${shareText(row.work_ns / total)}`).join(", ")}`);
    const wasOpen = inView.querySelector("details");
    const open = wasOpen ? wasOpen.open : false;
    inView.replaceChildren(el("details", { open }, el("summary", {}, "Operators in view"), table("Operators in view, spans of lanes", [
      { title: "share", value: (row) => row.work_ns / total, text: (row) => shareText(row.work_ns / total), bar: (row) => row.work_ns / total },
      column.time("work_ns", "work"), column.time("waiting_ns", "waiting"), column.count("count", "spans"), column.text("op", "op"), column.text("name", "name"),
    ], all, { limit: IN_VIEW }) || note("None.")));
  }

  function select(row, n, reveal = false) {
    selected = row ? { row, n } : null;
    near = selected ? around(selected) : { reads: [], usedBy: [] };
    chart.redraw();
    if (!row) return details.replaceChildren(el("p", { class: "muted" }, "Click a span, or press ↑ and ↓, to see what it is."));
    const lasts = row.end[n] - row.start[n], waits = row.waiting ? row.waiting[n] : 0;
    const rowFacts = [["on", row.label], ["from", `${timeText(row.start[n])} after the timeline's start`]];
    if (row.kind === "operators") {
      const kind = names.kinds[row.what[n]];
      rowFacts.unshift(["type", kind.op], ["shape", kind.shape], ["element type", kind.dtype], ["layer", kind.layer], ["with", kind.covers]);
      rowFacts.push(["work", timeText(lasts - waits)], ["waiting", waits ? timeText(waits) : ""]);
      const most = kind.isBound ? "at most " : "";
      rowFacts.push(["all lanes compute", kind.flops === null ? "" : most + quantityText(kind.flops, "FLOP")], ["all lanes move", kind.bytes === null ? "" : most + quantityText(kind.bytes, "B")]);
      facts.counters.forEach((counter, column) => {
        const count = row.counts[column][n];
        if (count > 0) rowFacts.push([`${plain(counter)} on this lane`, countText(count - 1)]);
      });
      rowFacts.push(["reads from", links(near.reads)], ["used by", links(near.usedBy)]);
    } else if (row.kind === "queue") {
      rowFacts.push(["work pending for", timeText(lasts)], ["submissions", countText(row.what[n])]);
      rowFacts.push(["the device's time", row.extra[n] > 0 ? `${timeText(row.extra[n] - 1)}, measured; when within this time is unknown` : `at most ${timeText(lasts)}: a bound, not measured`]);
    } else if (row.kind === "encoding") {
      const kind = names.kinds[row.what[n]];
      rowFacts.unshift(["type", kind.op], ["shape", kind.shape], ["element type", kind.dtype], ["layer", kind.layer], ["with", kind.covers]);
      rowFacts.push(["encoding, the host's time", timeText(lasts)], ["the device's time", row.extra[n] > 0 ? `${timeText(row.extra[n] - 1)}, measured` : "not measured"]);
    } else rowFacts.push(["duration", timeText(lasts)]);
    if (row.kind === "calls" && (row.what[n] & 3) === 2) rowFacts.push(["bytes", row.extra[n] > 0 ? quantityText(row.extra[n] - 1, "B") : "not recorded"]);
    if (row.kind === "states" && row.what[n] >> 2) rowFacts.push(["CPU", String((row.what[n] >> 2) - 1)]);
    if (row.kind === "steps") {
      const { at } = names.step(row, n);
      if (at >= 0) rowFacts.push(["tokens", countText(steps.tokens(at))], ["recorded", steps.recorded(at)], ["records lost", steps.isComplete(at) ? "" : [lostText(facts.losses, names.step(row, n).number), "excluded from the statistics"].filter(Boolean).join(": ")]);
    }
    details.replaceChildren(el("h3", {}, names.name(row, n)), factList(rowFacts));
    announce(`${names.name(row, n)}, ${timeText(lasts)}${waits ? `, of which ${timeText(waits)} waiting` : ""}, ${plain(row.label)}`);
    if (reveal) {
      const span = view.to - view.from;
      const wanted = lasts < span / 60 ? Math.max(lasts * 24, LEAST_NS) : lasts > span ? lasts * 1.5 : span;
      if (wanted !== span || row.start[n] < view.from || row.end[n] > view.to) {
        const middle = (row.start[n] + row.end[n]) / 2;
        show(middle - wanted / 2, middle + wanted / 2);
      }
    }
  }

  // Names that lead to their spans; the arrows as words.
  function links(spans) {
    if (spans.length === 0) return null;
    const named = spans.slice(0, MOST_NAMED).map(({ row, n }) => el("button", { type: "button", class: "link", onclick: () => select(row, n, true) }, names.name(row, n)));
    const more = spans.length > MOST_NAMED ? ` and ${spans.length - MOST_NAMED} more` : null;
    return el("span", {}, named.map((link, at) => [at > 0 ? ", " : null, link]), more);
  }
  const follow = (spans) => { if (spans.length > 0) select(spans[0].row, spans[0].n, true); };

  // Marks all spans whose words contain the wanted ones, and counts them.
  function find(text) {
    const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    current = -1;
    for (const row of rows) {
      if (words.length === 0) { row.matches = null; continue; }
      const known = new Map();
      row.matches = new Uint32Array(row.start.length + 1);
      for (let n = 0; n < row.start.length; n++) {
        const key = row.what[n];
        if (!known.has(key)) { const rendered = names.words(row, n); known.set(key, words.every((word) => rendered.includes(word))); }
        row.matches[n + 1] = row.matches[n] + known.get(key);
        if (known.get(key)) found.push({ row, n });
      }
    }
    found.sort((a, b) => a.row.start[a.n] - b.row.start[b.n]);
    matchCount.textContent = words.length === 0 ? "" : found.length === 0 ? "nothing found" : `${countText(found.length)} found`;
    matchCount.dataset.count = found.length;
    chart.redraw();
  }
  function go(by) {
    if (found.length === 0) return;
    if (current < 0 && by > 0) current = lowerBound(found.map(({ row, n }) => row.start[n]), view.from, 0, found.length) - 1;
    current = (current + by + found.length) % found.length;
    matchCount.textContent = `${countText(current + 1)} of ${countText(found.length)}`;
    select(found[current].row, found[current].n, true);
  }

  function goTo(number) {
    for (const row of stepRows) {
      const n = row.steps.indexOf(number);
      if (n < 0) continue;
      const at = Array.prototype.indexOf.call(row.what, n);
      const margin = (row.end[at] - row.start[at]) * 0.04;
      show(row.start[at] - margin, row.end[at] + margin);
      select(row, at);
      return true;
    }
    status.textContent = `Step ${number} is not in this page's timeline: profinfer html --steps ${number}`;
    announce(status.textContent);
    return false;
  }
  function neighbourStep(by) {
    const row = stepRows[0];
    if (!row) return;
    const middle = (view.from + view.to) / 2;
    const n = Math.max(0, Math.min(row.start.length - 1, lowerBound(row.start, middle, 0, row.start.length) - 1 + by));
    goTo(row.steps[row.what[n]]);
  }
  function walk(by) {
    if (!selected) return walkRow(1);
    const n = selected.n + by;
    if (n >= 0 && n < selected.row.start.length) select(selected.row, n, true);
  }
  function walkRow(by) {
    const time = selected ? (selected.row.start[selected.n] + selected.row.end[selected.n]) / 2 : (view.from + view.to) / 2;
    for (let index = selected ? rows.indexOf(selected.row) + by : 0; index >= 0 && index < rows.length; index += by) {
      const n = spanAt(rows[index], time, (view.to - view.from) / 2);
      if (n >= 0) return select(rows[index], n);
    }
  }

  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), w: () => zoom(0.5), "-": () => zoom(2), s: () => zoom(2),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), a: () => pan(-0.2), d: () => pan(0.2),
    ArrowUp: () => walkRow(-1), ArrowDown: () => walkRow(1), ",": () => walk(-1), ".": () => walk(1),
    "[": () => neighbourStep(-1), "]": () => neighbourStep(1), Home: () => show(0, whole), 0: () => show(0, whole),
    Enter: () => selected && show(selected.row.start[selected.n] - 1, selected.row.end[selected.n] + 1),
    n: () => go(1), p: () => go(-1), ">": () => follow(near.usedBy), "<": () => follow(near.reads), "/": () => search.focus(), Escape: () => select(null),
  };
  chart.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  const timeAt = (x) => view.from + ((x - left()) / view.width) * (view.to - view.from);
  const under = (event) => {
    const [x, y] = within(event, chart.canvas);
    const row = rows.find((row) => y - AXIS >= row.y - 1 && y - AXIS < row.y + row.height + 1);
    const near = ((view.to - view.from) / view.width) * 2;
    const n = row && x >= left() ? spanAt(row, timeAt(x), near) : -1;
    return n < 0 ? null : { row, n };
  };
  // The page scrolls by the wheel until the timeline is clicked; with Ctrl it zooms at once.
  chart.canvas.addEventListener("wheel", (event) => {
    const isOurs = event.ctrlKey || event.metaKey || document.activeElement === chart.canvas;
    if (!isOurs) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) return pan((sideways * unit) / view.width);
    zoom(Math.exp(Math.max(-400, Math.min(400, event.deltaY * unit)) * 0.0022), timeAt(within(event, chart.canvas)[0]));
  }, { passive: false });

  const pointers = new Map();
  let pressed = null;
  chart.canvas.addEventListener("pointerdown", (event) => {
    chart.canvas.focus({ preventScroll: true });
    chart.canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    pressed = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, hasMoved: false };
    hideTip();
  });
  chart.canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      hovered = under(event);
      if (!hovered) return hideTip();
      const { row, n } = hovered, waits = row.waiting ? row.waiting[n] : 0;
      const kind = row.kind === "operators" || row.kind === "encoding" ? names.kinds[row.what[n]] : null;
      return showTip(event, [names.name(row, n), timeText(row.end[n] - row.start[n] - waits) + (waits ? `, then ${timeText(waits)} waiting` : ""), kind ? `${kind.op} ${kind.shape} ${kind.dtype}` : plain(row.label)]);
    }
    const before = pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    const perPixel = (view.to - view.from) / view.width;
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const now = Math.abs(a - b), then = Math.abs(before - other);
      if (now > 8 && then > 8) zoom(then / now, timeAt((a + b) / 2 - chart.canvas.getBoundingClientRect().left));
      pressed.hasMoved = true;
    } else if (pressed) {
      const by = event.clientX - pressed.x;
      if (Math.abs(by) > 3) pressed.hasMoved = true;
      if (pressed.hasMoved) show(pressed.from - by * perPixel, pressed.to - by * perPixel);
    }
  });
  const release = (event) => {
    const isClick = pressed && !pressed.hasMoved && event.type === "pointerup";
    pointers.delete(event.pointerId);
    if (pointers.size > 0) return;
    pressed = null;
    if (isClick) { const at = under(event); select(at && at.row, at && at.n); }
  };
  chart.canvas.addEventListener("pointerup", release);
  chart.canvas.addEventListener("pointercancel", release);
  chart.canvas.addEventListener("pointerleave", hideTip);
  chart.canvas.addEventListener("dblclick", (event) => { const at = under(event); if (at) show(at.row.start[at.n] - 1, at.row.end[at.n] + 1); });
  const drag = (event) => {
    if (event.type === "pointermove" && event.buttons === 0) return;
    const middle = (within(event, overview.canvas)[0] / overview.canvas.clientWidth) * whole;
    const half = (view.to - view.from) / 2;
    show(middle - half, middle + half);
  };
  overview.canvas.addEventListener("pointerdown", (event) => { overview.canvas.setPointerCapture(event.pointerId); drag(event); });
  overview.canvas.addEventListener("pointermove", drag);

  const button = (text, title, action) => el("button", { type: "button", title, "aria-label": title, onclick: action }, text);
  const tools = el("div", { class: "tools" }, search, button("↑", "Previous match", () => go(-1)), button("↓", "Next match", () => go(1)), matchCount, el("span", { class: "grow" }),
    button("‹", "Step before", () => neighbourStep(-1)), button("›", "Step after", () => neighbourStep(1)), button("−", "Zoom out", () => zoom(2)), button("+", "Zoom in", () => zoom(0.5)), button("Whole", "Show the whole timeline", () => show(0, whole)));
  const types = names.ranked.slice(0, SERIES.length - 1).map((op) => ({ name: op, colour: SERIES[names.ranks.get(op)] }));
  if (names.ranked.length >= SERIES.length) types.push({ name: "other types", colour: SERIES[SERIES.length - 1] });
  if (rows.some((row) => row.waiting && row.waiting.some((waits) => waits > 0))) types.push({ name: "waiting", colour: "--waiting" });
  const states = new Set(rows.filter((row) => row.kind === "states").flatMap((row) => Array.from(new Set(row.what), (what) => STATES[what & 3])));
  STATES.filter((name) => states.has(name)).forEach((name) => types.push({ name: `thread ${name}`, colour: `--${name}` }));
  const calls = new Set(rows.filter((row) => row.kind === "calls").flatMap((row) => Array.from(new Set(row.what), (what) => what & 3)));
  CALLS.forEach((call, number) => calls.has(number) && types.push(call));
  const queues = rows.filter((row) => row.kind === "queue");
  if (queues.some((row) => row.extra.some((ns) => ns > 0))) types.push({ name: "work pending, the device's time measured", colour: "--c5" });
  if (queues.some((row) => row.extra.some((ns) => ns === 0))) types.push({ name: "work pending, the device's time not measured: at most that", colour: "--c9" });
  if (facts.losses.length > 0) types.push({ name: "records lost in this step, from here on", colour: "--bad" });
  const help = el("details", { class: "keys" }, el("summary", {}, "Mouse and keys"), el("p", { id: "timeline-keys" },
    "Wheel: zoom, once the timeline is clicked; with Ctrl at once; with Shift it moves. Drag: move. Double click: fill the view. ",
    "Keys: + and − zoom, ← and → move, ↑ and ↓ go from track to track, comma and full stop from span to span, [ and ] from step to step, Enter fills the view, Home shows all, / searches, n and p go from match to match, > goes to what uses the operator's result, < to what it reads, Esc clears. ",
    "Arrows: coloured to those that use the selected operator's result, grey from those that it reads."));
  select(null);
  const section = [facts.sentence ? note(facts.sentence, "note warn") : null, tools, overview.canvas, chart.canvas, status, legend(types), details, inView, help];
  start();
  return { section, goTo };

  // A recurring step of a warm engine and its neighbour show most at first sight.
  function start() {
    const row = stepRows.find((row) => row.start.length > 0);
    const recurring = row ? Array.from(row.what, (what, n) => n).filter((n) => ["decode", "run"].includes(names.step(row, n).phase)) : [];
    if (recurring.length === 0) return show(0, whole);
    const lasts = (n) => row.end[n] - row.start[n];
    const middle = recurring.map(lasts).sort((a, b) => a - b)[recurring.length >> 1];
    const isTypical = (n) => n < row.start.length && lasts(n) > 0 && Math.abs(lasts(n) - middle) <= 0.15 * middle;
    const warm = recurring.slice(Math.min(9, recurring.length >> 1));
    const n = warm.find((n) => isTypical(n) && isTypical(n + 1) && row.start[n + 1] - row.end[n] < middle) || warm[0];
    const margin = middle * 0.02;
    show(row.start[n] - margin, row.end[isTypical(n + 1) && row.start[n + 1] - row.end[n] < middle ? n + 1 : n] + margin);
  }
}
