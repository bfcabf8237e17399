"""A browser, and a sidecar with misbehaving upstreams for it to look at."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.browser.scene import Scene

try:
    from axe_playwright_python.async_playwright import Axe
    from playwright.async_api import async_playwright, expect
except ImportError:
    Axe = async_playwright = expect = None

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
LONG_MS = 60_000  # for whatever a page is to show; a busy machine shows nothing for seconds
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture
async def browser():
    """Chromium without a window; the test is skipped where it or Playwright is missing."""
    if async_playwright is None:
        pytest.skip("Playwright is not installed (pip install -e '.[test]')")
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH, none named by CHROMIUM")
    expect.set_options(timeout=LONG_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=2 * LONG_MS)
        yield browser
        await browser.close()


@pytest.fixture
async def open_page(browser, make_scene) -> AsyncIterator[Callable]:
    """Open a page `(width, scheme)`; whatever its console said fails the test at the end.

    Asks for `make_scene`, so that pages close before their sidecar does.
    """
    messages: list[str] = []

    async def open_page(width=1440, scheme="light", height=900):
        context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(LONG_MS)
        page = await context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.messages = messages
        return page

    yield open_page
    for context in browser.contexts:
        await context.close()
    assert messages == []


@pytest.fixture
async def make_scene(tmp_path) -> AsyncIterator[Callable]:
    """Start a sidecar: host counts by service in, `Scene` out."""
    async with AsyncExitStack() as stack:

        async def make_scene(**hosts: int) -> Scene:
            return await stack.enter_async_context(running(Scene(tmp_path / "config"), hosts))

        yield make_scene


@asynccontextmanager
async def running(scene: Scene, hosts: dict[str, int]) -> AsyncIterator[Scene]:
    await scene.start(hosts)
    try:
        yield scene
    finally:
        await scene.stop()


@pytest.fixture
def violations() -> Callable:
    """Return the ids of a page's serious accessibility violations."""

    async def violations(page):
        found = (await Axe().run(page)).response["violations"]
        return [violation["id"] for violation in found if violation["impact"] in ("serious", "critical")]

    return violations
