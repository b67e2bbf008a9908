"""Looks at pages in a real browser. Reads on stdin, as JSON: {"chromium", "shots", "pages": [{"name", "url", "title"}]}.
Writes a line for each page and setup: {"page", "setup", "faults"}.
"""

import json
import os
import sys

from playwright.sync_api import sync_playwright

from checks import Links, check


def launch(play, chromium):
    # The sandbox is refused to the superuser; the rest keeps the browser from calling home.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
    return play.chromium.launch(executable_path=chromium, args=sandbox + quiet)


def main():
    order = json.load(sys.stdin)
    links = Links()
    with sync_playwright() as play:
        browser = launch(play, order["chromium"])
        for page in order["pages"]:
            for result in check(browser, page["name"], page["url"], links, page.get("title"), order.get("shots")):
                print(json.dumps(result), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
