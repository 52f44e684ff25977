// What the page holds: JSON, and columns of numbers (columns.rs writes them).

function json(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

// Numbers, one after the other.
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  uint() {
    let n = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new Error("the page's data ends too early");
      n += (byte & 127) * scale;
      if (byte < 128) return n;
    }
  }

  difference() {
    const n = this.uint();
    return n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  }

  uints(column) {
    for (let n = 0; n < column.length; n++) column[n] = this.uint();
    return column;
  }
}

async function columns(id) {
  if (typeof DecompressionStream !== "function") throw new Error("this browser has no DecompressionStream (Chrome 80, Firefox 113, Safari 16.4)");
  const text = atob(document.getElementById(id).textContent.trim());
  const deflated = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n++) deflated[n] = text.charCodeAt(n);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Numbers(new Uint8Array(await new Response(stream).arrayBuffer()));
}

const PHASES = ["prefill", "decode", "run", "outside"];
const RECORDED = ["whole", "partly", "bare"];

// The steps of the whole trace: times in ns from the first one's start.
async function readSteps(facts) {
  const numbers = await columns("step-columns");
  const count = facts.shown;
  const number = new Float64Array(count), start = new Float64Array(count);
  for (let n = 0, last = 0; n < count; n++) number[n] = last += numbers.uint();
  for (let n = 0, last = 0; n < count; n++) start[n] = last += numbers.difference();
  const duration = numbers.uints(new Float64Array(count));
  const bits = numbers.uints(new Uint8Array(count));
  const tokens = numbers.uints(new Float64Array(count));
  const phase = (n) => PHASES[bits[n] & 3];
  const isComplete = (n) => (bits[n] & 4) !== 0;
  const recorded = (n) => RECORDED[bits[n] >> 3];
  // The index of a step of that number; -1 where the page has none.
  const find = (wanted) => {
    const at = lowerBound(number, wanted, 0, count);
    return at < count && number[at] === wanted ? at : -1;
  };
  return { count, number, start, duration, tokens: (n) => (tokens[n] ? tokens[n] - 1 : null), phase, isComplete, recorded, find };
}

// The timeline's tracks: times in ns from the first span's start.
async function readTracks(facts) {
  const numbers = await columns("span-columns");
  let steps = 0;
  const tracks = facts.tracks.map((track) => {
    const gaps = new Float64Array(track.spans);
    for (let n = 0; n < track.spans; n++) gaps[n] = numbers.difference();
    const start = gaps, end = numbers.uints(new Float64Array(track.spans));
    // A start counts from the end before, and the second column has durations.
    for (let n = 0, before = 0; n < track.spans; n++) {
      start[n] += before;
      before = end[n] += start[n];
    }
    const what = numbers.uints(new Uint32Array(track.spans));
    const more = { steps: track.kind === "steps" ? facts.numbers[steps++] : null, waiting: null, number: null, counts: [], extra: null };
    // One more than the device's ns or a copy's bytes; 0: not recorded.
    if (["encoding", "calls", "queue"].includes(track.kind)) more.extra = numbers.uints(new Float64Array(track.spans));
    if (track.kind === "operators") {
      more.waiting = numbers.uints(new Float64Array(track.spans));
      more.number = new Uint32Array(track.spans);
      for (let n = 0, last = 0; n < track.spans; n++) more.number[n] = last += numbers.difference();
      // One more than was counted; 0 is what is not known.
      more.counts = facts.counters.map(() => numbers.uints(new Float64Array(track.spans)));
    }
    return { ...track, start, end, what, ...more };
  });
  return { tracks, sources: readSources(numbers, facts.operators) };
}

// Of each operator, by its number, those whose results it reads: `list` from `from[number]` to `from[number + 1]`.
function readSources(numbers, count) {
  const from = new Uint32Array(count + 1), list = [];
  for (let n = 0; n < count; n++) {
    for (let left = numbers.uint(); left > 0; left--) list.push(n - numbers.uint());
    from[n + 1] = list.length;
  }
  return { count, from, list };
}

// The first index in [from, to) whose value is not below `wanted`.
function lowerBound(values, wanted, from, to) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] < wanted) from = middle + 1;
    else to = middle;
  }
  return from;
}
