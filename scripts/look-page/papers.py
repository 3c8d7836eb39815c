"""Looks at the page of the papers in a browser, and fails where something is not as it should be.

Widths of a telephone and a desk, light and dark, and on paper: pictures of the page, nothing that sticks out at the side,
axe-core's rules of accessibility, no request to anywhere, nothing on the console, no empty cell.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright

WIDTHS = {400: 850, 1280: 900}
# What is shown by itself beside the beginning of the page.
PLACES = ("items", "conclone-table-3", "flowcode-table-i")


async def look(page_file, browser_file, out):
    failures = []

    def check(is_right, what):
        print(f"{'ok  ' if is_right else 'FAIL'} {what}", flush=True)
        if not is_right:
            failures.append(what)

    out.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        for width, height in WIDTHS.items():
            for scheme in ("light", "dark"):
                name = f"{width}-{scheme}"
                # axe-core is a script, which the page's own policy forbids.
                context = await browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True
                )
                page = await context.new_page()
                asked = []
                page.on("request", lambda request: request.url.startswith(("file:", "data:")) or asked.append(request.url))
                page.on("console", lambda message: check(False, f"the console: {message.text}"))
                await page.goto(page_file.absolute().as_uri())
                await page.screenshot(path=out / f"{name}.png")
                for place in PLACES:
                    await page.evaluate(f"document.getElementById('{place}').scrollIntoView()")
                    await page.screenshot(path=out / f"{name}-{place}.png")
                over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                check(over <= 0, f"{name}: nothing sticks out at the side")
                empty = await page.evaluate("[...document.querySelectorAll('td')].filter(td => !td.textContent.trim()).length")
                check(empty == 0, f"{name}: no cell is empty")
                broken = await page.evaluate("[...document.images].filter(image => !image.naturalWidth).length")
                check(broken == 0, f"{name}: every picture is drawn")
                check(not asked, f"{name}: nothing is asked of anybody {asked[:3]}")
                found = (await Axe().run(page)).response["violations"]
                check(not found, f"{name}: axe-core {[(one['id'], one['nodes'][0]['html'][:80]) for one in found]}")
                await context.close()
        page = await browser.new_page()
        await page.goto(page_file.absolute().as_uri())
        await page.pdf(path=out / "page.pdf", format="A4")
        check((out / "page.pdf").stat().st_size > 0, "it can be printed")
        await browser.close()
    return failures


parser = argparse.ArgumentParser()
parser.add_argument("--browser", required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("page", type=Path)
given = parser.parse_args()
sys.exit(1 if asyncio.run(look(given.page, given.browser, given.out)) else 0)
