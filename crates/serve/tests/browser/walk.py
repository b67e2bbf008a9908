"""Goes through the server's pages as somebody would who reads them. Reads a line of JSON on stdin: {"chromium", "shots", "url",
"hostile": names of contestants}. Writes a line for each walk and screen: {"page", "setup", "faults"}. A line {"do": "…"} asks
whoever started this to do something to the store, and waits for the line that says it is done.
"""

import json
import sys
from urllib.parse import urlsplit

from playwright.sync_api import Error, expect, sync_playwright

from checks import LISTEN, SETUPS, axe, launch, look, shoot, watch


def ask(what):
    print(json.dumps({"do": what}), flush=True)
    sys.stdin.readline()


def path(page):
    return urlsplit(page.url).path


def arrives(page, where):
    page.wait_for_url(lambda url: urlsplit(url).path.startswith(where))


def unmeant(seen):
    """An answer that is an error is meant where a mistake is made, and streams end when one leaves."""
    return [fault for fault in seen if "Failed to load resource" not in fault and "/judgings/events" not in fault]


def from_the_board_to_a_line(page, order, shot):
    """The board, a challenge, a verdict, the failed findings, the line of source that one of them names, and back."""
    page.goto(order["url"])
    shot("home")
    page.get_by_role("link", name="on layer_norm_backward").click()
    arrives(page, "/challenges/layer_norm_backward")
    shot("challenge")
    table = page.locator("table.board")
    everybody = table.locator("tbody tr").count()
    page.get_by_label("Outcome").select_option("rejected")
    page.get_by_label("Name").fill("SCRIPT")
    page.get_by_role("button", name="Show").click()
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_label("Name")).to_have_value("SCRIPT")
    expect(page.get_by_label("Outcome")).to_have_value("rejected")
    assert everybody > 1
    table.locator("tbody th a").click()
    arrives(page, "/verdicts/")
    shot("verdict")
    verdict = path(page)
    findings = page.locator("#findings .finding")
    many = findings.count()
    page.locator("#findings select[name=outcome]").select_option("fail")
    page.locator("#findings select[name=dimension]").select_option("code")
    page.locator("#findings").get_by_role("button", name="Show").click()
    page.wait_for_url(lambda url: "outcome=fail" in url)
    expect(page.locator("#findings")).to_be_in_viewport()
    few = findings.count()
    assert 0 < few < many, f"{few} of {many} findings"
    assert all("fail" in text for text in page.locator("#findings .finding .word").all_inner_texts())
    shot("findings")
    page.locator("#findings").get_by_role("link", name="source").first.click()
    arrives(page, verdict + "/source/")
    line = page.locator("li.marked:target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("never used")
    shot("source")
    page.go_back()
    page.get_by_role("link", name="Show all").click()
    expect(findings).to_have_count(many)
    page.get_by_role("link", name="JSON").click()
    arrives(page, "/api" + verdict)
    page.go_back()
    page.get_by_role("link", name="Standings of").click()
    arrives(page, "/challenges/layer_norm_backward")


def two_are_compared(page, order, shot):
    """By the form of the page, and by that of a contestant, with a mistake between."""
    page.goto(order["url"])
    page.get_by_role("link", name="Compare").click()
    arrives(page, "/compare")
    page.get_by_label("Compare", exact=True).fill("plain-numpy")
    page.get_by_label("with", exact=True).fill("nobody of that name")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text("nobody of that name")
    shot("compare-mistake")
    yield from (*look(page), *axe(page))
    page.go_back()
    page.get_by_label("Compare", exact=True).fill("plain-numpy")
    page.get_by_label("with", exact=True).fill("gamma-outside-means")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("gamma-outside-means")
    expect(page.get_by_role("heading", name="gamma-outside-means").first).to_be_visible()
    shot("compare")
    page.get_by_role("link", name="Contestants").click()
    page.get_by_role("link", name="two-pass-c").click()
    arrives(page, "/contestants/two-pass-c")
    expect(page.locator("table.board")).to_have_count(2)
    shot("contestant")
    page.get_by_label("Compare with").fill("numpy-argpartition")
    page.get_by_role("button", name="Compare").click()
    arrives(page, "/compare")
    expect(page.get_by_role("heading", level=1)).to_contain_text("two-pass-c")


def markup_is_text(page, order, shot):
    """Contestants whose names and messages are markup are listed, opened and compared like others."""
    page.goto(order["url"] + "/contestants")
    shot("contestants")
    for name in order["hostile"]:
        page.goto(order["url"] + "/contestants")
        page.get_by_role("link", name=name).first.click()
        arrives(page, "/contestants/")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        page.locator("table.board tbody th a").click()
        arrives(page, "/verdicts/")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert page.title() == f"{name} on layer_norm_backward · Tribunal", page.title()
        page.get_by_role("link", name="All of").click()
        arrives(page, "/contestants/")
    page.get_by_label("Compare with").fill(order["hostile"][0])
    page.get_by_role("button", name="Compare").click()
    arrives(page, "/compare")
    expect(page.get_by_role("heading", level=1)).to_contain_text(order["hostile"][0])


def a_judging_is_followed(page, order, shot):
    """What is judged moves, and a verdict is told, without anybody asking for the page again."""
    board = page.context.new_page()
    seen = watch(board)
    board.goto(order["url"])
    before = board.locator("table.board tbody tr").count()
    page.goto(order["url"] + "/judgings")
    expect(page.locator("#judgings")).to_contain_text("Nothing is being judged")
    expect(page.locator("#judgings-state")).to_have_text("As it goes.")
    for one in (page, board):
        one.evaluate("() => { window.sameAsBefore = true; }")
    ask("announce")
    listed = page.locator("#judgings .judging li")
    expect(listed).to_have_count(2)
    expect(listed.first).to_contain_text("running-sum-c")
    expect(listed.last).to_contain_text(order["hostile"][0])
    ask("step")
    bar = listed.first.locator("progress")
    expect(bar).to_have_js_property("value", 3)
    expect(bar).to_have_js_property("max", 7)
    expect(listed.first).to_contain_text("3 of 7")
    tasks = page.locator("#tasks li")
    earlier = tasks.count()
    ask("ask for one")
    expect(tasks).to_have_count(earlier + 1)
    expect(tasks.first).to_contain_text("asked-for: failed")
    shot("judgings")
    yield from (*look(page), *axe(page))
    ask("rule")
    # What is ruled comes after what waits.
    expect(listed.last).to_contain_text("running-sum-c")
    expect(listed.last).to_contain_text("accepted")
    for one in (page, board):
        expect(one.locator("#news")).to_contain_text("running-sum-c")
        expect(one.locator("#news")).to_be_in_viewport()
        yield from (*look(one), *axe(one))
        assert one.evaluate("() => window.sameAsBefore"), "the page was loaded again"
    board.bring_to_front()
    board.get_by_role("link", name="as it is now").click()
    expect(board.locator("table.board tbody tr")).to_have_count(before + 1)
    page.bring_to_front()
    listed.last.get_by_role("link").click()
    arrives(page, "/verdicts/")
    expect(page.get_by_role("heading", level=1)).to_have_text("running-sum-c")
    page.go_back()
    ask("end")
    expect(page.locator("#judgings")).to_contain_text("Nothing is being judged")
    board.close()
    assert not unmeant(seen), seen


WALKS = [from_the_board_to_a_line, two_are_compared, markup_is_text, a_judging_is_followed]


def walk(browser, journey, setup, order):
    context = browser.new_context(**SETUPS[setup])
    context.set_default_timeout(20_000)
    context.add_init_script(LISTEN)
    page = context.new_page()
    seen = watch(page)
    shot = (lambda name: shoot(page, order["shots"], name, setup)) if order.get("shots") else (lambda name: None)
    faults = []
    try:
        # Most only go somewhere; what is there only for a moment is looked at on the way.
        faults.extend(journey(page, order, shot) or ())
    except (Error, AssertionError) as error:
        faults.append(f"walk: at {page.url}: {str(error)[:600]}")
    faults += page.evaluate("() => window.faultsSeen")
    context.close()
    faults += unmeant(seen)
    return {"page": journey.__doc__.split(".")[0].strip(), "setup": setup, "faults": faults}


def main():
    order = json.loads(sys.stdin.readline())
    expect.set_options(timeout=20_000)
    with sync_playwright() as play:
        browser = launch(play, order["chromium"])
        for setup in ("desktop", "phone"):
            for journey in WALKS:
                print(json.dumps(walk(browser, journey, setup, order)), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
