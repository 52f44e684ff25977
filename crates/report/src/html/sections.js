// The report's sections, each out of the part of its JSON that it is about. A section without data is not there.

const PARTS = [
  { key: "work_ns", name: "operators", colour: "--c0" },
  { key: "waiting_ns", name: "waiting for the slowest lane", colour: "--waiting" },
  { key: "outside_operators_ns", name: "in graphs, outside operators", colour: "--c8" },
  { key: "outside_graphs_ns", name: "outside graphs", colour: "--c9" },
];

function section(id, title, ...content) {
  const shown = content.flat(Infinity).filter((part) => part !== null && part !== undefined && part !== false);
  if (shown.length === 0) return null;
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), shown);
}

function card(label, value, more) {
  return el("div", { class: "card" }, el("span", { class: "muted" }, label), el("strong", {}, value), more ? el("span", { class: "muted small" }, more) : null);
}

function overview(report) {
  const { trace, completeness } = report;
  const phase = (name) => report.phases.find((phase) => phase.phase === name && phase.steps > 0);
  const [decode, prefill] = [phase("decode"), phase("prefill")];
  const cards = [];
  // Sequences of one request are candidates, of which one is kept: only requests tell which tokens are output.
  const together = decode && decode.tokens_per_s !== null && decode.sequences_per_step > 1 && report.requests_total === 0;
  if (decode && decode.tokens_per_s !== null) cards.push(card(together ? "Decode, computed" : "Decode", `${rateText(decode.tokens_per_s)} tokens/s`, `${countText(decode.steps)} steps${together ? ` of ${decode.sequences_per_step.toFixed(1)} sequences` : ""}`));
  if (report.tpot.count > 0) cards.push(card(decode && decode.tokens_per_s !== null && !together ? "Time per output token" : "Time per step", timeText(report.tpot.mean_ns), `p50 ${about(report.tpot)}${timeText(report.tpot.p50_ns)} · p99 ${about(report.tpot)}${timeText(report.tpot.p99_ns)}`));
  if (prefill && prefill.tokens_per_s !== null) cards.push(card("Prefill", `${rateText(prefill.tokens_per_s)} tokens/s`, `${countText(prefill.tokens)} tokens`));
  if (report.ttft.count > 0) cards.push(card("Time to first token", timeText(report.ttft.mean_ns), report.ttft.count > 1 ? `mean of ${countText(report.ttft.count)}` : null));
  if (report.lanes > 0) cards.push(card("Lanes", countText(report.lanes), trace.cpus ? `on ${countText(trace.cpus)} CPUs` : null));
  const judged = el("p", { class: `badge ${completeness.complete ? "good" : "warn"}` }, plain(completeness.verdict));
  return section("overview", "Overview", judged, el("div", { class: "cards" }, cards), whereItWent(report));
}

function whereItWent(report) {
  const phases = report.phases.filter((phase) => phase.lane_time_ns > 0 && (phase.operators > 0 || phase.graphs > 0));
  if (phases.length === 0) return null;
  const parts = (phase) => PARTS.map((part) => ({ ...part, value: phase[part.key] || 0 }));
  return [
    el("h3", {}, report.lanes > 1 ? `Where the time of ${countText(report.lanes)} lanes went` : "Where the time went"),
    phases.map((phase) => stackedBar(phase.phase, parts(phase), phase.lane_time_ns, timeText)),
    legend(PARTS.filter((part) => phases.some((phase) => phase[part.key] > 0))),
  ];
}

const about = (times) => (times.percentile_error ? "≈ " : "");

// The note where percentiles are estimates.
function estimatedText(times) {
  const errors = times.map((of) => of.percentile_error || 0).filter((error) => error > 0);
  return errors.length > 0 ? `p50, p90 and p99 of more than 100,000 times are estimates (± ${Math.max(...errors) * 100} %).` : null;
}

