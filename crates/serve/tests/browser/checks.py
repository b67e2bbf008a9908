"""What must hold of every page, whatever it shows: on a wide screen and on a phone, light and dark, with and without scripts."""

import os
import pathlib
import re
from importlib.resources import files
from urllib.parse import urljoin, urlsplit

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")

# WCAG 2.0 to 2.2, A and AA (2.2 asks for targets of 24 pixels), and what its makers hold to be good practice.
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 3, "has_touch": True, "is_mobile": True}
SETUPS = {
    "desktop": DESKTOP,
    "desktop, dark": DESKTOP | {"color_scheme": "dark"},
    "phone": PHONE,
}

# Tabs pressed on a page: enough to go through every kind of thing that can be focused.
TABS_MAX = 60

# What a page's own policy forbids is told to whoever listens before anything of the page is there.
LISTEN = """
window.faultsSeen = [];
document.addEventListener("securitypolicyviolation", event =>
    window.faultsSeen.push(`policy: ${event.violatedDirective} forbids ${event.blockedURI || event.sample}`));
"""

# Measured in the page. Gives a list of what is wrong, each with the element it is wrong with.
LOOK = r"""
width => {
  const faults = [];
  const name = element => {
    const classes = typeof element.className === "string" ? element.className : element.className.baseVal;
    const own = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") +
        (classes ? "." + classes.trim().split(/\s+/).join(".") : "");
    const parent = element.parentElement ? element.parentElement.tagName.toLowerCase() + " > " : "";
    return `${parent}${own} “${(element.textContent || "").trim().slice(0, 40)}”`;
  };
  const visible = element => element.checkVisibility({ visibilityProperty: true });
  const scrolls = element => {
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (e !== document.body && ["auto", "scroll"].includes(style.overflowX)) return true;
      if (e.matches(".hidden, .skip")) return true;
    }
    return false;
  };

  const root = document.scrollingElement;
  if (root.scrollWidth > width) faults.push(`sideways: the page is ${root.scrollWidth} wide on a screen of ${width}`);
  for (const element of document.body.querySelectorAll("*")) {
    if (!visible(element)) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && (box.right > width + 1 || box.left < -1) && !scrolls(element))
      faults.push(`sideways: from ${Math.round(box.left)} to ${Math.round(box.right)}: ${name(element)}`);
    if (element.matches("p, li, h1, h2, h3, h4, h5, th, td, summary, .card, label, figcaption")
        && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 && !element.matches(".hidden")
        && getComputedStyle(element).overflowX === "visible"
        && [...element.children].every(child => !scrolls(child) && !child.querySelector("svg") && child.tagName !== "svg"))
      faults.push(`spilt: ${element.scrollWidth} wide in a box of ${element.clientWidth}: ${name(element)}`);
  }

  for (const element of document.querySelectorAll("*")) {
    for (const attribute of element.attributes) {
      if (/^on/i.test(attribute.name)) faults.push(`handler: ${attribute.name} on ${name(element)}`);
      if (/^\s*javascript:/i.test(attribute.value)) faults.push(`handler: ${attribute.name} is a script on ${name(element)}`);
    }
    if (element.matches("img, iframe, object, embed, base, video, audio"))
      faults.push(`foreign: ${element.tagName.toLowerCase()}`);
    if (element.matches("script") && (element.textContent.trim() || !element.src))
      faults.push(`foreign: a script in the page: ${element.textContent.slice(0, 60)}`);
  }

  let before = 0;
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")];
  for (const heading of headings) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) faults.push(`headings: h${level} after h${before}: ${name(heading)}`);
    if (!heading.textContent.trim()) faults.push(`headings: an empty ${name(heading)}`);
    before = level;
  }
  const first = headings.filter(heading => heading.tagName === "H1").length;
  if (first !== 1) faults.push(`headings: ${first} of the first level`);

  // Colour never says something alone.
  const words = ["accepted", "rejected", "disqualified", "infrastructure", "met", "missed", "critical", "major", "minor", "cheat",
      "pass", "fail", "integrity", "inconclusive"];
  for (const word of words)
    for (const element of document.querySelectorAll(`.${word}`))
      if (visible(element) && !element.textContent.toLowerCase().includes(word))
        faults.push(`colour alone: ${name(element)}`);
  for (const element of document.querySelectorAll(".h0, .h1, .h2, .h3, .h4, .h5, .marked"))
    if (visible(element) && !element.textContent.trim()) faults.push(`colour alone: ${name(element)}`);

  for (const control of document.querySelectorAll("button, input:not([type=hidden]), select"))
    if (visible(control) && control.getBoundingClientRect().height < 24)
      faults.push(`small: ${Math.round(control.getBoundingClientRect().height)} high: ${name(control)}`);

  // A picture's labels may not lie on each other.
  for (const picture of document.querySelectorAll("svg")) {
    if (!visible(picture)) continue;
    const texts = [...picture.querySelectorAll("text")].filter(text => text.textContent.trim())
        .map(text => [text, text.getBoundingClientRect()]);
    for (let i = 0; i < texts.length; i++)
      for (let j = i + 1; j < texts.length; j++) {
        const [a, b] = [texts[i][1], texts[j][1]];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // The box of a line of text is taller than its letters.
        if (across > 1 && down > 0.4 * Math.min(a.height, b.height))
          faults.push(`overlap: “${texts[i][0].textContent}” and “${texts[j][0].textContent}” in ${name(picture)}`);
      }
  }
  return faults;
}
"""

