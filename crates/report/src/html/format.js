// Numbers as people read them: as the report's text has them.

const TIME_UNITS = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
const PREFIXES = [["n", 1e-9], ["µ", 1e-6], ["m", 1e-3], ["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15]];
const BYTE_UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];

// Digits after the point that make three significant ones.
function threeDigits(n) {
  const size = Math.abs(n);
  return n.toFixed(size >= 99.95 ? 0 : size < 9.995 ? 2 : 1);
}

function timeText(ns) {
  if (ns === null || ns === undefined) return "";
  if (ns < 1) return "0";
  const [unit, scale] = TIME_UNITS.find(([, scale]) => ns / scale < 999.5) || TIME_UNITS[3];
  return (unit === "ns" ? (ns / scale).toFixed(0) : threeDigits(ns / scale)) + " " + unit;
}

function shareText(share) {
  if (share === null || share === undefined) return "";
  return share > 0 && share < 0.0005 ? "<0.1 %" : (share * 100).toFixed(1) + " %";
}

const signedShareText = (share) => (share < 0 ? "−" : "+") + shareText(Math.abs(share));

function countText(n) {
  if (n === null || n === undefined) return "";
  return Number.isInteger(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, ",") : rateText(n);
}

function rateText(rate) {
  if (rate === null || rate === undefined) return "";
  return Math.abs(rate) >= 10000 ? countText(Math.round(rate)) : threeDigits(rate);
}

function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return bytes + " B";
  let n = bytes / 1024, unit = 0;
  while (n >= 999.5 && unit + 1 < BYTE_UNITS.length) { n /= 1024; unit++; }
  return threeDigits(n) + " " + BYTE_UNITS[unit];
}

function quantityText(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit === "%") return shareText(value);
  const usable = unit === "" ? PREFIXES.slice(3) : PREFIXES;
  let [prefix, scale] = usable.find(([, scale]) => Math.abs(value) / scale < 999.5) || usable[usable.length - 1];
  if (value === 0) [prefix, scale] = ["", 1];
  const n = value / scale;
  const number = Number.isInteger(n) && Math.abs(n) < 1000 ? String(n) : threeDigits(n);
  const symbol = ["s", "B", "FLOP"].includes(unit.split(/[/*·]/)[0]);
  if (prefix && unit.startsWith("1/")) return `${number} ${prefix}${unit.slice(1)}`;
  return (symbol ? `${number} ${prefix}${unit}` : `${number} ${prefix} ${unit}`.replace(/ +/g, " ")).trim();
}

// A figure whose key says its unit: `total_ns`, `share`, `read_bytes`.
function figureText(key, value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (/(^|_)ns($|_)/.test(key)) return (value < 0 ? "−" : "") + timeText(Math.abs(value));
  if (/(^|_)(share|imbalance_share|busy)$/.test(key)) return shareText(value);
  if (/(^|_)bytes$/.test(key)) return bytesText(value);
  if (/_per_s$/.test(key) && value >= 1e4) return quantityText(value, /bytes/.test(key) ? "B/s" : /flop/.test(key) ? "FLOP/s" : "1/s");
  return Number.isInteger(value) ? countText(value) : Math.abs(value) < 0.01 && value !== 0 ? value.toExponential(2) : rateText(value);
}

// `mean_ns` as words: `mean`.
function wordsOf(key) {
  return key.replace(/_ns$/, "").replace(/_/g, " ");
}