function stepsSection(report, steps, facts, goTo) {
  if (steps.count === 0) return null;
  const rows = report.phases.filter((phase) => phase.steps > 0);
  const of = (key) => ({ title: key.replace("_ns", "").replace("max", "longest"), key: `step.${key}`, value: (row) => row.step[key], text: (row) => timeText(row.step[key]) });
  const note = estimatedText([...rows.map((row) => row.step), report.ttft, report.tpot]);
  return section("steps", "Steps", stepsChart(steps, rows.map((row) => row.phase), facts, goTo), table("Steps by phase", [
    column.text("phase", "phase"), column.count("steps", "steps"), column.count("tokens", "tokens"),
    { key: "tokens_per_s", title: "tokens/s", value: (row) => row.tokens_per_s, text: (row) => rateText(row.tokens_per_s) },
    of("mean_ns"), of("p50_ns"), of("p90_ns"), of("p99_ns"), of("max_ns"),
  ], rows, { id: "phases" }), note ? el("p", { class: "muted small" }, note) : null, el("details", {}, el("summary", {}, "The longest steps"), stepsTable(steps)));
}

// The name of a row of operators, what it was computed along with included.
function rowName(row) {
  return row.covers ? `${row.name || ""} (with ${row.covers})` : row.name;
}

function shapeText(shape) {
  if (!shape) return null;
  let length = shape.length;
  while (length > 1 && shape[length - 1] === 1) length--;
  return shape.slice(0, length).join("×");
}

// One column for each counter and metric that a row has.
function measureColumns(report, rows) {
  const units = new Map(report.metrics.metrics.map((metric) => [metric.metric, metric.unit]));
  const names = (list, name) => [...new Set(rows.flatMap((row) => row[list].map((cell) => cell[name])))];
  const shown = (cell, text) => (cell.estimate ? `≈ ${text}` : cell.bound ? `≤ ${text}` : text) + (cell.of_work !== undefined && cell.of_work < 0.995 ? ` (of ${shareText(cell.of_work)})` : "");
  const cellOf = (row, list, name, wanted) => row[list].find((cell) => cell[name] === wanted);
  const made = (list, name, wanted, unit) => ({
    key: `${list}.${wanted}`, title: plain(wanted), value: (row) => { const cell = cellOf(row, list, name, wanted); return cell ? cell.value : null; },
    text: (row) => { const cell = cellOf(row, list, name, wanted); return !cell || cell.value === null ? "" : shown(cell, unit === null ? countText(cell.value) : quantityText(cell.value, unit)); },
  });
  return [...names("counts", "counter").map((name) => made("counts", "counter", name, null)), ...names("metrics", "metric").map((name) => made("metrics", "metric", name, units.get(name) || ""))];
}

function operatorColumns(report, rows) {
  const total = (row) => (row.estimate ? `≈ ${timeText(row.estimate.total_ns)}` : timeText(row.total_ns));
  return [
    column.share("share", "share", "of lane time"), { key: "total_ns", title: "total", value: (row) => row.total_ns, text: total },
    { key: "layer", title: "layer", left: true, value: (row) => row.layer || (row.name === null && row.op === null && row.backend === null ? "none" : null) },
    column.text("name", "name", rowName), column.text("op", "type"), column.text("backend", "backend"),
    { key: "waiting_ns", title: "waiting", value: (row) => row.waiting_ns, text: (row) => (row.waiting_ns ? (row.waiting_estimated ? "≈ " : "") + timeText(row.waiting_ns) : "") },
    column.count("count", "count"), { key: "mean_ns", title: "mean", hint: "from the first lane's start to the last lane's end; ≈ without what tracing takes (total and share include it)", value: (row) => row.mean_ns, text: (row) => (row.mean_without_tracing_ns === undefined ? timeText(row.mean_ns) : `≈ ${timeText(row.mean_without_tracing_ns)}`) }, column.time("max_ns", "longest"),
    column.text("dtype", "dtype", (row) => (row.op ? row.dtype : null)), column.text("shape", "shape", (row) => shapeText(row.shape)),
    { key: "layers", title: "layers", value: (row) => (row.layers > 1 && row.name ? row.layers : null) },
    ...measureColumns(report, rows),
  ];
}

