// Pictures of the statistics, by section. Each takes its section of the JSON and gives figures; what cannot be drawn is null.

// Curves of one chart, bars of one ranking, charts of one kind.
const MOST_CURVES = 6;
const MOST_BARS = 12;
const MOST_ALIKE = 4;
// Rows of a heat map: more are no picture any more.
const MOST_ROWS = 64;

const sizeText = (measure) => (n) => quantityText(n, { flops: "FLOP", bytes: "B" }[measure] || "");
const SIZES = { flops: "floating-point operations", bytes: "bytes moved", elements: "elements of the result" };
const LINED = "Dashed: the line that fits best, where there is one.";

const PICTURES = {
  steps: (part) => {
    const places = [["least", "min_ns"], ["median", "p50_ns"], ["90 %", "p90_ns"], ["99 %", "p99_ns"], ["most", "max_ns"]];
    const times = (label, caption, of) => (of.count > 1 ? ranking(label, caption, "at most, of so many", "time", places.map(([name, key]) => ({ name, value: of[key], text: (["least", "most"].includes(name) ? "" : about(of)) + timeText(of[key]) }))) : null);
    return [
      plot({
        label: "Tokens per second over time", caption: "Decode steps, by equal intervals of time.",
        series: [{ name: "decode", kind: "line", points: part.windows.filter((row) => row.tokens_per_s !== null).map((row) => [(row.from_ns + row.until_ns) / 2, row.tokens_per_s]) }],
        x: { label: "time since the first step", text: timeText }, y: { label: "tokens/s", text: rateText },
      }),
      part.has_tokens ? times("Time per output token", "From the end of one decode step to that of the next.", part.tpot) : times("Time per step", "From the end of one step to that of the next.", part.tpot),
      times("Time to first token", "From the start of a prompt to the first token, over generations.", part.ttft),
    ];
  },

  growth: (part) => {
    const axes = { x: { label: "context (tokens behind the step)", text: countText }, y: { label: "time per step", text: timeText } };
    const curve = (name) => (row, index) => [
      { name, colour: SERIES[index % SERIES.length], points: row.points.map((point) => [point.context, point.ns]) },
      { name: null, kind: "dashes", colour: SERIES[index % SERIES.length], points: ["grows", "shrinks", "constant"].includes(row.change) ? [[part.from_tokens, row.from_ns], [part.to_tokens, row.to_ns]] : [] },
    ];
    const drawn = (label, caption, rows, name) => plot({ label, caption, cut: true, ...axes, series: rows.flatMap((row, index) => curve(name(row))(row, index)) });
    const operators = part.operators.filter((row) => row.points.length > 1);
    return [
      drawn("The whole decode step against the context", `Means of groups of steps. ${LINED}`, part.step.filter((row) => row.points.length > 1), (row) => (part.step.length > 1 ? `model ${row.model}` : "decode step")),
      drawn("Operators against the context", `Those that grow and those with the largest share, all layers together. ${LINED}`, operators.slice(0, MOST_CURVES), (row) => `${row.name} (${row.op})`),
    ];
  },

  work: (part) => [...["flops", "bytes"].map((measure) => {
    const isKnown = (row) => row.points.filter((point) => point[measure] > 0).length > 1;
    const wanted = (row) => (row.measure ? row.measure === measure : measure === (row.points.some((point) => point.flops > 0) ? "flops" : "bytes"));
    const rows = part.types.filter((row) => wanted(row) && isKnown(row)).slice(0, MOST_CURVES);
    const series = rows.flatMap((row, index) => {
      const points = row.points.filter((point) => point[measure] > 0);
      const colour = SERIES[index % SERIES.length];
      const name = row.backend && new Set(part.types.map((other) => other.backend)).size > 1 ? `${row.op} on ${row.backend}` : row.op;
      const named = points.map((point) => `${name}, ${point.phase}: ${point.names.join(", ")} ${shapeText(point.shape) || ""}`);
      const fitted = row.measure ? lineOf(points.map((point) => point[measure]), row) : [];
      return [{ name, colour, points: points.map((point) => [point[measure], point.mean_ns]), ringed: (n) => points[n].outlier, names: named }, { name: null, kind: "dashes", colour, points: fitted }];
    });
    const numbers = { rows: rows.flatMap((row) => row.points.map((point) => ({ ...point, op: row.op, backend: row.backend }))), columns: [column.text("op", "type"), column.text("phase", "phase"), column.text("shape", "shape", (row) => shapeText(row.shape)), column.text("names", "names", (row) => row.names.join(", ")), { key: measure, title: SIZES[measure], value: (row) => row[measure], text: (row) => sizeText(measure)(row[measure]) }, column.time("mean_ns", "mean time"), column.time("fitted_ns", "by the line"), column.text("outlier", "judgement", (row) => (row.outlier ? "far from its line" : null)), column.count("count", "count")] };
    return plot({ label: `Time against ${measure === "flops" ? "operations" : "bytes"}, by operator type`, caption: `One point per size, both scales logarithmic. ${LINED}`, ring: "far from its type's line", log: true, series, numbers, x: { label: SIZES[measure], text: sizeText(measure) }, y: { label: "mean time", text: timeText } });
  }), ranking("Time by operator type", "From the first lane's start to the last lane's end; rates where the probeset has costs.", "type", "time", part.types.slice(0, MOST_BARS).map((row) => ({ name: row.backend && part.types.some((other) => other.backend !== row.backend) ? `${row.op} on ${row.backend}` : row.op, value: row.total_ns, text: [shareText(row.share), row.flops_per_s > 0 ? quantityText(row.flops_per_s, "FLOP/s") : null, row.bytes_per_s > 0 ? quantityText(row.bytes_per_s, "B/s") : null].filter(Boolean).join(" · ") })))],

  counters: (part) => {
    const units = new Map(part.metrics.map((metric) => [metric.metric, metric.unit]));
    const measures = [...new Set(part.operators.flatMap((row) => [...row.metrics.map((cell) => `m${cell.metric}`), ...row.counts.map((cell) => `c${cell.counter}`)]))];
    return measures.slice(0, 2 * MOST_ALIKE).map((measure) => {
      const [isMetric, name] = [measure[0] === "m", measure.slice(1)];
      const cell = (row) => (isMetric ? row.metrics.find((one) => one.metric === name) : row.counts.find((one) => one.counter === name));
      const text = (one) => `${one.estimate ? "≈ " : one.bound ? "≤ " : ""}${isMetric ? quantityText(one.value, units.get(name) || "") : quantityText(one.value, "")}`;
      const rows = part.operators.filter((row) => cell(row) && cell(row).value !== null).slice(0, MOST_BARS).map((row) => ({ name: `${rowName(row) || ""} (${row.op})`, value: cell(row).value, text: text(cell(row)) }));
      return ranking(`${name} by operator`, isMetric ? "Of the operators that take the most time." : "All lanes together, of the operators that take the most time.", "operator", isMetric && units.get(name) ? units.get(name) : name, rows);
    });
  },

  backends: (part) => {
    const keyOf = (row) => [row.op, row.dtype, row.measure].join(" ");
    const groups = new Map();
    part.pairs.forEach((pair) => {
      const key = [keyOf(pair), pair.first.backend, pair.second.backend].join(" ");
      groups.set(key, [...(groups.get(key) || []), pair]);
    });
    const crossed = (pairs) => part.crossings.filter((one) => keyOf(one) === keyOf(pairs[0]) && [pairs[0].first.backend, pairs[0].second.backend].every((backend) => [one.below, one.above].includes(backend)));
    const shown = [...groups.values()].sort((a, b) => crossed(b).length - crossed(a).length || b.length - a.length).slice(0, MOST_ALIKE);
    return shown.map((pairs) => sideBySide(pairs.slice().sort((a, b) => a.size - b.size), crossed(pairs)));
  },

  experts: (part) => {
    const since = (row) => (row.from_tokens === 0 ? "first use" : row.from_tokens === row.to_tokens ? countText(row.from_tokens) : `${countText(row.from_tokens)}–${countText(row.to_tokens)}`);
    const rows = (value, text) => part.reuse.filter((row) => value(row) !== null && value(row) !== undefined).map((row) => ({ name: since(row), value: value(row), text: text(row) }));
    const heading = "tokens since its last use";
    return [
      ranking("How soon an expert is used again", "Uses by the tokens of the layer since the expert's last use.", heading, "share of uses", rows((row) => row.share, (row) => `${shareText(row.share)} · ${countText(row.uses)}`)),
      ranking("Cost of an expert that was not used recently", "Operators of steps of one token, by their least recently used expert.", heading, "mean time", rows((row) => row.operator_ns, (row) => timeText(row.operator_ns))),
      part.reuse.some((row) => row.faults > 0) ? ranking("Major faults on experts", "Read from the disk, by the tokens since the expert's last use.", heading, "major faults", rows((row) => row.faults, (row) => `${countText(row.faults)} · ${timeText(row.waited_ns)}`)) : null,
      ranking("How many experts serve 90 % of the choices", "Of all experts of the layer: the fewer, the less memory serves most tokens.", "layer", "share of the experts", part.layers.slice(0, MOST_ROWS).map((row) => ({ name: row.layer === null ? "no layer" : `layer ${row.layer}`, value: row.for_90_share, text: `${countText(row.for_90)} of ${countText(row.experts)}` }))),
      whenUsed(part.series),
    ];
  },

  lanes: (part) => {
    const rows = part.lanes.slice(0, MOST_ROWS);
    const parts = (row) => [{ name: "working", colour: "--c0", value: row.work_ns }, { name: "waiting for the slowest lane", colour: "--waiting", value: row.waiting_ns || 0 }, { name: "outside operators", colour: "--c9", value: Math.max(0, row.step_time_ns - row.work_ns - row.waiting_ns) }];
    const drawn = el("div", {}, rows.map((row) => stackedBar(`lane ${row.lane}`, parts(row), Math.max(row.step_time_ns, row.work_ns + row.waiting_ns, 1), timeText)));
    const columns = [{ key: "lane", title: "lane", left: true, value: (row) => row.lane }, column.time("work_ns", "working"), column.time("waiting_ns", "waiting"), column.time("step_time_ns", "of the steps' time"), column.share("slowest", "slowest in"), column.time("runnable_ns", "runnable"), column.count("involuntary_switches", "preemptions"), column.count("migrations", "migrations")];
    return [
      rows.length ? figure("Time of each lane", "Share of the time of its steps.", drawn, legend(parts(rows[0])), { rows, columns }) : null,
      ranking("Which lane is the slowest", "Of the operators that several lanes share.", "lane", "share of the operators", rows.length > 1 ? rows.map((row) => ({ name: `lane ${row.lane}`, value: row.slowest, text: shareText(row.slowest) })) : []),
      ranking("Processes that ran instead of runnable lanes", "Processes on the lanes' CPUs while lanes were runnable.", "process", "time", (part.interference || []).slice(0, MOST_BARS).map((row) => ({ name: `${row.process} ${row.pid}`, value: row.taken_ns, text: `${timeText(row.taken_ns)} · ${shareText(row.share)}` }))),
    ];
  },

  layers: (part) => [...new Set(part.layers.map((row) => `${row.phase} ${row.model}`))].map((of) => {
    const rows = part.layers.filter((row) => `${row.phase} ${row.model}` === of);
    const several = part.layers.some((row) => row.model > 0);
    const name = (n) => (Number.isInteger(n) && rows[n] ? rows[n].layer : "");
    const columns = [column.text("layer", "layer"), column.count("steps", "steps"), column.time("work_ns", "work in a step"), { key: "off", title: "off the median", value: (row) => row.off, text: (row) => signedShareText(row.off) }, { key: "off_half_width", title: "±", value: (row) => row.off_half_width, text: (row) => shareText(row.off_half_width) }, { key: "z", title: "z", value: (row) => row.z, text: (row) => rateText(row.z) }, column.text("odd", "judgement", (row) => (row.odd ? "odd" : null))];
    return plot({
      label: `Layers beside the median layer, ${rows[0].phase}${several ? ` of model ${rows[0].model}` : ""}`, caption: "Upright lines: the 95 % interval, where there are steps enough for one.", ring: "odd: more than chance, and more than the others",
      series: [{ name: "layer", points: rows.map((row, n) => [n, row.off]), errors: rows.map((row) => row.off_half_width), ringed: (n) => rows[n].odd, names: rows.map((row) => `layer ${row.layer}`) }],
      x: { label: "layer", text: name }, y: { label: "work, off the median layer", text: (n) => (n === 0 ? "0" : signedShareText(n)) }, numbers: { rows, columns },
    });
  }),

  models: (part) => {
    const rounds = part.rounds.map((row) => [`${row.draft} for ${row.verify}`, row]);
    const parts = (row) => [{ name: "drafting", colour: "--c1", value: row.draft_ns }, { name: "verifying", colour: "--c0", value: row.verify_ns }];
    const tokens = (row) => [{ name: "accepted", colour: "--c2", value: row.accepted }, { name: "rejected", colour: "--c9", value: row.accepted / row.accepted_share - row.accepted }];
    const known = rounds.filter(([, row]) => row.accepted !== null && row.accepted_share > 0);
    const columns = [{ key: "draft", title: "models", left: true, value: (row) => `${row.draft} for ${row.verify}` }, column.count("rounds", "rounds"), column.count("drafted", "drafted"), column.count("accepted", "accepted"), column.share("accepted_share", "share"), column.time("draft_ns", "drafting"), column.time("verify_ns", "verifying")];
    const numbers = (of) => ({ rows: of.map(([, row]) => row), columns });
    const drawn = (of, made, text) => el("div", {}, of.map(([name, row]) => stackedBar(name, made(row), made(row).reduce((sum, one) => sum + one.value, 0) || 1, text)));
    return [
      rounds.length ? figure("A round of speculative decoding", "Mean time of drafting and of verifying, by the models that take part.", drawn(rounds, parts, timeText), legend(parts(rounds[0][1])), numbers(rounds)) : null,
      known.length ? figure("Accepted draft tokens", "Tokens, of the rounds with a known result.", drawn(known, tokens, (n) => countText(Math.round(n))), legend(tokens(known[0][1])), numbers(known)) : null,
      part.models.length > 1 ? ranking("Time by model", "Of all its steps.", "model", "time", part.models.map((row) => ({ name: `model ${row.model}`, value: row.total_ns, text: `${timeText(row.total_ns)} · ${countText(row.steps)} steps` }))) : null,
      ranking("Sequences per step", "Steps by the number of sequences that they advance.", "sequences", "steps", part.sequences.map((row) => ({ name: countText(row.sequences), value: row.steps, text: `${countText(row.steps)} steps` }))),
      part.sequences.length > 1 ? ranking("Tokens per second by sequences per step", "Of steps with one token for each sequence.", "sequences", "tokens/s", part.sequences.filter((row) => Number.isFinite(row.one_each_tokens_per_s)).map((row) => ({ name: countText(row.sequences), value: row.one_each_tokens_per_s, text: `${rateText(row.one_each_tokens_per_s)} tokens/s` }))) : null,
    ];
  },
};

