const phaseColour = (phase) => (phase === "prefill" ? "--c1" : "--c0");

// The chart of steps: how long each took. Every step of the trace is in it, whatever the timeline has.

function stepsChart(steps, phases, facts, goTo) {
  const left = 64, bottom = 26, top = 10, height = 200;
  const longest = steps.duration.reduce((a, b) => Math.max(a, b), 0);
  const shortest = steps.duration.reduce((a, b) => (b > 0 ? Math.min(a, b) : a), Infinity);
  const sorted = Float64Array.from(steps.duration).sort();
  let isLog = longest > 12 * (sorted[sorted.length >> 1] || 1);
  let cursor = -1;
  const low = () => (isLog ? Math.log10(Math.max(1, shortest)) - 0.1 : 0);
  const high = () => (isLog ? Math.log10(Math.max(10, longest)) : longest);
  const scaled = (duration) => (isLog ? Math.log10(Math.max(1, duration)) : duration);
  const colourOf = (n) => phaseColour(steps.phase(n));
  const slot = () => (chart.canvas.clientWidth - left - 4) / Math.max(1, steps.count);

  const chart = drawing({ class: "steps", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": "Duration of each step. Left and right arrows go from step to step, Enter shows one on the timeline." }, height, (context, width, _, colour) => {
    const floor = height - bottom, range = high() - low() || 1;
    const atY = (value) => floor - ((value - low()) / range) * (floor - top);
    const at = isLog ? logTicks(low(), high()) : ticks(0, longest, 4);
    axis(context, colour, { left, width, height, bottom, y: { text: (tick) => timeText(isLog ? 10 ** tick : tick) }, atY, ticks: at });
    const wide = (width - left - 4) / Math.max(1, steps.count);
    // Where several steps share a pixel the longest is drawn: outliers stay to be seen.
    for (let n = 0; n < steps.count;) {
      const x = left + n * wide;
      let next = n + 1, shown = n;
      while (next < steps.count && left + next * wide < Math.floor(x) + 1) {
        if (steps.duration[next] > steps.duration[shown]) shown = next;
        next++;
      }
      const y = atY(scaled(steps.duration[shown]));
      context.fillStyle = colour(colourOf(shown));
      context.globalAlpha = steps.recorded(shown) === "whole" ? 1 : 0.45;
      context.fillRect(x, y, Math.max(1, wide * (next - n) - (wide > 3 ? 1 : 0)), Math.max(1, floor - y));
      context.globalAlpha = 1;
      if (!steps.isComplete(shown)) {
        context.fillStyle = colour("--bad");
        context.fillRect(x, y - 5, Math.max(2, wide - 1), 3);
      }
      n = next;
    }
    if (cursor >= 0) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(left + cursor * wide - 1, top, Math.max(3, wide + 1), floor - top + 1);
    }
    context.fillStyle = colour("--muted");
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of ticks(0, steps.count - 1, Math.max(2, width / 110)).filter((tick) => Number.isInteger(tick) && tick < steps.count)) {
      context.fillText(countText(steps.number[tick]), left + (tick + 0.5) * wide, floor + 6);
    }
  });

  const describe = (n) => {
    const tokens = steps.tokens(n);
    return [`step ${countText(steps.number[n])} · ${steps.phase(n)}`, timeText(steps.duration[n]) + (tokens === null ? "" : ` · ${countText(tokens)} token${tokens === 1 ? "" : "s"}`),
      steps.recorded(n) === "whole" ? null : `recorded ${steps.recorded(n)}`, steps.isComplete(n) ? null : "records were lost: excluded from the statistics"].filter(Boolean);
  };
  const indexAt = (event) => {
    const index = Math.floor((within(event, chart.canvas)[0] - left) / slot());
    return index >= 0 && index < steps.count ? index : -1;
  };
  const move = (n) => {
    cursor = Math.max(0, Math.min(steps.count - 1, n));
    chart.redraw();
    announce(describe(cursor).join(", "));
    rendered.textContent = describe(cursor).join(" · ");
  };
  const rendered = el("span", { class: "muted" });
  chart.canvas.addEventListener("pointermove", (event) => {
    const n = indexAt(event);
    if (n < 0) return hideTip();
    showTip(event, [...describe(n), "click: show it on the timeline"]);
  });
  chart.canvas.addEventListener("pointerleave", hideTip);
  chart.canvas.addEventListener("click", (event) => { const n = indexAt(event); if (n >= 0) { move(n); goTo(steps.number[n]); } });
  chart.canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    if (event.key in moves) move(cursor + moves[event.key]);
    else if (event.key === "Enter" && cursor >= 0) goTo(steps.number[cursor]);
    else return;
    event.preventDefault();
  });
  const scale = el("button", { type: "button", class: "quiet", "aria-pressed": isLog, onclick: () => {
    isLog = !isLog;
    scale.setAttribute("aria-pressed", isLog);
    chart.redraw();
  } }, "Logarithmic");
  const parts = phases.map((name) => ({ name, colour: phaseColour(name) }));
  const few = facts.of > 1 ? `Each bar is the longest of ${countText(facts.of)} steps in a row.` : "";
  return el("figure", {}, el("div", { class: "tools" }, legend(parts), rendered, el("span", { class: "grow" }), scale), chart.canvas, note(few));
}

function logTicks(low, high) {
  const all = [];
  for (let power = Math.floor(low); power <= high; power++) for (const n of [1, 2, 5]) all.push(power + Math.log10(n));
  const fit = all.filter((tick) => tick >= low && tick <= high);
  return fit.length > 6 ? fit.filter((tick) => Number.isInteger(Math.round(tick * 1e6) / 1e6)) : fit;
}

// The longest steps, for those who read rather than look.
function stepsTable(steps) {
  const rows = Array.from({ length: steps.count }, (_, n) => n).sort((a, b) => steps.duration[b] - steps.duration[a]).slice(0, 200);
  return table("The longest steps", [
    { title: "step", key: "number", value: (n) => steps.number[n], text: (n) => countText(steps.number[n]) },
    { title: "phase", left: true, value: (n) => steps.phase(n) },
    { title: "duration", value: (n) => steps.duration[n], text: (n) => timeText(steps.duration[n]) },
    { title: "tokens", value: (n) => steps.tokens(n), text: (n) => countText(steps.tokens(n)) },
    { title: "recorded", left: true, value: (n) => (steps.recorded(n) === "whole" ? null : steps.recorded(n)) },
  ], rows, { limit: 10 });
}
