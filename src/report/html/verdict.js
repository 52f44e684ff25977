// The verdict: why it takes its time, and what would help.

const BOUNDS = [
  { key: "memory", name: "memory", colour: "--c0" }, { key: "compute", name: "compute", colour: "--c2" }, { key: "disk", name: "disk", colour: "--c3" },
  { key: "synchronisation", name: "waiting for each other", colour: "--waiting" }, { key: "starved", name: "able to run, and not run", colour: "--c1" },
  { key: "overhead", name: "too small, and around operators", colour: "--c4" }, { key: "unknown", name: "unknown", colour: "--c9" },
];

function verdictSection(report) {
  const verdict = report.verdict;
  if (isNothing(verdict)) return null;
  const { sentences, advice, cannot_say: cannotSay, phases, operators, layers } = verdict;
  if (![sentences, advice, cannotSay, phases, operators, layers].every(Array.isArray)) {
    return section("verdict", "Verdict", el("div", { class: "verdict" }, anything("verdict", verdict, 0)));
  }
  const words = (row) => row.bound + (row.also ? `, or ${row.also}` : "");
  const judged = [{ key: "bound", title: "bound", left: true, value: words }, column.text("confidence", "confidence")];
  const most = (row) => BOUNDS.reduce((best, bound) => (row.parts[bound.key] > row.parts[best.key] ? bound : best), BOUNDS[0]);
  const dominant = { title: "most of it", value: (row) => row.parts[most(row).key], text: (row) => `${most(row).name} ${shareText(row.parts[most(row).key])}`, left: true };
  const bars = phases.length ? [el("h3", {}, "What the lanes' time was spent on"), phases.map((row) => stackedBar(row.phase, BOUNDS.map((bound) => ({ ...bound, value: row.parts[bound.key] || 0 })), 1, shareText)),
    legend(BOUNDS.filter((bound) => phases.some((row) => row.parts[bound.key] > 0.0005)))] : null;
  const advised = advice.length ? [el("h3", {}, "What would help"), el("ul", { class: "advice" }, advice.map((one) => el("li", {}, el("strong", {}, prose(one.what)),
    el("span", { class: "gain" }, `up to ${shareText(one.gain_at_most)} of ${one.phase}`), el("span", { class: "muted small" }, prose(one.how)))))] : null;
  return section("verdict", "Verdict",
    el("div", { class: "verdict" }, sentences.map((text) => note(text, "said"))), advised, bars, cannotSay.map((text) => note(text)),
    operators.length ? el("details", {}, el("summary", {}, "Each operator"), table("Verdicts on operators", [column.share("share", "share of the phase"), column.text("name", "name"), column.text("op", "type"), column.text("phase", "phase"), ...judged, dominant, column.text("why", "why")], operators, { id: "table-verdict-operators", filter: "Filter operators" })) : null,
    layers.length ? el("details", {}, el("summary", {}, "Each layer"), table("Verdicts on layers", [column.share("share", "share of the phase"), { key: "layer", title: "layer", left: true, value: (row) => (row.layer === null ? "none" : row.layer) }, column.text("phase", "phase"), ...judged, dominant], layers, {})) : null);
}