# What has the focus now, and whether one can see that it has.
FOCUSED = r"""
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth && box.width > 0 && box.height > 0;
  window.focusCount = window.focusCount || new Map();
  if (!window.focusCount.has(element)) window.focusCount.set(element, window.focusCount.size);
  return { number: window.focusCount.get(element), shown, inside,
           name: element.tagName.toLowerCase() + " “" + (element.textContent || element.name || "").trim().slice(0, 40) + "”" };
}
"""

FOCUSABLE = r"""
() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
    .filter(element => element.checkVisibility({ visibilityProperty: true }) && !element.disabled).length
"""

# Opens what is folded, and says whether anything was.
UNFOLD = r"""
() => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
  return folded.length > 0;
}
"""

# What is there to be read, and how much of it.
CONTENT = r"""
() => {
  const main = document.querySelector("main");
  return { main: main !== null, letters: main ? main.textContent.replace(/\s+/g, "").length : 0,
           rows: document.querySelectorAll("tr, li").length, headings: document.querySelectorAll("h1, h2, h3, h4, h5").length };
}
"""


def launch(play, chromium):
    # The sandbox is refused to the superuser; the rest keeps the browser from calling home.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
    return play.chromium.launch(executable_path=chromium, args=sandbox + quiet)


def watch(page):
    """Collects what a page complains of from now on."""
    seen = []
    page.on("console", lambda said: seen.append(f"console: {said.text}") if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.append(f"script: {error}"))

    def failed(request):
        # What a reader who goes on leaves behind, the browser gives up itself.
        if request.failure != "net::ERR_ABORTED":
            seen.append(f"request: {request.url}: {request.failure}")

    page.on("requestfailed", failed)

    def alert(dialog):
        seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", alert)
    return seen


def axe(page):
    """What axe-core holds against a page. It is put in from outside, where the page's policy has no say."""
    page.evaluate(AXE)
    found = page.evaluate(
        "tags => axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] })", AXE_TAGS
    )
    for violation in found["violations"]:
        nodes = violation["nodes"]
        where = "; ".join(f"{' '.join(map(str, node['target']))} {said(node)}" for node in nodes[:3])
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        yield f"axe: {violation['id']} ({violation['impact']}): {where}{more}"


def said(node):
    checks = node["any"] + node["all"] + node["none"]
    return f"({checks[0]['message']})" if checks else ""


