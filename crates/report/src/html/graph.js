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
  // A click beside the operators unfolds the layers that are together there, or folds them again; the buttons do, too.
  const layersOf = (rect) => (rect.dataset.layers || "").split(" ").filter(Boolean);
  const most = (drawing) => Math.max(0, ...[...drawing.content.querySelectorAll("rect.frame")].map((rect) => layersOf(rect).length));
  const folded = drawings.findIndex((drawing) => most(drawing) > 1);
  const unfolded = drawings.findIndex((drawing) => most(drawing) === 1);
  const frameAt = (event) => [...frame.querySelectorAll("rect.frame")].find((rect) => {
    const box = rect.getBoundingClientRect();
    return layersOf(rect).length > 0 && event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
  });
  const leadsTo = (event) => {
    if (folded < 0 || unfolded < 0 || event.target.closest(".card")) return null;
    const rect = frameAt(event);
    return rect ? { layer: layersOf(rect)[0], to: layersOf(rect).length > 1 ? unfolded : folded } : null;
  };
  frame.addEventListener("click", (event) => {
    const led = leadsTo(event);
    if (!led) return;
    hideTip();
    buttons[led.to].click();
    const rect = [...frame.querySelectorAll("rect.frame")].find((rect) => layersOf(rect).includes(led.layer));
    if (!rect) return;
    rect.classList.add("chosen");
    const [box, around] = [rect.getBoundingClientRect(), frame.getBoundingClientRect()];
    frame.scrollBy({ left: box.left - around.left - 24, top: box.top - around.top - 24 });
    announce(led.to === unfolded ? `Layer ${plain(led.layer)} for itself` : "Layers that are alike together");
  });
  frame.addEventListener("pointermove", (event) => {
    const led = leadsTo(event);
    frame.classList.toggle("leads", led !== null);
    if (led) showTip(event, [led.to === unfolded ? "Click: each layer for itself" : "Click: layers that are alike together"]);
    else hideTip();
  });
  frame.addEventListener("pointerleave", hideTip);
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
