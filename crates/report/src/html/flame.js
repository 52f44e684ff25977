// The flame graph: samples, or lane time, by phase, layer, operator and function. The root is on top, and a frame's
// width is its share. It draws what is wide enough to be seen; a frame that is not can still be selected by keyboard.

const FRAME_HEIGHT = 20;
// Narrower frames are not drawn, and have no text, in pixels.
const LEAST_WIDTH = 0.4, LEAST_TEXT = 26;
// Fewer samples do not make a share.
const FEW_SAMPLES = 20;
const FRAME_KINDS = {
  all: { name: "everything", colour: "--empty" }, phase: { name: "phase", colour: "--graph" }, layer: { name: "layer", colour: "--region" },
  op: { name: "operator type" }, operator: { name: "operator" }, outside: { name: "outside operators", colour: "--c9" }, waiting: { name: "waiting", colour: "--waiting" },
  function: { name: "function" }, kernel: { name: "kernel", colour: "--c3" }, unknown: { name: "code without a symbol", colour: "--c9" }, other: { name: "smaller frames together", colour: "--empty" },
};
const FUNCTION_COLOURS = ["--t1", "--t2", "--t3"];

// Wilson's 95 % interval of a share, as the report has it.
function binomialInterval(count, of) {
  if (of === 0) return [0, 1];
  const z = 1.96, share = count / of, scale = 1 + (z * z) / of;
  const middle = share + (z * z) / (2 * of), half = z * Math.sqrt((share * (1 - share)) / of + (z * z) / (4 * of * of));
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}
const intervalText = ([low, high]) => `${(low * 100).toFixed(1)} to ${(high * 100).toFixed(1)} %`;

// A tree of frames; rows come after the one that they are in, and all in it before its next sibling.
class Frames {
  constructor(view) {
    const { name, parent, weight } = view;
    this.unit = view.unit;
    this.names = view.names.map(([text, kind, module]) => ({ text: plain(text), kind, module: plain(module), words: `${text} ${module}`.toLowerCase() }));
    this.count = name.length;
    [this.name, this.parent, this.weight] = [Uint32Array.from(name), Uint32Array.from(parent), Float64Array.from(weight)];
    this.depth = new Uint32Array(this.count);
    // Where it begins, in weight; the index behind the last in it; weight in none of those in it.
    this.start = new Float64Array(this.count);
    this.end = new Uint32Array(this.count);
    this.self = Float64Array.from(weight);
    this.children = Array.from({ length: this.count }, () => []);
    const next = new Float64Array(this.count);
    for (let n = 1; n < this.count; n++) {
      const up = this.parent[n];
      this.depth[n] = this.depth[up] + 1;
      this.start[n] = next[n] = next[up];
      next[up] += this.weight[n];
      this.self[up] -= this.weight[n];
      this.children[up].push(n);
    }
    for (let n = this.count - 1; n >= 0; n--) {
      this.end[n] = Math.max(this.end[n], n + 1);
      if (n > 0) this.end[this.parent[n]] = Math.max(this.end[this.parent[n]], this.end[n]);
    }
    this.colours = this.coloured();
  }

  of(n) { return this.names[this.name[n]]; }

  // From the frame itself to the root.
  path(n) {
    const path = [n];
    while (n !== 0) path.push((n = this.parent[n]));
    return path;
  }

  // Operator types have the colours that the timeline gives them: those with most weight differ most.
  coloured() {
    const weights = new Map();
    for (let n = 0; n < this.count; n++) {
      const { kind, text } = this.of(n);
      if (kind === "op") weights.set(text, (weights.get(text) || 0) + this.weight[n]);
    }
    const ranked = [...weights].sort((a, b) => b[1] - a[1]).map(([op]) => op);
    const ranks = new Map(ranked.map((op, rank) => [op, SERIES[Math.min(rank, SERIES.length - 1)]]));
    const colours = [];
    for (let n = 0; n < this.count; n++) {
      const { kind, text } = this.of(n);
      if (kind === "op") colours.push(ranks.get(text));
      else if (kind === "operator") colours.push(colours[this.parent[n]]);
      else if (kind === "function") colours.push(FUNCTION_COLOURS[[...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7) % FUNCTION_COLOURS.length]);
      else colours.push((FRAME_KINDS[kind] || FRAME_KINDS.other).colour);
    }
    return colours;
  }

