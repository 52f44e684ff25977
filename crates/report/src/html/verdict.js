// The verdict: why it takes its time, and what would help.

const BOUNDS = [
  { key: "memory", name: "memory", colour: "--c0" }, { key: "compute", name: "compute", colour: "--c2" }, { key: "disk", name: "disk", colour: "--c3" },
  { key: "synchronisation", name: "waiting for each other", colour: "--waiting" }, { key: "starved", name: "run-queue delay", colour: "--c1" },
  { key: "throttled", name: "throttled by the CPU quota", colour: "--c6" }, { key: "stopped", name: "stopped", colour: "--c5" },
  { key: "attaching", name: "stopped by profinfer", colour: "--muted" },
  { key: "reclaim", name: "evicting and reading again for the memory limit", colour: "--c7" },
  { key: "kernel", name: "the kernel within operators", colour: "--c8" },
  { key: "overhead", name: "overhead: small operators, around operators", colour: "--c4" }, { key: "unknown", name: "unknown", colour: "--c9" },
];

// Of steps that give work to a device, what the host does.
const DEVICE_PARTS = [
  { key: "device", name: "waiting for the device", colour: "--waiting" }, { key: "encoding", name: "encoding", colour: "--c0" }, { key: "submitting", name: "submitting", colour: "--c2" },
  { key: "copying", name: "copying", colour: "--c7" }, { key: "operators", name: "operators on the CPU", colour: "--c4" }, { key: "host", name: "other work of the host, no work pending", colour: "--c1" },
  { key: "unknown", name: "no recorded call, work pending", colour: "--c9" },
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
  const dominant = { title: "largest part", value: (row) => row.parts[most(row).key], text: (row) => `${most(row).name} ${shareText(row.parts[most(row).key])}`, left: true };
  const bars = (title, rows, parts) => rows.length ? [el("h3", {}, title), rows.map((row) => stackedBar(row.phase, parts.map((part) => ({ ...part, value: row.parts[part.key] || 0 })), 1, shareText)),
    legend(parts.filter((part) => rows.some((row) => row.parts[part.key] > 0.0005)))] : null;
  const devices = Array.isArray(verdict.devices) ? verdict.devices : [];
  const advised = advice.length ? [el("h3", {}, "Advice"), el("ul", { class: "advice" }, advice.map((one) => el("li", {}, el("strong", {}, prose(one.what)),
    el("span", { class: "gain" }, one.gain_at_most === null ? `${shareText(one.gain_as_recorded)} of ${one.steps}, more if its data then stays in caches` : `up to ${shareText(one.gain_at_most)} of ${one.steps}`), el("span", { class: "muted small" }, prose(one.how)))))] : null;
  return section("verdict", "Verdict",
    el("div", { class: "verdict" }, sentences.map((text) => note(text, "sentence"))), advised,
    bars("Steps on a device: what the host does", devices, DEVICE_PARTS), bars("Thread time by cause", phases, BOUNDS), cannotSay.map((text) => note(text)),
    operators.length ? el("details", {}, el("summary", {}, "Each operator"), table("Verdicts on operators", [column.share("share", "share of the phase"), column.text("name", "name"), column.text("op", "type"), column.text("phase", "phase"), ...judged, dominant, column.text("why", "why")], operators, { id: "table-verdict-operators", filter: "Filter operators" })) : null,
    layers.length ? el("details", {}, el("summary", {}, "Each layer"), table("Verdicts on layers", [column.share("share", "share of the phase"), { key: "layer", title: "layer", left: true, value: (row) => (row.layer === null ? "none" : row.layer) }, column.text("phase", "phase"), ...judged, dominant], layers, {})) : null);
}