function operatorsSection(report) {
  const views = [["By name", "operators", report.operators], ["By type", "operator_types", report.operator_types]].filter(([, , rows]) => rows.length > 0);
  if (views.length === 0) return null;
  const panels = views.map(([title, id, rows]) => el("div", { id: `panel-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}` },
    table(`Operators ${title.toLowerCase()}`, operatorColumns(report, rows), rows, { id: `table-${id}`, filter: "Filter operators" })));
  const of = `Of ${report.table_phases.join(" and ")}; total and share: work of all lanes, mean: elapsed.`;
  const cut = report.operators_total > report.operators.length ? ` The first ${countText(report.operators.length)} of ${countText(report.operators_total)}.` : "";
  return section("operators", "Operators", note(of + cut), tabs("Tables of operators", views.map(([title, id], index) => ({ title, id, panel: panels[index] }))), panels);
}

function tabs(label, all) {
  const choose = (chosen) => all.forEach(({ panel, button }, index) => {
    panel.hidden = index !== chosen;
    button.setAttribute("aria-selected", index === chosen);
    button.tabIndex = index === chosen ? 0 : -1;
  });
  all.forEach((tab, index) => {
    tab.button = el("button", { type: "button", role: "tab", id: `tab-${tab.id}`, "aria-controls": `panel-${tab.id}`, onclick: () => choose(index), onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      const next = (index + by + all.length) % all.length;
      choose(next);
      all[next].button.focus();
    } }, tab.title);
  });
  choose(0);
  return el("div", { class: "tabs", role: "tablist", "aria-label": label }, all.map((tab) => tab.button));
}

// Which layers are odd is decided by the statistics.
function layersSection(report, statistics) {
  const rows = report.layers;
  if (rows.length === 0 || rows.every((row) => row.layer === null)) return null;
  const judged = statistics && statistics.layers && Array.isArray(statistics.layers.layers) ? statistics.layers.layers : [];
  const odd = judged.filter((row) => row.odd && report.table_phases.includes(row.phase));
  const names = new Set(odd.map((row) => row.layer));
  const rendered = odd.length ? `Odd beside the median layer of the same step: ${odd.slice(0, 8).map((row) => `layer ${plain(row.layer)} (${row.phase}, ${signedShareText(row.off)}${row.because ? `, mostly ${plain(row.because.name)}` : ""})`).join(", ")}${odd.length > 8 ? ` and ${odd.length - 8} more` : ""}.` : null;
  const chart = bars("Work by layer; the table below has the numbers", rows.slice(0, 200).map((row) => ({ name: row.layer === null ? "none" : row.layer, value: row.total_ns, text: `${timeText(row.total_ns)} · ${shareText(row.share)}`, odd: row.layer !== null && names.has(row.layer) })));
  return section("layers", "Layers", note(rendered), chart, el("details", {}, el("summary", {}, "Table"), table("Layers", operatorColumns(report, rows), rows, { id: "table-layers" })));
}

