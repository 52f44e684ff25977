"""Opens a page in headless Chromium, does what a person does, and prints what came of it as JSON.

usage: look.py PAGE [--plain] [--search TEXT] [--flame ACTIONS] [--without-inflating] [--dark] [--width N] [--shot FILE]
               [--pdf FILE]
"""

import argparse
import json

from playwright.sync_api import sync_playwright

parser = argparse.ArgumentParser()
parser.add_argument("page")
parser.add_argument("--plain", action="store_true", help="a page without a program of its own")
parser.add_argument("--search", default="")
parser.add_argument("--flame", default="", help="keys for the flame graph; =TEXT types, @X,ROW points, !X,ROW clicks")
parser.add_argument("--without-inflating", action="store_true")
parser.add_argument("--dark", action="store_true")
parser.add_argument("--width", type=int, default=1280)
parser.add_argument("--shot")
parser.add_argument("--pdf")
arguments = parser.parse_args()

seen = {"errors": [], "requests": [], "dialogs": 0}


def view(page):
    return page.evaluate("""() => {
        const { from, to } = document.querySelector("canvas.timeline").dataset;
        return [Number(from), Number(to)];
    }""")


def settle(page, milliseconds=300):
    """Waits, and until what was asked for is drawn, however busy the machine is."""
    page.wait_for_timeout(milliseconds)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


def dialog(shown):
    seen["dialogs"] += 1
    shown.dismiss()


