// Tables that sort, and are cut where they are long.

const FEW_ROWS = 15;

// Columns: { title, value: row => number or text, text: row => shown, left, bar: row => 0 to 1, hint }.
// A column that no row has a value of is left out.
function table(caption, columns, rows, options = {}) {
  const shown = columns.filter((column) => rows.some((row) => !isNothing(column.value(row))));
  if (rows.length === 0 || shown.length === 0) return null;
  // What a row is about is its first text.
  const heading = shown.findIndex((column) => column.left);
  let order = rows.slice(), sorted = null, isDown = true, limit = options.limit || FEW_ROWS, wanted = "";
  // Bars are as long as their share of the column's largest.
  const longest = new Map(shown.filter((column) => column.bar).map((column) => [column, rows.reduce((most, row) => Math.max(most, column.bar(row) || 0), 0) || 1]));
  const body = el("tbody");
  const more = el("button", { type: "button", class: "quiet more", onclick: () => { limit = Infinity; fill(); } });
  const counted = el("span", { class: "muted", role: "status" });
  const heads = shown.map((column) => {
    const button = el("button", { type: "button", title: column.hint || null, onclick: () => sortBy(column) }, column.title || "\u00a0");
    return el("th", { scope: "col", class: column.left ? "left" : null }, button);
  });

  const textOf = (row) => shown.filter((column) => column.left).map((column) => column.value(row)).join(" ").toLowerCase();
  function fill() {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? order.filter((row) => words.every((word) => textOf(row).includes(word))) : order;
    body.replaceChildren(...found.slice(0, limit).map((row) => el("tr", { class: options.rowClass ? options.rowClass(row) : null }, shown.map((column, index) => cell(column, row, index)))));
    more.hidden = found.length <= limit;
    more.textContent = `Show all ${countText(found.length)}`;
    counted.textContent = wanted ? `${countText(found.length)} of ${countText(rows.length)}` : "";
  }
  function cell(column, row, index) {
    const value = column.value(row);
    const text = column.text ? column.text(row) : value;
    const kind = index === heading ? "th" : "td";
    const share = column.bar ? column.bar(row) : null;
    const bar = isNothing(share) ? null : el("span", { class: "bar", "aria-hidden": "true" }, el("i", { "width%": Math.max(0, Math.min(100, (share / longest.get(column)) * 100)) }));
    const rendered = plain(isNothing(value) ? "" : text);
    return el(kind, { scope: kind === "th" ? "row" : null, class: column.left ? "left" : null, "data-key": column.key, "data-value": isNothing(value) ? null : value }, bar, bar ? el("span", { class: "beside" }, rendered) : rendered);
  }
  function sortBy(column) {
    isDown = sorted === column ? !isDown : !column.left;
    sorted = column;
    const sign = isDown ? -1 : 1;
    order = rows.slice().sort((a, b) => sign * compare(column.value(a), column.value(b)));
    shown.forEach((other, index) => {
      if (other === column) heads[index].setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else heads[index].removeAttribute("aria-sort");
    });
    fill();
  }
  fill();
  const filter = options.filter && el("p", { class: "filter" },
    el("input", { type: "search", placeholder: options.filter, "aria-label": options.filter, oninput: (event) => { wanted = event.target.value; fill(); } }), counted);
  return el("div", { class: "table", id: options.id }, filter,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("caption", { class: options.showCaption ? null : "unseen" }, plain(caption)), el("thead", {}, el("tr", {}, heads)), body)),
    more);
}

function isNothing(value) {
  return value === null || value === undefined || value === "";
}

// Numbers by size, texts as people order them (blk.2 before blk.10), nothing last.
const collator = new Intl.Collator("en", { numeric: true });
function compare(a, b) {
  if (isNothing(a) || isNothing(b)) return Number(isNothing(b)) - Number(isNothing(a));
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}

// Columns as most tables have them. `key` is the key of the report's JSON.
const column = {
  text: (key, title, value) => ({ key, title, left: true, value: value || ((row) => row[key]) }),
  count: (key, title, hint) => ({ key, title, hint, value: (row) => row[key], text: (row) => countText(row[key]) }),
  time: (key, title, hint) => ({ key, title, hint, value: (row) => row[key], text: (row) => timeText(row[key]) }),
  number: (key, title) => ({ key, title, value: (row) => row[key], text: (row) => String(row[key]) }),
  bytes: (key, title) => ({ key, title, value: (row) => row[key], text: (row) => bytesText(row[key]) }),
  share: (key, title, hint) => ({ key, title, hint, value: (row) => row[key], text: (row) => shareText(row[key]), bar: (row) => row[key] }),
};

// Names and values, where there is a value.
function factList(rows) {
  const known = rows.filter(([, value]) => !isNothing(value));
  return known.length ? el("dl", { class: "facts" }, known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value instanceof Node ? value : plain(value))))) : null;
}
