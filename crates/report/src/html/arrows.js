// Arrows of the timeline: from an operator to those of its step that use its result, and from those it reads.

// Arrows that are drawn, and names that are listed, of one operator.
const MOST_ARROWS = 64;
const MOST_NAMED = 6;

// Finds an operator's neighbours. An operator that several lanes share is shown at the first of them.
function neighbours(rows, sources) {
  let places = null, users = null;
  // Where each operator is: a row and a span of it.
  const place = (number) => {
    if (!places) {
      places = { row: new Int16Array(sources.count).fill(-1), n: new Uint32Array(sources.count) };
      rows.forEach((row, index) => {
        if (row.kind !== "operators") return;
        row.number.forEach((of, n) => { if (places.row[of] < 0) { places.row[of] = index; places.n[of] = n; } });
      });
    }
    return places.row[number] < 0 ? null : { row: rows[places.row[number]], n: places.n[number] };
  };
  // The other way round, for all of them at once.
  const usersOf = (number) => {
    if (!users) {
      const from = new Uint32Array(sources.count + 1);
      for (const source of sources.list) from[source + 1]++;
      for (let n = 0; n < sources.count; n++) from[n + 1] += from[n];
      const list = new Uint32Array(sources.list.length), next = from.slice();
      for (let n = 0; n < sources.count; n++) {
        for (let at = sources.from[n]; at < sources.from[n + 1]; at++) list[next[sources.list[at]]++] = n;
      }
      users = { from, list };
    }
    return users.list.subarray(users.from[number], users.from[number + 1]);
  };
  const shown = (numbers) => Array.from(numbers).map(place).filter(Boolean);
  return ({ row, n }) => {
    if (row.kind !== "operators") return { reads: [], usedBy: [] };
    const number = row.number[n];
    return { reads: shown(sources.list.slice(sources.from[number], sources.from[number + 1])), usedBy: shown(usersOf(number)) };
  };
}

// From the end of a span's work to the start of another's.
function drawArrow(context, from, to, view, colour) {
  const scale = view.width / (view.to - view.from);
  const x0 = (from.row.end[from.n] - from.row.waiting[from.n] - view.from) * scale, x1 = (to.row.start[to.n] - view.from) * scale;
  const y0 = from.row.y + from.row.height * 0.5, y1 = to.row.y + to.row.height * 0.5;
  if (Math.max(x0, x1) < -50 || Math.min(x0, x1) > view.width + 50) return;
  const far = Math.max(-1e4, Math.min(view.width + 1e4, x1)), near = Math.max(-1e4, Math.min(view.width + 1e4, x0));
  // Between spans of one lane the arrow goes below it.
  const dip = y0 === y1 ? Math.min(30, 10 + Math.abs(far - near) / 12) : 0;
  const reach = Math.max(8, Math.min(80, Math.abs(far - near) / 3));
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(near, y0);
  context.bezierCurveTo(near + reach, y0 + dip, far - reach, y1 + dip, far - 2, y1);
  context.stroke();
  const angle = Math.atan2(-dip, reach);
  context.beginPath();
  context.moveTo(far, y1);
  for (const side of [0.45, -0.45]) context.lineTo(far - 8 * Math.cos(angle + side), y1 - 8 * Math.sin(angle + side));
  context.fill();
}
