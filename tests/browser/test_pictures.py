"""The pictures of README and guide: `OUTLIER_SCREENSHOTS=docs/images` keeps them, otherwise they are thrown away."""

import asyncio
import os
from pathlib import Path

import pytest

try:
    from playwright.async_api import expect
except ImportError:
    expect = None  # the fixture `browser` skips

WIDTH, HEIGHT = 1180, 640
KEPT = os.environ.get("OUTLIER_SCREENSHOTS")
TRAFFIC_S = 40 if KEPT else 2  # long enough for a curve, when somebody is to look at it
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_pictures_show_an_ejection_and_its_reason(open_page, make_scene, tmp_path):
    folder = Path(KEPT) if KEPT else tmp_path
    scene = await make_scene(shop=4, reviews=40, ratings=3)
    page = await open_page(WIDTH, "light", HEIGHT)
    await page.goto(scene.url())

    async with asyncio.TaskGroup() as group:
        traffic = [group.create_task(scene.send(name, 100_000)) for name in scene.hosts for _ in range(2)]
        await asyncio.sleep(TRAFFIC_S * 0.6)
        for name, indexes in (("shop", [1]), ("reviews", [3, 17]), ("ratings", [0, 2])):
            for index in indexes:
                scene.hosts[name][index].set(status=503)
        await asyncio.sleep(TRAFFIC_S * 0.4)
        await expect(page.locator(".notice")).to_contain_text("Panic")
        await page.screenshot(path=folder / "overview.png")

        await page.locator(".card", has_text="shop.default").locator("h2 a").click()
        row = page.locator(".host.ejected")
        await row.locator("summary").click()
        await row.locator(".bar").last.focus()
        await expect(row.locator("details")).to_contain_text("Ejected: CONSECUTIVE_5XX")
        await page.evaluate("window.scrollTo(0, 0)")
        await page.screenshot(path=folder / "cluster.png")
        for task in traffic:
            task.cancel()

    assert {path.name for path in folder.glob("*.png")} >= {"overview.png", "cluster.png"}
