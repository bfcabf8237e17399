"""Drive the dashboard in Chromium: `python -m tests.browser [--screenshots DIR] [--axe FILE]`.

Sees an ejection appear live, reads its reason, ejects a host and brings it back by hand, follows a refused
configuration and its repair, at three widths, dark and light; fails on any message on the browser's console and, when
axe-core's `axe.min.js` is given, on any serious accessibility violation. Not part of the pytest run, since it needs
Playwright and a browser (`CHROMIUM`, or chromium on the PATH). Exit 1 at the first check that fails.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from playwright.async_api import Browser, Page, async_playwright, expect

from proxy.demo_script import SERVICE, rules
from proxy.testing import FaultyUpstream

WIDTHS = (360, 768, 1440)
SCHEMES = ("light", "dark")
LONG_MS = 10_000


@asynccontextmanager
async def sidecar(config: Path) -> AsyncIterator[dict[str, str]]:
    """Run `outlier run` on a folder; give its ready line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxy.cli", "run", "--config", str(config), "--log-level", "error"),
        *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-time", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        assert await process.wait() == 0, "an open dashboard must not keep the sidecar from ending"


async def send(listen: str, count: int) -> None:
    """Send requests for the service through the sidecar."""
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.get(f"http://{listen}/", headers={"Host": SERVICE}) as response:
                await response.read()


async def check_page(
    page: Page, ready: dict[str, str], config: Path, bad: FaultyUpstream, good: FaultyUpstream
) -> None:
    """Follow one host from its ejection to its return by hand, then a broken configuration and its repair."""
    await page.goto(f"http://{ready['admin']}/")
    card = page.locator(".card", has_text="shop.default")
    await expect(card.locator(".badge")).to_have_text("3/3 in", timeout=LONG_MS)

    bad.set(status=503)
    await send(ready["listen"], 12)
    await expect(card.locator(".badge")).to_have_text("2/3 in", timeout=LONG_MS)
    await expect(page.locator("#announcer")).to_contain_text("ejected: CONSECUTIVE_5XX")

    await card.locator("h2 a").click()
    row = page.locator(".host", has_text=bad.address)
    await expect(row.locator(".state")).to_contain_text("ejected, back in")
    await row.locator("summary").click()
    await expect(row.locator("details")).to_contain_text("Ejected: CONSECUTIVE_5XX (3 in a row, threshold 3)")
    await row.locator(".bar").last.focus()
    await expect(page.locator(".picked")).to_contain_text("CONSECUTIVE_5XX (3 in a row, threshold 3)")

    bad.set()
    await override(page, row.get_by_role("button", name="Bring"), "fixed it")
    await expect(row.locator(".state")).to_contain_text("held in", timeout=LONG_MS)
    await expect(row.locator(".override")).to_contain_text("fixed it")

    row = page.locator(".host", has_text=good.address)
    await override(page, row.get_by_role("button", name="Eject"), "maintenance")
    await expect(row.locator(".state")).to_have_text("put out", timeout=LONG_MS)
    await override(page, row.get_by_role("button", name="Bring"), "done")
    await expect(row.locator(".state")).to_have_text("healthy", timeout=LONG_MS)

    await page.goto(f"http://{ready['admin']}/#/events")
    await page.get_by_label("Search events").fill("maintenance")
    await expect(page.locator(".events li")).to_have_count(1)

    rewrite(config, "maxEjectionPercent: 50", "maxEjectionPercent: 130")
    await expect(page.locator(".notice")).to_contain_text("refused", timeout=LONG_MS)
    await page.locator(".notice a").first.click()
    await expect(page.locator(".findings.bad")).to_contain_text("maxEjectionPercent = 130", timeout=LONG_MS)
    rewrite(config, "maxEjectionPercent: 130", "maxEjectionPercent: 50")
    await expect(page.locator(".findings.bad")).to_have_count(0, timeout=LONG_MS)


def rewrite(config: Path, old: str, new: str) -> None:
    """Change a value of the configuration."""
    text = config.read_text(encoding="utf-8")
    assert old in text
    config.write_text(text.replace(old, new), encoding="utf-8")


async def override(page: Page, button: object, reason: str) -> None:
    """Press an override's button and fill its dialog."""
    await button.click()
    await page.get_by_label("Reason").fill(reason)
    await page.locator("dialog button[type=submit]").click()
    await expect(page.locator("dialog")).to_have_count(0)


async def look(page: Page, admin: str, name: str, screenshots: Path | None, axe: str) -> None:
    """Visit every page: it fits the width, and (with axe) has no serious violation."""
    for path in ("", "events", "config", f"cluster/{SERVICE}"):
        if path.startswith("cluster/"):
            await page.goto(f"http://{admin}/#/")
            await page.locator(".card h2 a").first.click()
        else:
            await page.goto(f"http://{admin}/#/{path}")
        await page.wait_for_function("document.querySelector('main h1') !== null")
        width, room = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= room, f"{name} {path}: {width} px on a screen of {room} px"
        if axe:
            await page.evaluate(axe)
            violations = (await page.evaluate("axe.run()"))["violations"]
            serious = [found["id"] for found in violations if found["impact"] in ("serious", "critical")]
            assert not serious, f"{name} {path}: {serious}"
        if screenshots is not None:
            await page.screenshot(path=screenshots / f"{path.partition('/')[0] or 'overview'}-{name}.png")


async def check(browser: Browser, width: int, scheme: str, screenshots: Path | None, axe: str) -> None:
    """Run every check at one width in one scheme, against a sidecar of its own."""
    context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = await context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    with tempfile.TemporaryDirectory() as folder:
        async with FaultyUpstream() as good, FaultyUpstream() as other, FaultyUpstream() as bad:
            config = Path(folder) / "shop.yaml"
            config.write_text(rules([upstream.port for upstream in (good, other, bad)]), encoding="utf-8")
            # Long enough for a person, or a browser, to do something about it.
            rewrite(config, "baseEjectionTime: 1500ms", "baseEjectionTime: 60s")
            async with sidecar(config) as ready:
                await check_page(page, ready, config, bad, good)
                await look(page, ready["admin"], f"{width}-{scheme}", screenshots, axe)
                assert not messages, messages
    await context.close()


async def main() -> None:
    """Run all combinations."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser")
    parser.add_argument("--screenshots", type=Path, help="folder for a picture of each page")
    parser.add_argument("--axe", type=Path, help="axe-core's axe.min.js")
    args = parser.parse_args()
    if args.screenshots is not None:
        args.screenshots.mkdir(parents=True, exist_ok=True)
    axe = args.axe.read_text(encoding="utf-8") if args.axe is not None else ""
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    passed = 0
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for width in WIDTHS:
            for scheme in SCHEMES:
                await check(browser, width, scheme, args.screenshots, axe)
                passed += 1
        await browser.close()
    sys.stdout.write(f"{passed} passed, 0 failed\n")


asyncio.run(main())