function expertsSection(report) {
  if (report.experts.length === 0) return null;
  const byLayer = new Map();
  for (const row of report.experts) {
    const key = row.layer === null ? "?" : row.layer;
    if (!byLayer.has(key)) byLayer.set(key, new Map());
    byLayer.get(key).set(row.expert, row);
  }
  const layers = [...byLayer.keys()].sort(compare);
  const most = Math.min(4096, report.experts.reduce((max, row) => Math.max(max, row.expert), 0) + 1);
  const experts = Array.from({ length: most }, (_, n) => n);
  const highest = report.experts.reduce((max, row) => Math.max(max, row.share), 0) || 1;
  const cell = (layer, expert) => byLayer.get(layer).get(expert);
  const map = heatMap({
    label: `How often each of ${most} experts of ${layers.length} layers was chosen; the tables below have the numbers`, rows: layers, columns: experts,
    value: (layer, expert) => (cell(layer, expert) ? cell(layer, expert).share / highest : null),
    rowName: (layer) => layer, columnName: (expert) => expert,
    tip: (layer, expert) => { const row = cell(layer, expert); return [`layer ${plain(layer)}, expert ${expert}`, row ? `${countText(row.activations)} times, ${shareText(row.share)} of the layer's` : "never chosen"]; },
  });
  const scale = el("p", { class: "muted small" }, `Rows are layers, columns experts; the darkest was chosen for ${shareText(highest)} of its layer's tokens and choices, an empty one never.`);
  const layerColumns = [column.text("layer", "layer"), column.count("activations", "activations"), column.count("experts", "experts"), column.count("busiest", "busiest"), column.share("busiest_share", "its share"), { key: "imbalance", title: "imbalance", hint: "activations of the busiest by the mean: 1 is even", value: (row) => row.imbalance, text: (row) => rateText(row.imbalance) }];
  const expertColumns = [column.text("layer", "layer"), column.count("expert", "expert"), column.count("activations", "activations"), column.share("share", "share of its layer's")];
  return section("experts", "Experts", map, scale, table("Experts by layer", layerColumns, report.expert_layers, { id: "table-expert-layers" }),
    el("details", {}, el("summary", {}, "Each expert"), table("Experts", expertColumns, report.experts, { id: "table-experts" })));
}

// Requests, where the sequences of batches were recorded.
function requestsSection(report) {
  if (!report.requests || report.requests.length === 0) return null;
  const number = { key: "request", title: "request", value: (row) => (row.request === null ? row.number : row.request) };
  const columns = [number, column.count("sequence", "sequence"), column.time("queued_ns", "queued"), column.time("prefill_ns", "prefill"), column.time("decode_ns", "decode"),
    column.time("time_to_first_token_ns", "first token"), column.time("time_per_output_token_ns", "per token"), column.count("input_tokens", "prompt"), column.count("cached_tokens", "cached"),
    column.count("output_tokens", "generated"), column.count("steps", "steps"), column.share("batch_share", "batch share")];
  return section("requests", "Requests", table("Requests", columns, report.requests, { id: "table-requests" }));
}

// Of whole steps, where they were counted.
function stepCounts(rows) {
  const names = [...new Set(rows.flatMap((row) => row.step_counts.map((cell) => cell.counter)))];
  const of = (row, name) => row.step_counts.find((cell) => cell.counter === name) || { value: null };
  return names.map((name) => ({
    key: `step_counts.${name}`, title: plain(name), value: (row) => of(row, name).value,
    text: (row) => (of(row, name).value === null ? "" : (of(row, name).estimate ? "≈ " : "") + countText(of(row, name).value)),
  }));
}

function countersSection(report) {
  const { counters, metrics, by_phase: phases } = report.metrics;
  const rows = phases.filter((row) => row.counts.length + row.metrics.length + row.step_counts.length > 0);
  if (counters.length + metrics.length === 0) return null;
  return section("counters", "Counters and metrics",
    table("All operators together, by phase", [column.text("phase", "phase"), ...measureColumns(report, rows)], rows, { showCaption: true }),
    rows.some((row) => row.step_counts.length > 0) ? table("Counted in whole steps, by the threads that ran them", [column.text("phase", "phase"), ...stepCounts(rows)], rows, { showCaption: true }) : null,
    table("Metrics", [column.text("metric", "metric"), column.text("expression", "is"), column.text("unit", "unit"), column.text("absent", "reason")], metrics, { showCaption: true }),
    table("Counters", [column.text("counter", "counter"), column.text("event", "event"), column.text("pmu", "counted by"), column.text("absent", "reason")], counters, { showCaption: true }));
}

const STATE_PARTS = [
  { key: "running_ns", name: "running", colour: "--running" }, { key: "runnable_ns", name: "run-queue delay", colour: "--runnable" },
  { key: "sleeping_ns", name: "sleeping", colour: "--sleeping" }, { key: "blocked_ns", name: "blocked", colour: "--blocked" },
  { key: "stopped_ns", name: "stopped", colour: "--c5" }, { key: "attaching_ns", name: "stopped by profinfer", colour: "--muted" }, { key: "unknown_ns", name: "unknown", colour: "--empty" },
];

