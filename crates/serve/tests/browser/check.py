"""Looks at pages in a real browser. Reads a line of JSON on stdin: {"chromium", "shots", "pages": [{"name", "url", "title"}]}.
Writes a line for each page and setup: {"page", "setup", "faults"}.
"""

import json
import sys

from playwright.sync_api import sync_playwright

from checks import Links, check, launch


def main():
    order = json.loads(sys.stdin.readline())
    links = Links()
    with sync_playwright() as play:
        browser = launch(play, order["chromium"])
        for page in order["pages"]:
            for result in check(browser, page["name"], page["url"], links, page.get("title"), order.get("shots")):
                print(json.dumps(result), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