// The fitted line over the sizes that were seen; it is no straight one between logarithms.
function lineOf(sizes, row) {
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  if (!(high > low)) return [];
  return Array.from({ length: 33 }, (_, n) => low * (high / low) ** (n / 32)).map((size) => [size, row.overhead_ns + row.ns_per_unit * size]);
}

// One operator type on two backends: by size where there are several, with the size at which they are equal.
function sideBySide(pairs, crossings) {
  const named = (side) => `${side.backend}${side.on_device ? " (measured by the device)" : ""}`;
  const [{ op, dtype, measure, first, second }] = pairs;
  const label = `${[op, dtype].filter(Boolean).join(" ")}: ${named(first)} beside ${named(second)}`;
  const columns = [column.text("shape", "shape", (row) => shapeText(row.shape)), { key: "size", title: SIZES[measure], value: (row) => row.size, text: (row) => sizeText(measure)(row.size) }, { key: "first.mean_ns", title: `on ${named(first)}`, value: (row) => row.first.mean_ns, text: (row) => timeText(row.first.mean_ns) }, { key: "second.mean_ns", title: `on ${named(second)}`, value: (row) => row.second.mean_ns, text: (row) => timeText(row.second.mean_ns) }, { key: "ratio", title: "times", value: (row) => row.ratio, text: (row) => row.ratio.toFixed(2) }];
  const numbers = { rows: pairs, columns };
  if (new Set(pairs.map((pair) => pair.size)).size < 2) {
    const rows = pairs.slice(0, MOST_BARS).flatMap((pair) => [pair.first, pair.second].map((side) => ({ name: `${named(side)} ${shapeText(pair.shape) || ""}`, value: side.mean_ns, text: timeText(side.mean_ns) })));
    return ranking(label, "Mean time of the same operator and shape.", "backend and shape", "mean time", rows);
  }
  const times = pairs.flatMap((pair) => [pair.first.min_ns, pair.second.min_ns]).filter((ns) => ns > 0);
  const [low, high] = [Math.min(...times), Math.max(...times)];
  const marks = crossings.map((one) => ({ name: `equal at ${sizeText(measure)(one.size)}: ${one.below} is faster below, ${one.above} above`, kind: "dashes", colour: "--match", points: [[one.size, low], [one.size, high]] }));
  const side = (which, colour) => ({ name: named(pairs[0][which]), colour, kind: "line", points: pairs.map((pair) => [pair.size, pair[which].min_ns]), names: pairs.map((pair) => `${named(pair[which])}, ${shapeText(pair.shape) || ""}`) });
  return plot({ label, caption: "The same operator and shape; the shortest time, both scales logarithmic.", log: true, series: [side("first", "--c0"), side("second", "--c1"), ...marks], numbers, x: { label: SIZES[measure], text: sizeText(measure) }, y: { label: "shortest time", text: timeText } });
}