function lanesSection(report) {
  const threads = report.threads;
  if (report.lane_rows.length === 0 && !threads) return null;
  const content = [];
  if (threads) {
    content.push(threads.sentences.map((sentence) => note(sentence, "sentence")));
    const lanes = threads.lanes.filter((row) => row.wall_ns > 0);
    const name = (row) => (row.lane === null ? "others" : `lane ${row.lane}`);
    content.push(el("h3", {}, "Threads of the lanes"), lanes.slice(0, 128).map((row) => stackedBar(name(row), STATE_PARTS.map((part) => ({ ...part, value: row[part.key] })), row.wall_ns, timeText)),
      legend(STATE_PARTS.filter((part) => lanes.some((row) => row[part.key] > 0))));
  }
  content.push(table("Lanes in operators", [
    { key: "lane", title: "lane", left: true, value: (row) => row.lane }, column.share("busy", "busy"), column.share("waiting", "waiting"), column.time("work_ns", "work"), column.time("waiting_ns", "waited"),
    column.count("shares", "operators"), column.share("slowest", "slowest in", "of the operators with several lanes"), ...measureColumns(report, report.lane_rows),
  ], report.lane_rows, { id: "table-lanes", showCaption: true }));
  if (threads) {
    content.push(table("Threads", [{ key: "lane", title: "lane", left: true, value: (row) => (row.lane === null ? "others" : row.lane) }, column.time("wall_ns", "time"), ...STATE_PARTS.map((part) => column.time(part.key, part.name)),
      column.count("voluntary_switches", "voluntary switches"), column.count("involuntary_switches", "preemptions"), column.count("migrations", "migrations"),
      { title: "cpus", left: true, value: (row) => row.cpus.map((cpu) => `${cpu.cpu}: ${timeText(cpu.running_ns)}`).join(", ") }], threads.lanes, { showCaption: true, id: "table-threads" }));
    content.push(table("Processes that ran instead of runnable lanes", [column.text("process", "process"), column.number("pid", "pid"), column.time("taken_ns", "took"), column.share("share", "of lane time"),
      { title: "most from", left: true, value: (row) => row.operators.slice(0, 2).map((operator) => operator.name || operator.op).join(", ") }], threads.interference, { showCaption: true }));
  }
  content.push(table("Regions", [column.text("region", "region"), column.share("share", "share"), column.time("total_ns", "total"), column.time("in_operators_ns", "in operators"), column.count("count", "count"), column.time("mean_ns", "mean"), column.time("max_ns", "longest")], report.regions, { showCaption: true }));
  content.push(table("Backends", [column.text("backend", "backend"), column.share("share", "of the steps' time"), column.time("total_ns", "total"), column.count("graphs", "graphs"), column.time("mean_ns", "mean"), column.count("operators", "operators"), column.time("operators_ns", "their work")], report.backends, { showCaption: true }));
  return section("lanes", "Lanes and threads", content);
}

function faultsSection(report) {
  const faults = report.faults;
  if (!faults) return null;
  const figures = [column.count("faults", "faults"), column.time("waited_ns", "waited"), column.bytes("bytes", "read")];
  const some = (rows) => rows.filter((row) => row.faults || row.bytes || row.waited_ns);
  const tables = [
    table("By phase", [column.text("phase", "phase"), ...figures], some(faults.phases), { showCaption: true }),
    table("By tensor", [column.text("name", "tensor"), column.count("expert", "expert"), column.text("layer", "layer"), ...figures], faults.tensors, { showCaption: true }),
    table("By layer", [column.text("layer", "layer"), ...figures], faults.layers, { showCaption: true }),
    table("By operator", [column.text("name", "operator"), ...figures], faults.operators, { showCaption: true }),
    table("Steps that waited longest", [column.count("step", "step"), column.text("phase", "phase"), column.time("duration_ns", "duration"), ...figures], faults.steps, { showCaption: true }),
  ];
  const rendered = faults.steps.slice(0, 3).map((step) => note(step.sentence, "sentence"));
  return section("disk", "Waiting for the disk", rendered, tables.some(Boolean) ? tables : note("Nothing was read from the disk."));
}