def keyboard(page):
    """Everything can be reached by keyboard, and one sees where one is."""
    expected = page.evaluate(FOCUSABLE)
    reached = set()
    for _ in range(min(expected, TABS_MAX)):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None:
            break
        reached.add(focused["number"])
        if not focused["shown"]:
            yield f"focus: not to be seen on {focused['name']}"
        if not focused["inside"]:
            yield f"focus: out of sight on {focused['name']}"
    if len(reached) < min(expected, TABS_MAX):
        yield f"focus: {len(reached)} of {expected} reached by keyboard"


def title(page, expected):
    if expected is not None and page.title() != expected:
        yield f"title: {page.title()!r}, should be {expected!r}"


def look(page):
    """What can be seen of a page that is open, as it stands. Its text may be there before its style is."""
    page.wait_for_load_state("load")
    return page.evaluate(LOOK, page.viewport_size["width"])


def folded(faults):
    """Each once, and few of a kind."""
    kept, kinds = [], {}
    for fault in dict.fromkeys(faults):
        kind = fault.split(":")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= 6:
            kept.append(fault)
    return kept + [f"{kind}: and {count - 6} more" for kind, count in kinds.items() if count > 6]


class Links:
    """Which links lead somewhere. Each target is asked for once."""

    def __init__(self):
        self.answers = {}

    def faults(self, context, page):
        found = page.evaluate(
            "() => [...document.querySelectorAll('a[href], link[href], script[src], form[action]')]"
            ".map(e => e.getAttribute('href') || e.getAttribute('src') || e.getAttribute('action'))"
        )
        for link in dict.fromkeys(found):
            target = urljoin(page.url, link)
            here, there = urlsplit(page.url), urlsplit(target)
            if here._replace(fragment="") == there._replace(fragment=""):
                ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(e => e.id)")
                if there.fragment and there.fragment not in ids:
                    yield f"link: nothing here is called {link}"
            elif there.scheme == "file" or there.netloc != here.netloc:
                yield f"link: leads out of the page to {link}"
            else:
                status, ids = self.ask(context, target)
                if status != 200:
                    yield f"link: {link} answers {status}"
                elif there.fragment and there.fragment not in ids:
                    yield f"link: nothing there is called {link}"

    def ask(self, context, target):
        target = target.split("#")[0]
        if target not in self.answers:
            answer = context.request.get(target)
            ids = re.findall(r'\sid="([^"]*)"', answer.text()) if "html" in answer.headers.get("content-type", "") else []
            self.answers[target] = (answer.status, set(ids))
        return self.answers[target]


def check(browser, name, url, links, expected_title=None, shots=None):
    """One page in all setups: a result for each."""
    whole = None
    for setup, options in SETUPS.items():
        context = browser.new_context(**options)
        context.add_init_script(LISTEN)
        page = context.new_page()
        seen = watch(page)
        page.goto(url)
        faults = list(title(page, expected_title))
        if shots:
            shoot(page, shots, name, setup)
        faults += keyboard(page) if setup == "desktop" else []
        faults += look(page)
        if page.evaluate(UNFOLD):
            faults += look(page)
        faults += axe(page)
        if setup == "desktop":
            whole = page.evaluate(CONTENT)
            faults += links.faults(context, page)
        faults += title(page, expected_title)
        faults += page.evaluate("() => window.faultsSeen")
        yield {"page": name, "setup": setup, "faults": folded(faults + seen)}
        context.close()
    context = browser.new_context(**DESKTOP, java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    bare = page.evaluate(CONTENT)
    faults = [] if whole["main"] and whole["letters"] > 20 else ["content: no main content"]
    # What scripts put into a page may be missing without them, and no more.
    faults += [f"content: {what} {bare[what]} without scripts, {whole[what]} with them"
               for what in ("main", "letters", "rows", "headings") if bare[what] < 0.98 * whole[what]]
    yield {"page": name, "setup": "no scripts", "faults": faults}
    context.close()


def shoot(page, folder, name, setup):
    """A picture of what one sees first."""
    slug = re.sub(r"[^a-z0-9]+", "-", f"{name} {setup}".lower()).strip("-")
    page.screenshot(path=pathlib.Path(folder) / f"{slug}.png", animations="disabled")
