// Puts the page together.

const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

// A choice survives where the browser lets a file keep something.
function remember(theme) {
  try { localStorage.setItem("profinfer-theme", theme); } catch { /* then it does not */ }
}
function remembered() {
  try { return localStorage.getItem("profinfer-theme"); } catch { return null; }
}

function themes() {
  const button = document.getElementById("theme");
  const names = Object.keys(THEMES);
  let theme = names.includes(remembered()) ? remembered() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = THEMES[theme];
    redrawAll();
  };
  button.addEventListener("click", () => { theme = names[(names.indexOf(theme) + 1) % names.length]; remember(theme); apply(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  // Paper is white: canvases are drawn anew for it, and all that is folded is opened.
  const opened = [];
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    document.querySelectorAll("main details:not([open]):not(.keys)").forEach((details) => { details.open = true; opened.push(details); });
    redrawAll();
  });
  addEventListener("afterprint", () => { opened.splice(0).forEach((details) => { details.open = false; }); apply(); });
  apply();
}

function contents(sections) {
  const links = sections.map((section) => el("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
  document.getElementById("contents").replaceChildren(...links);
  const seen = new Set();
  const mark = () => {
    const current = sections.find((section) => seen.has(section.id));
    links.forEach((link) => {
      if (current && link.hash === `#${current.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  const observer = new IntersectionObserver((entries) => {
    entries.forEach((entry) => (entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id)));
    mark();
  }, { rootMargin: "-64px 0px -40% 0px" });
  sections.forEach((section) => observer.observe(section));
}

// A part that cannot be shown does not take the others with it.
function attempt(make) {
  try {
    return make();
  } catch (error) {
    console.error(error);
    return el("section", { id: `problem-${problems++}` }, el("h2", {}, "A part is missing"), note(`It could not be shown: ${error.message}`, "note warn"));
  }
}
let problems = 0;

async function start() {
  themes();
  const [report, page] = [json("report"), json("page")];
  // Read once, by the first part that wants it: a fault of theirs is no other part's.
  let read = null;
  const statistics = () => (read ??= json("statistics-data"));
  const { trace } = report;
  const program = (trace.command[0] || "").split("/").pop();
  document.getElementById("run").textContent = [trace.engine, program, trace.cpu_model, dateText(trace.wall_clock_ns)].filter(Boolean).map(plain).join(" · ");
  const main = document.getElementById("main");
  // What cannot be read is missing in its own part only.
  const [steps, tracks] = (await Promise.allSettled([readSteps(page.steps), readTracks(page.timeline)])).map((read) => () => {
    if (read.status === "rejected") throw read.reason;
    return read.value;
  });
  let goTo = () => false;
  const steps_ = attempt(() => stepsSection(report, steps(), page.steps, (number) => {
    if (goTo(number)) document.getElementById("timeline").scrollIntoView({ block: "start" });
  }));
  const shown = [
    attempt(() => verdictSection(report)),
    attempt(() => overview(report)),
    steps_,
    attempt(() => {
      const made = timeline(page.timeline, tracks(), steps());
      goTo = made.goTo;
      return section("timeline", "Timeline", made.section);
    }),
    attempt(() => requestsSection(report)),
    attempt(() => flameSection(page)),
    attempt(graphSection),
    attempt(() => operatorsSection(report)),
    attempt(() => layersSection(report, statistics())),
    attempt(() => expertsSection(report)),
    attempt(() => countersSection(report)),
    attempt(() => lanesSection(report)),
    attempt(() => faultsSection(report)),
    attempt(() => statisticsSection(statistics())),
    attempt(() => completenessSection(report)),
    attempt(() => environmentSection(report, page)),
  ].filter(Boolean);
  main.replaceChildren(...shown);
  contents(shown);
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  console.error(error);
  document.getElementById("main").replaceChildren(note(`The page could not be shown: ${error.message}`, "note warn"));
});