// Experts of layers over the tokens: as many layers as a picture can show.
function whenUsed(series) {
  let room = MOST_ROWS;
  const fits = (one) => one.stretches.length > 1 && (room -= one.uses.length) >= 0;
  const layers = series.filter(fits);
  if (layers.length === 0) return null;
  const rows = layers.flatMap((layer) => layer.uses.map((_, expert) => ({ layer, expert })));
  const columns = Array.from({ length: Math.max(...layers.map((layer) => layer.stretches.length)) }, (_, n) => n);
  const uses = ({ layer, expert }, n) => (layer.stretches[n] ? layer.stretches[n][expert] || 0 : null);
  const most = Math.max(1, ...rows.flatMap((row) => columns.map((n) => uses(row, n) || 0)));
  const label = "When experts were used";
  const name = ({ layer, expert }) => `layer ${plain(layer.layer)}, expert ${expert}`;
  const each = layers[0].stretch_tokens;
  const map = heatMap({
    label: `${label}: uses of each expert per ${countText(each)} tokens`, rows, columns, value: (row, n) => (uses(row, n) ? uses(row, n) / most : null),
    rowName: ({ layer, expert }) => `${layer.layer === null ? "" : layer.layer}·${expert}`, columnName: (n) => countText(n * each),
    tip: (row, n) => [name(row), `tokens ${countText(n * row.layer.stretch_tokens)}–${countText((n + 1) * row.layer.stretch_tokens - 1)}: ${countText(uses(row, n) || 0)} uses`],
  });
  const left = series.length - layers.length;
  const caption = `Rows: layer·expert; columns: tokens. The strongest colour was used ${countText(most)} times in ${countText(each)} tokens, an empty one never.${left > 0 ? ` The first ${countText(layers.length)} of ${countText(series.length)} layers.` : ""}`;
  return figure(label, caption, map, null, { rows, columns: [{ title: "layer and expert", left: true, value: name }, { key: "uses", title: "uses", value: ({ layer, expert }) => layer.uses[expert], text: ({ layer, expert }) => countText(layer.uses[expert]) }, { key: "mean_distance", title: "mean tokens between two", value: ({ layer, expert }) => layer.mean_distance[expert], text: ({ layer, expert }) => rateText(layer.mean_distance[expert]) }] });
}
