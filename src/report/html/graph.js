// The operator graph: pictures that the page holds as templates, one of which is shown.

function graphSection() {
  const drawings = [...document.querySelectorAll("template.drawing")];
  if (drawings.length === 0) return null;
  const frame = el("div", { class: "scroll graph", tabindex: "0", role: "region", "aria-label": "Operator graph" });
  const choose = (index) => frame.replaceChildren(drawings[index].content.cloneNode(true));
  let scale = 1, isFitted = false;
  const zoom = (factor) => {
    scale = Math.max(0.2, Math.min(4, scale * factor));
    const svg = frame.querySelector("svg");
    if (!svg) return;
    svg.style.width = `${svg.viewBox.baseVal.width * scale}px`;
    svg.style.height = "auto";
  };
  const buttons = drawings.map((drawing, index) => el("button", { type: "button", "aria-pressed": index === 0, onclick: () => {
    choose(index);
    zoom(1);
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", at === index));
  } }, plain(drawing.dataset.name || `Picture ${index + 1}`)));
  choose(0);
  // As large as the frame, where it is not too small to read then.
  new ResizeObserver(() => {
    const svg = frame.querySelector("svg");
    if (!svg || frame.clientWidth === 0 || isFitted) return;
    isFitted = true;
    zoom(Math.min(1, Math.max(0.5, frame.clientWidth / svg.viewBox.baseVal.width)));
  }).observe(frame);
  const zooms = [["−", "Smaller", 0.8], ["+", "Larger", 1.25]].map(([text, label, factor]) => el("button", { type: "button", "aria-label": label, title: label, onclick: () => zoom(factor) }, text));
  return section("graph", "Operator graph", el("div", { class: "tools" }, drawings.length > 1 ? buttons : null, el("span", { class: "grow" }), zooms), frame);
}