with sync_playwright() as playwright:
    # Root has no sandbox of Chromium's; the page is a local file.
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    scheme = "dark" if arguments.dark else "light"
    context = browser.new_context(viewport={"width": arguments.width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda line: seen["errors"].append(line.text) if line.type in ("error", "warning") else None)
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("dialog", dialog)
    if arguments.without_inflating:
        page.add_init_script("delete window.DecompressionStream")
    page.goto("file://" + arguments.page)
    if not arguments.plain:
        page.wait_for_selector("html[data-ready]", timeout=60000)
    settle(page)

    seen["title"] = page.title()
    seen["sections"] = page.evaluate("[...document.querySelectorAll('main > section')].map((section) => section.id)")
    if not arguments.plain:
        seen["report"] = page.evaluate("document.getElementById('report').textContent")
        seen["statistics"] = page.evaluate("document.getElementById('statistics-data').textContent")
    # What the tables show, by the keys of the report: [{"key": number or text}].
    seen["tables"] = page.evaluate("""async () => {
        document.querySelectorAll(".more").forEach((more) => more.click());
        const rows = (table) => [...table.querySelectorAll("tbody tr")].map((row) =>
            Object.fromEntries([...row.children].map((cell) => [cell.dataset.key, cell.dataset.value]).filter(([key]) => key)));
        const tables = [...document.querySelectorAll(".table[id]")];
        return Object.fromEntries(tables.map((table) => [table.id, rows(table)]));
    }""")
    # Every picture of the statistics: what it is called, whether anything is drawn, whether its numbers follow.
    seen["pictures"] = page.evaluate("""() => [...document.querySelectorAll("#statistics details[data-part] figure")].map((figure) => {
        const drawn = figure.querySelector("canvas");
        const image = figure.querySelector("[role=img]");
        const pixels = drawn && drawn.width > 0 ? drawn.getContext("2d").getImageData(0, 0, drawn.width, drawn.height).data : null;
        return {
            part: figure.closest("[data-part]").dataset.part,
            title: figure.querySelector("figcaption").textContent,
            label: image ? image.getAttribute("aria-label") : null,
            drawn: drawn ? pixels !== null && pixels.some((value) => value > 0) : image !== null && image.clientHeight > 0,
            has_table: figure.querySelector("figcaption ~ details table caption") !== null,
        };
    })""")
    seen["text"] = page.evaluate("(document.getElementById('main') || document.body).innerText")
    seen["globals"] = page.evaluate("Object.keys(window).filter((name) => /harm|pwned/i.test(name))")
    seen["overflow"] = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    seen["ground"] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    seen["nameless"] = page.evaluate("""[...document.querySelectorAll("button, input, canvas, [tabindex='0']")]
        .filter((part) => !part.closest("[hidden], [aria-hidden]") && !part.hidden)
        .filter((part) => !(part.getAttribute("aria-label") || part.textContent).trim())
        .map((part) => part.outerHTML.slice(0, 100))""")

    if "timeline" in seen["sections"]:
        timeline = page.locator("canvas.timeline")
        page.keyboard.press("Escape")
        timeline.focus()
        seen["start"] = view(page)
        page.keyboard.press("+")
        settle(page)
        seen["zoomed_by_key"] = view(page)
        page.keyboard.press("ArrowRight")
        settle(page)
        seen["moved_by_key"] = view(page)
        page.keyboard.press("Home")
        settle(page)
        seen["whole"] = view(page)
        timeline.scroll_into_view_if_needed()
        box = timeline.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40)
        page.mouse.wheel(0, -400)
        settle(page)
        seen["zoomed_by_wheel"] = view(page)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        settle(page)
        seen["selected"] = page.inner_text("#timeline-details")
        # By mouse: a drag, a click on what is under the pointer, a double click on it.
        at = [box["x"] + box["width"] * 0.6, box["y"] + 40]
        seen["before_drag"] = view(page)
        page.mouse.move(*at)
        page.mouse.down()
        page.mouse.move(at[0] - box["width"] * 0.1, at[1])
        page.mouse.move(at[0] - box["width"] * 0.25, at[1])
        page.mouse.up()
        settle(page)
        seen["dragged"] = view(page)
        timeline.press("Home")
        settle(page)
        seen["aimed_at"] = None
        for at in [(x, y) for y in range(24, int(box["height"]), 4) for x in (0.5, 0.6, 0.7)]:
            at = [box["x"] + box["width"] * at[0], box["y"] + at[1]]
            page.mouse.move(*at)
            if page.is_visible("#tooltip"):
                seen["aimed_at"] = page.inner_text("#tooltip b")
                page.mouse.click(*at)
                seen["clicked"] = page.inner_text("#timeline-details")
                settle(page)
                seen["before_double_click"] = view(page)
                page.mouse.dblclick(*at)
                settle(page)
                seen["double_clicked"] = view(page)
                break
        page.evaluate("document.activeElement.blur()")
        before = view(page)
        page.mouse.wheel(0, 200)
        settle(page)
        seen["wheel_scrolls_unless_focused"] = view(page) == before
        if arguments.search:
            page.fill("#timeline-search", arguments.search)
            seen["found"] = page.evaluate("Number(document.querySelector('[data-count]').dataset.count)")
            page.press("#timeline-search", "Enter")
            settle(page)
            seen["found_details"] = page.inner_text("#timeline-details")
            timeline.focus()
            page.keyboard.press(">")
            settle(page)
            seen["followed"] = page.inner_text("#timeline-details")
        # How long it takes to draw 40 views, each of another stretch; the pictures are drawn in frames.
        seen["frame_ms"] = page.evaluate("""async () => {
            const canvas = document.querySelector("canvas.timeline");
            canvas.focus();
            const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            press("Home");
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            await frame();
            const start = performance.now();
            for (let n = 0; n < 40; n++) { press(n % 2 ? "-" : "+"); await frame(); }
            return (performance.now() - start) / 40;
        }""")
    if "graph" in seen["sections"]:
        pressed = "[...document.querySelectorAll('#graph button[aria-pressed]')].findIndex((button) => button.ariaPressed === 'true')"
        # Beside the operators of layers that are shown together; then beside those of one layer.
        place = """() => {
            const frames = [...document.querySelectorAll('#graph rect.frame')]
                .filter((frame) => frame.dataset.layers && frame.checkVisibility());
            const frame = frames.find((frame) => frame.dataset.layers.includes(' ')) || frames[0];
            if (!frame) return null;
            // At once: where it is while it still moves is no place to click.
            frame.scrollIntoView({ block: 'start', behavior: 'instant' });
            window.scrollBy({ top: -120, behavior: 'instant' });
            const box = frame.getBoundingClientRect();
            return [box.left + 12, box.top + 12];
        }"""
        seen["drawings"] = []
        for _ in range(2):
            at = page.evaluate(place)
            if at:
                page.mouse.click(*at)
                settle(page)
            seen["drawings"].append(page.evaluate(pressed))
    if arguments.flame:
        flame = page.locator("canvas.flame")
        flame.scroll_into_view_if_needed()
        flame.focus()
        seen["flame"] = []
        for action in arguments.flame.split():
            kind, rest = action[0], action[1:]
            if kind == "=":
                page.keyboard.type(rest)
            elif kind in "@!":
                # A part of the width, and a row of frames.
                x, row = (float(part) for part in rest.split(","))
                box = flame.bounding_box()
                at = [box["x"] + box["width"] * x, box["y"] + 20 * row + 10]
                page.mouse.click(*at) if kind == "!" else page.mouse.move(*at)
            else:
                page.keyboard.press(action)
            settle(page, 80)
            seen["flame"].append(page.evaluate("""() => {
                const { zoomed, selected, rows } = document.querySelector("canvas.flame").dataset;
                const [details, found, tip] = ["flame-details", "flame-found", "tooltip"].map((id) => document.getElementById(id));
                return { zoomed: Number(zoomed), selected: Number(selected), rows: Number(rows), details: details.innerText,
                    found: found.textContent, tip: tip.hidden ? null : tip.innerText,
                    focus: document.activeElement.id || document.activeElement.className };
            }"""))
    if arguments.shot:
        page.evaluate("window.scrollTo(0, 0)")
        settle(page)
        page.screenshot(path=arguments.shot, full_page=True)
    if arguments.pdf:
        page.pdf(path=arguments.pdf, format="A4", print_background=True)
    browser.close()

print(json.dumps(seen))