function completenessSection(report) {
  const { completeness, sampling } = report;
  const lost = table("What was counted", [column.text("record", "record"), column.text("kind", "what"), column.count("count", "count"), { title: "harmful", left: true, value: (row) => (row.harmful ? "yes" : "no") }], completeness.lost, { showCaption: true });
  const steps = table("Steps that miss records", [column.count("step", "step"), column.count("records", "records at most"), { title: "lanes", left: true, value: (row) => row.lanes.join(", ") }], completeness.incomplete_steps, { showCaption: true });
  return section("completeness", "Completeness", el("p", { class: `badge ${completeness.complete ? "good" : "warn"}` }, plain(completeness.verdict)), completeness.notes.map((text) => note(text)), factList([
    ["steps", countText(completeness.steps)], ["excluded from the statistics", completeness.steps_left_out ? countText(completeness.steps_left_out) : ""], ["records", countText(completeness.records)],
    ["recorded whole", `${countText(sampling.whole)} steps`], ["in part", sampling.partly ? countText(sampling.partly) : ""], ["without operators", sampling.bare ? countText(sampling.bare) : ""],
    ["slow-down, measured", sampling.measured ? shareText(sampling.measured.slowdown) : sampling.not_measured ? `not measured: ${sampling.not_measured}` : ""], ["slow-down, reckoned", shareText(sampling.predicted)], ["budget", shareText(sampling.budget)],
  ]), lost, steps);
}

function environmentSection(report, page) {
  const { trace, roofline } = report;
  const { environment } = page;
  const figures = roofline ? roofline.figures.filter((figure) => figure.cpus === roofline.cpus) : [];
  const unit = (figure) => (/^(read|write|copy)/.test(figure.quantity) ? "B/s" : /^int/.test(figure.quantity) ? "operations/s" : "FLOP/s");
  return section("environment", "Environment", factList([
    ["command", el("code", {}, plain(trace.command.join(" ")))], ["process", `${trace.pid}, ${environment.launched ? "launched" : "attached to"}`], ["engine", trace.engine], ["probeset", trace.probeset], ["options", environment.options.join(" ")],
    ["host", environment.host], ["processor", trace.cpu_model], ["cpus", countText(trace.cpus)], ["CPU quota", environment.cpu_quota === null ? "" : rateText(environment.cpu_quota)], ["memory", environment.memory ? bytesText(environment.memory) : ""],
    ["kernel", trace.kernel], ["architecture", trace.arch], ["recorded", dateText(trace.wall_clock_ns)], ["for", timeText(trace.duration_ns)], ["ended", trace.ended], ["recorder", trace.recorder], ["page by", page.page],
  ]), table("Modules", [column.text("name", "module"), column.text("path", "file"), column.text("build_id", "build-id"), column.bytes("size", "size")], environment.modules, { showCaption: true }),
  roofline ? table("Machine limits, all CPUs", [column.text("quantity", "quantity", (row) => row.quantity.replace("_", ", ")), column.text("level", "of"), { title: "best", value: (row) => row.best, text: (row) => quantityText(row.best, unit(row)) }, { title: "median", value: (row) => row.median, text: (row) => quantityText(row.median, unit(row)) }, column.text("instructions", "instructions")], figures, { showCaption: true }) : null,
  environment.notices.length ? el("details", {}, el("summary", {}, "Notices of the recorder"), el("ul", {}, environment.notices.map((text) => el("li", {}, plain(text))))) : null);
}

function dateText(ns) {
  const date = new Date(ns / 1e6);
  return ns > 0 && !Number.isNaN(date.getTime()) ? date.toISOString().replace("T", " ").slice(0, 19) + " UTC" : "";
}