  amount(weight) {
    return this.unit === "ns" ? timeText(weight) : `${countText(weight)} sample${weight === 1 ? "" : "s"}`;
  }

  // A share with its interval, where it is one of samples.
  share(weight, of) {
    const share = shareText(of > 0 ? weight / of : 0);
    return this.unit === "ns" ? share : `${share} (95 %: ${intervalText(binomialInterval(weight, of))})`;
  }

  isFew(weight) { return this.unit !== "ns" && weight < FEW_SAMPLES; }
}

function flameSection(page) {
  const views = (page.flames || []).map((view) => ({ view, frames: null }));
  if (views.length === 0) return null;
  const frames = (at) => (views[at].frames ??= new Frames(views[at].view));
  let shown = 0, tree = frames(0), zoomed = 0, selected = 0, words = [], matches = null, found = [], current = -1;
  // The rectangles of the last picture, by row.
  let drawn = [];

  const chart = drawing({ class: "flame", tabindex: "0", role: "application", "aria-roledescription": "flame graph", "aria-describedby": "flame-keys" }, FRAME_HEIGHT, draw);
  const sentence = el("p", { class: "note" });
  const details = el("div", { class: "details", id: "flame-details" });
  const matchCount = el("span", { class: "muted", role: "status", id: "flame-found" });
  const search = el("input", { type: "search", id: "flame-search", placeholder: "Search functions, operators, layers", "aria-label": "Search the flame graph",
    oninput: () => find(search.value), onkeydown: (event) => {
      if (event.key === "Enter") { go(event.shiftKey ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") { search.value = ""; find(""); chart.canvas.focus(); event.preventDefault(); }
    } });

  // Dark or light, whichever is read on it.
  function ink(colour) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#1d2025" : "#ffffff";
  }

  function draw(context, width, height, colour) {
    const known = new Map();
    const palette = (name) => { if (!known.has(name)) known.set(name, colour(name)); return known.get(name); };
    const scale = width / (tree.weight[zoomed] || 1);
    drawn = [];
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const put = (n, x, wide) => {
      const row = tree.depth[n];
      (drawn[row] ||= []).push({ n, x, wide });
      const isMatch = matches && matches[n] === 1;
      const fill = isMatch ? palette("--match") : palette(tree.colours[n]);
      const y = row * FRAME_HEIGHT, across = Math.max(LEAST_WIDTH, wide - (wide > 3 ? 1 : 0));
      context.globalAlpha = words.length > 0 && !isMatch ? 0.35 : 1;
      context.fillStyle = fill;
      context.fillRect(x, y, across, FRAME_HEIGHT - 1);
      context.globalAlpha = 1;
      if (wide >= LEAST_TEXT) {
        const { text } = tree.of(n);
        const letters = Math.floor((wide - 8) / 6.4);
        context.fillStyle = words.length > 0 && !isMatch ? palette("--muted") : ink(fill);
        context.fillText(text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text, x + 4, y + FRAME_HEIGHT / 2, wide - 6);
      }
      if (n === selected && n !== 0) {
        context.strokeStyle = palette("--ink");
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(1, across - 2), FRAME_HEIGHT - 3);
      }
    };
    // What it is in fills the width.
    tree.path(zoomed).slice(1).forEach((n) => put(n, 0, width));
    for (let n = zoomed; n < tree.end[zoomed];) {
      const wide = tree.weight[n] * scale;
      if (wide < LEAST_WIDTH) { n = tree.end[n]; continue; }
      put(n, (tree.start[n] - tree.start[zoomed]) * scale, wide);
      n++;
    }
    Object.assign(chart.canvas.dataset, { zoomed, selected, rows: tree.count });
  }

  // As many rows as can be seen.
  function fit() {
    const least = tree.weight[zoomed] * (LEAST_WIDTH / (chart.canvas.clientWidth || 1000));
    let depth = tree.depth[zoomed];
    for (let n = zoomed; n < tree.end[zoomed];) {
      if (tree.weight[n] < least) { n = tree.end[n]; continue; }
      depth = Math.max(depth, tree.depth[n]);
      n++;
    }
    chart.resize((depth + 1) * FRAME_HEIGHT);
  }

  function tell() {
    const { text, kind, module } = tree.of(selected), weight = tree.weight[selected], all = tree.weight[0];
    const of = tree.unit === "ns" ? "lane time" : "all samples";
    const around = tree.path(selected).slice(1, -1).reverse().map((n) => tree.of(n).text).join(" › ");
    const few = tree.isFew(weight) ? [note(`Fewer than ${FEW_SAMPLES} samples: the share is imprecise.`, "note warn")] : [];
    details.replaceChildren(el("h3", {}, text), factList([
      ["is", (FRAME_KINDS[kind] || FRAME_KINDS.other).name], ["in", around], ["file", module], [tree.unit === "ns" ? "lane time" : "samples", tree.unit === "ns" ? timeText(weight) : countText(weight)],
      [`of ${of}`, tree.share(weight, all)], ["of what it is in", selected === 0 || tree.parent[selected] === 0 ? "" : tree.share(weight, tree.weight[tree.parent[selected]])],
      ["itself", selected === 0 || tree.self[selected] === 0 || tree.self[selected] === weight ? "" : `${tree.amount(tree.self[selected])}, ${tree.share(tree.self[selected], all)}`],
    ]), ...few);
    chart.canvas.setAttribute("aria-label", `Flame graph. ${text}, ${tree.amount(weight)}, ${tree.share(weight, all)}`);
  }

  function select(n, isSpoken = true) {
    selected = n;
    tell();
    chart.redraw();
    if (isSpoken) announce(`${tree.of(n).text}, ${tree.amount(tree.weight[n])}, ${tree.share(tree.weight[n], tree.weight[0])}${tree.isFew(tree.weight[n]) ? `, fewer than ${FEW_SAMPLES} samples` : ""}`);
  }
  function zoom(n) {
    zoomed = n;
    fit();
    select(n);
  }
  // A frame that is too narrow to be seen is shown within the largest one around it that makes it wide enough.
  function uncover(n) {
    const isIn = n >= zoomed && n < tree.end[zoomed] && tree.weight[n] * (chart.canvas.clientWidth || 1000) >= 2 * tree.weight[zoomed];
    if (!isIn && !tree.path(zoomed).includes(n)) {
      const wide = tree.path(n).slice(1).filter((up) => tree.weight[n] * 50 >= tree.weight[up]);
      zoomed = wide.length > 0 ? wide[wide.length - 1] : tree.parent[n];
      fit();
    }
    select(n);
  }

  // The largest sum of frames that have the words and are in none that has them: nothing is counted twice.
  function find(text) {
    words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    [found, current, matches] = [[], -1, null];
    if (words.length > 0) {
      const known = tree.names.map((name) => words.every((word) => name.words.includes(word)));
      matches = new Uint8Array(tree.count);
      let sum = 0;
      for (let n = 1, covered = 0; n < tree.count; n++) {
        if (!known[tree.name[n]] || tree.of(n).kind === "other") continue;
        matches[n] = 1;
        found.push(n);
        if (n >= covered) { sum += tree.weight[n]; covered = tree.end[n]; }
      }
      matchCount.textContent = found.length === 0 ? "nothing found" : `${countText(found.length)} frame${found.length === 1 ? "" : "s"}, ${tree.amount(sum)}: ${tree.share(sum, tree.weight[0])}`;
      found.sort((a, b) => tree.weight[b] - tree.weight[a]);
    } else matchCount.textContent = "";
    matchCount.dataset.count = found.length;
    chart.redraw();
  }
  function go(by) {
    if (found.length === 0) return;
    current = current < 0 ? (by > 0 ? 0 : found.length - 1) : (current + by + found.length) % found.length;
    uncover(found[current]);
  }

  function aside(by) {
    if (selected === 0) return;
    const siblings = tree.children[tree.parent[selected]];
    const next = siblings[siblings.indexOf(selected) + by];
    if (next !== undefined) uncover(next);
  }
  function inside() {
    const children = tree.children[selected];
    if (children.length > 0) uncover(children.reduce((most, n) => (tree.weight[n] > tree.weight[most] ? n : most)));
  }
  function out() {
    if (words.length > 0) { search.value = ""; return find(""); }
    if (zoomed !== 0) return zoom(tree.parent[zoomed]);
    select(0);
  }
  const keys = {
    ArrowUp: () => selected !== 0 && uncover(tree.parent[selected]), ArrowDown: inside, ArrowLeft: () => aside(-1), ArrowRight: () => aside(1),
    Enter: () => zoom(selected), Escape: out, Home: () => zoom(0), 0: () => zoom(0), "/": () => search.focus(), n: () => go(1), p: () => go(-1),
  };
  chart.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  const under = (event) => {
    const [x, y] = within(event, chart.canvas);
    const row = drawn[Math.floor(y / FRAME_HEIGHT)] || [];
    return row.find((frame) => x >= frame.x - 1 && x < frame.x + Math.max(2, frame.wide)) || null;
  };
  chart.canvas.addEventListener("pointermove", (event) => {
    const at = under(event);
    chart.canvas.classList.toggle("leads", at !== null);
    if (!at) return hideTip();
    const { text, kind, module } = tree.of(at.n), weight = tree.weight[at.n];
    const lines = [text, `${tree.amount(weight)}, ${tree.share(weight, tree.weight[0])}`];
    if (zoomed !== 0 && at.n > zoomed) lines.push(`${tree.share(weight, tree.weight[zoomed])} of ${tree.of(zoomed).text}`);
    if (tree.isFew(weight)) lines.push(`fewer than ${FEW_SAMPLES} samples`);
    lines.push(module || (FRAME_KINDS[kind] || FRAME_KINDS.other).name);
    showTip(event, lines);
  });
  chart.canvas.addEventListener("pointerleave", hideTip);
  chart.canvas.addEventListener("click", (event) => {
    chart.canvas.focus({ preventScroll: true });
    const at = under(event);
    if (at) zoom(at.n);
  });

  const buttons = views.length > 1 ? views.map(({ view }, at) => el("button", { type: "button", "aria-pressed": at === 0, onclick: () => choose(at) }, view.unit === "ns" ? "Lane time" : "Samples")) : [];
  function choose(at) {
    shown = at;
    tree = frames(at);
    [zoomed, selected] = [0, 0];
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === shown));
    sentence.replaceChildren(...prose(views[at].view.sentence));
    fit();
    find(search.value);
    select(0, false);
  }
  choose(0);
  const kinds = new Set(tree.names.map((name) => name.kind));
  const colours = [["phase", "--graph"], ["layer", "--region"], ["op", "--c0"], ["waiting", "--waiting"], ["function", "--t2"], ["kernel", "--c3"], ["unknown", "--c9"]];
  const parts = colours.filter(([kind]) => kinds.has(kind)).map(([kind, colour]) => ({ name: kind === "op" ? "operator types and operators (each type its colour)" : FRAME_KINDS[kind].name, colour }));
  const button = (text, title, action) => el("button", { type: "button", title, "aria-label": title, onclick: action }, text);
  const tools = el("div", { class: "tools" }, search, button("↑", "Previous frame found", () => go(-1)), button("↓", "Next frame found", () => go(1)), matchCount, el("span", { class: "grow" }), buttons,
    button("Out", "Zoom out", () => zoom(zoomed === 0 ? 0 : tree.parent[zoomed])), button("Whole", "Show the whole flame graph", () => zoom(0)));
  const help = el("details", { class: "keys" }, el("summary", {}, "Mouse and keys"), el("p", { id: "flame-keys" },
    "The root is on top. Click: zoom to a frame, or out to one above. Keys: ↑ and ↓ go to what a frame is in and to the largest frame in it, ← and → to its neighbours, Enter zooms to the selected frame, Esc ends a search or zooms out, Home shows all, / searches, n and p go from match to match."));
  return section("flame", "Flame graph", sentence, tools, chart.canvas, legend(parts), details, help, functionTables(page.functions));
}

// What the samples are in, as tables: what `report --by function` prints.
function functionTables(report) {
  if (!report || report.samples === 0) return null;
  const interval = { title: "95 % interval", value: (row) => row.interval[0], text: (row) => intervalText(row.interval) };
  const few = { title: "note", value: (row) => (row.few ? "few samples" : ""), left: true };
  const figures = [column.share("share", "share"), interval, column.count("samples", "samples")];
  return el("details", {}, el("summary", {}, "Functions as a table"),
    table("Functions, callees left out", [column.text("function", "function"), column.text("module", "module"), ...figures, { ...column.count("waiting", "waiting"), value: (row) => row.waiting || null }, few], report.functions, { id: "table-functions", filter: "Filter functions", showCaption: true }),
    table("Samples by operator type", [column.text("place", "in"), ...figures, column.text("function", "mostly"), column.share("function_share", "of these"), few], report.places, { id: "table-places", showCaption: true }));
}
