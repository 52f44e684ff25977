// Elements of the page. Texts become text nodes, never HTML: they may come from any program.

// el("p", { class: "note", "aria-label": "…" }, "text", child)
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "width%") element.style.width = `${value}%`;
    else if (name === "colour") element.style.setProperty("--colour", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Texts without characters that change how the rest of a line is shown.
function plain(text) {
  return String(text === null || text === undefined ? "" : text).replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

// A sentence, with what stands between backticks as the names that they are.
function prose(text) {
  return plain(text).split(/`([^`]*)`/).map((part, n) => (n % 2 ? el("code", {}, part) : part));
}

function note(text, kind = "note") {
  return text ? el("p", { class: kind }, prose(text)) : null;
}

let announceTimer = 0;
function announce(text) {
  clearTimeout(announceTimer);
  announceTimer = setTimeout(() => { document.getElementById("announce").textContent = text; }, 150);
}

// A box beside the pointer; everything in it also stands elsewhere.
function showTip(event, lines) {
  const tip = document.getElementById("tooltip");
  tip.replaceChildren(...lines.map((line, index) => el(index === 0 ? "b" : "span", {}, line)));
  tip.hidden = false;
  const { clientWidth, clientHeight } = document.documentElement;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, clientWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > clientHeight ? event.clientY - box.height - 12 : event.clientY + 18;
  tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
}

function hideTip() {
  document.getElementById("tooltip").hidden = true;
}

// Canvases draw anew when they, the theme or the medium change.
const canvases = new Set();
function redrawAll() {
  canvases.forEach((redraw) => redraw());
}

// A canvas of so many CSS pixels' height; `draw(context, width, height, colour)` draws it.
function drawing(properties, height, draw) {
  const canvas = el("canvas", properties);
  let wanted = height;
  let frame = 0;
  const now = () => {
    frame = 0;
    const width = canvas.clientWidth;
    if (width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [pixels, lines] = [Math.round(width * ratio), Math.round(wanted * ratio)];
    if (canvas.width !== pixels || canvas.height !== lines) [canvas.width, canvas.height] = [pixels, lines];
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, wanted);
    const style = getComputedStyle(document.documentElement);
    draw(context, width, wanted, (name) => style.getPropertyValue(name).trim() || "#888");
  };
  const redraw = () => { if (!frame) frame = requestAnimationFrame(now); };
  const resize = (newHeight) => {
    wanted = newHeight;
    canvas.style.height = `${newHeight}px`;
    redraw();
  };
  resize(height);
  canvases.add(now);
  new ResizeObserver(redraw).observe(canvas);
  return { canvas, redraw, resize };
}

// Where a pointer is within an element.
function within(event, element) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
