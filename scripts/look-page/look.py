"""Looks at the page in a browser, and fails where something is not as it should be.

Widths of a telephone and a desk, light and dark: pictures, nothing that sticks out at the side, axe-core's rules of
accessibility, the tree that a screen reader is given. The keyboard alone: from the first key to a paired drone. A path
that is cut is seen within a second. A thousand drones: how long the page keeps the browser. And throughout: no request
to another host, and no error, those of the content security policy among them.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright

from scene import Scene

WIDTHS = {390: 844, 1440: 900}
# A task that keeps the browser for longer than this is felt: twice what browsers themselves call long (50 ms), since this
# machine may be doing something else.
LONG_TASK_MS = 100
WATCHED_S = 10


class Look:
    def __init__(self, out):
        self.out, self.failures = out, []
        out.mkdir(parents=True, exist_ok=True)

    def check(self, is_right, what):
        print(f"{'ok  ' if is_right else 'FAIL'} {what}", flush=True)
        if not is_right:
            self.failures.append(what)

    def watch(self, page, address):
        page.on("request", lambda request: request.url.startswith(address) or self.check(False, f"a request to {request.url}"))
        page.on("console", lambda message: message.type == "error" and self.check(False, f"the console: {message.text}"))
        page.on("pageerror", lambda error: self.check(False, f"the script: {error}"))

    async def looks(self, browser, address):
        """Each width and colour, with pairing shown."""
        for width, height in WIDTHS.items():
            for scheme in ("light", "dark"):
                name = f"{width}-{scheme}"
                context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = await context.new_page()
                self.watch(page, address)
                await page.goto(address)
                await page.locator("#drones > li .sparks path").first.wait_for(state="attached")
                await page.locator("#pairing").wait_for()
                await page.screenshot(path=self.out / f"page-{name}.png", full_page=True)
                over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                self.check(over <= 0, f"{name}: nothing sticks out at the side")
                await self.rules(page, name)
                if name == "1440-light":
                    await self.tree(page)
                await context.close()

    async def rules(self, page, name):
        found = (await Axe().run(page)).response["violations"]
        told = "; ".join(f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:80]})" for one in found)
        self.check(not found, f"{name}: the rules of accessibility{': ' + told if told else ''}")

    async def tree(self, page):
        """What a screen reader is given."""
        tree = await page.locator("body").aria_snapshot()
        (self.out / "tree.txt").write_text(tree)
        wanted = ['heading "Fulmar" [level=1]', 'heading "Peers" [level=2]', 'heading "Pair a drone" [level=2]',
                  'heading "Events" [level=2]', "status", 'textbox "Token for pairing"', 'searchbox "Name"',
                  'link "To the list"', 'img "round trip of']
        for one in wanted:
            self.check(one in tree, f"a screen reader is given: {one}")

    async def death(self, page, scene):
        """A path that is cut is seen within a second."""
        dead = page.locator("#drones .chips .dead").first
        took = []
        for _ in range(3):
            await dead.wait_for(state="detached")
            scene.relay.is_cut = True
            cut = time.monotonic()
            await dead.wait_for(state="attached")
            took.append(time.monotonic() - cut)
            await page.screenshot(path=self.out / "path-cut.png", full_page=True)
            scene.relay.is_cut = False
        # The middle one: this machine may be doing something else.
        told = ", ".join(f"{one:.2f}" for one in took)
        self.check(sorted(took)[1] < 1.0, f"a path that is cut is seen within a second: after {told} s")
        await dead.wait_for(state="detached")

    async def pairing(self, page, scene):
        """From the first key to a paired drone by the keyboard alone."""
        await page.locator("body").press("Tab")
        self.check(await self.focused(page) == "To the list", "the first key leads to the link to the list")
        await page.keyboard.press("/")
        self.check(await page.evaluate("document.activeElement.id") == "filter", "/ leads to the filter")
        for _ in range(60):
            if await page.evaluate("document.activeElement.id") == "pair-name":
                break
            await page.keyboard.press("Tab")
        await page.keyboard.type("bravo")
        await page.keyboard.press("Tab")
        await page.keyboard.type("not the token")
        await page.keyboard.press("Enter")
        said = page.locator("#pair-said")
        await page.locator("#pair-said", has_text="not the token").wait_for()
        self.check(await page.evaluate("document.activeElement.id") == "pair-token", "a wrong token leads back to it")
        await page.keyboard.press("Control+a")
        await page.keyboard.type(scene.token)
        await page.keyboard.press("Enter")
        await page.locator("#pair-symbol path").wait_for(state="attached")
        self.check(await page.evaluate("document.activeElement.id") == "pair-code-title", "the code has the focus")
        await self.rules(page, "with a code")
        await page.screenshot(path=self.out / "pairing.png", full_page=True)
        first = await page.locator("#pair-left").inner_text()
        await page.locator("#pair-left").filter(has_not_text=first).wait_for()
        self.check(True, f"the time counts down: {first}, {await page.locator('#pair-left').inner_text()}")
        await page.keyboard.press("Tab")
        self.check(await self.focused(page) == "End it", "the next key leads to the end")
        await page.keyboard.press("Enter")
        await page.locator("#pair").wait_for()
        self.check(await page.locator("#pair-code").inner_text() == "", "an ended code leaves the page")
        self.check(await page.evaluate("document.activeElement.id") == "pair-name", "the focus is at the form again")

        await page.keyboard.press("Tab")
        await page.keyboard.type(scene.token)
        await page.keyboard.press("Enter")
        await page.locator("#pair-symbol path").wait_for(state="attached")
        code = await page.locator("#pair-code").inner_text()
        await asyncio.to_thread(scene.pair, code)
        await page.locator("#pair-events", has_text="has taken it over").wait_for()
        told = " ".join((await page.locator("#pair-events").inner_text()).split())
        self.check("bravo is enrolled, from 127.0.0.1" in told, f"who was enrolled, and from where: {told[:160]}")
        self.check("has taken it over" in await said.inner_text(), "and it is said aloud")
        await page.locator("#pair").wait_for()
        self.check(await page.locator("#pair-code").inner_text() == "", "a used code leaves the page")
        await page.screenshot(path=self.out / "paired.png", full_page=True)

    async def focused(self, page):
        return await page.evaluate("document.activeElement.textContent.trim()")

    async def thousand(self, browser, address):
        """How long a page of a thousand drones keeps the browser, with forty lines and with all."""
        for rows in ("forty", "all"):
            context = await browser.new_context(viewport={"width": 390, "height": 844})
            page = await context.new_page()
            self.watch(page, address)
            await page.goto(address)
            await page.locator("#drones > li").nth(39).wait_for(state="attached", timeout=60_000)
            if rows == "all":
                # As somebody who presses "more" to the end.
                await page.evaluate("wanted.rows = 1000; askAnew()")
                await page.locator("#drones > li").nth(999).wait_for(state="attached", timeout=60_000)
            await page.evaluate("""() => { window.tasks = []; new PerformanceObserver((list) =>
                window.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" }); }""")
            await page.evaluate("""() => { setTimeout(() => { const from = performance.now();
                while (performance.now() - from < 80); }); }""")
            await asyncio.sleep(2)
            self.check(await page.evaluate("window.tasks.splice(0).some((task) => task >= 80)"), "a long task would be seen")
            await asyncio.sleep(WATCHED_S)
            tasks = await page.evaluate("window.tasks")
            longest = max(tasks, default=0)
            what = f"1,000 drones, {rows} shown: {len(tasks)} tasks of more than 50 ms in {WATCHED_S} s, the longest {longest:.0f} ms"
            if rows == "forty":
                self.check(longest <= LONG_TASK_MS, what)
                await page.screenshot(path=self.out / "thousand.png")
            else:
                print(f"     {what}")
            await context.close()


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", required=True, help="the browser's program")
    parser.add_argument("--fulmar", required=True, help="the program to look at")
    parser.add_argument("--out", type=Path, required=True, help="where pictures go")
    arguments = parser.parse_args()
    look, scene = Look(arguments.out), Scene(arguments.fulmar)
    try:
        async with async_playwright() as playwright:
            await scene.begin()
            address = await scene.page_that_pairs()
            browser = await playwright.chromium.launch(executable_path=arguments.browser)
            await look.looks(browser, address)
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            # A wrong token is answered by 403, which the console tells as an error.
            page.on("pageerror", lambda error: look.check(False, f"the script: {error}"))
            page.on("request", lambda one: one.url.startswith(address) or look.check(False, f"a request to {one.url}"))
            await page.goto(address)
            await look.death(page, scene)
            await look.pairing(page, scene)
            await look.thousand(browser, await scene.page_of_a_thousand())
            await browser.close()
    finally:
        scene.end()
    print(f"pictures are in {look.out}")
    if look.failures:
        sys.exit(f"look: {len(look.failures)} things are not as they should be")


if __name__ == "__main__":
    asyncio.run(main())
