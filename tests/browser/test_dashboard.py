"""A person at the dashboard: follows an ejection and a refused configuration, overrides hosts, by mouse and by keys."""

import pytest

try:
    from playwright.async_api import expect
except ImportError:
    expect = None  # the fixture `browser` skips

CLUSTER = "cluster/outbound%7C80%7C%7Cshop.default.svc.cluster.local"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

widths = pytest.mark.parametrize("width", [360, 768, 1440])
schemes = pytest.mark.parametrize("scheme", ["light", "dark"])


async def override(page, button, reason):
    """Press an override's button and fill its dialog."""
    await button.click()
    await page.get_by_label("Reason").fill(reason)
    await page.locator("dialog button[type=submit]").click()
    await expect(page.locator("dialog")).to_have_count(0)


@widths
@schemes
async def test_person_follows_a_host_and_a_refused_configuration(open_page, make_scene, violations, width, scheme):
    scene = await make_scene(shop=3)
    good, _, bad = scene.hosts["shop"]
    page = await open_page(width, scheme)

    async def assert_page_is_sound():
        taken, room = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert taken <= room
        assert await violations(page) == []

    # An ejection appears while the page is open.
    await page.goto(scene.url())
    card = page.locator(".card", has_text="shop.default")
    await expect(card.locator(".badge")).to_have_text("3/3 in")
    bad.set(status=503)
    await scene.send("shop", 12)
    await expect(card.locator(".badge")).to_have_text("2/3 in")
    await expect(page.locator("#announcer")).to_contain_text("ejected: CONSECUTIVE_5XX")
    await assert_page_is_sound()

    # The reason, and when the host is due back.
    await card.locator("h2 a").click()
    row = page.locator(".host", has_text=bad.address)
    await expect(row.locator(".state")).to_contain_text("ejected, back in")
    await row.locator("summary").click()
    await expect(row.locator("details")).to_contain_text("Ejected: CONSECUTIVE_5XX (3 in a row, threshold 3)")
    await row.locator(".bar").last.focus()
    await expect(page.locator(".picked")).to_contain_text("CONSECUTIVE_5XX (3 in a row, threshold 3)")
    await expect(page.locator(".rule")).to_contain_text("outlierDetection.baseEjectionTime")
    await assert_page_is_sound()

    # Back by hand; another one out, and back.
    bad.set()
    await override(page, row.get_by_role("button", name="Bring"), "fixed it")
    await expect(row.locator(".state")).to_contain_text("held in")
    await expect(row.locator(".override")).to_contain_text("fixed it")
    row = page.locator(".host", has_text=good.address)
    await override(page, row.get_by_role("button", name="Eject"), "maintenance")
    await expect(row.locator(".state")).to_have_text("put out")
    await override(page, row.get_by_role("button", name="Bring"), "done")
    await expect(row.locator(".state")).to_have_text("healthy")

    await page.goto(scene.url("events"))
    await page.get_by_label("Search events").fill("nothing like it")
    await expect(page.locator("main .empty")).to_have_text("No event matches.")
    await page.get_by_label("Search events").fill("maintenance")
    await expect(page.locator(".events li")).to_have_count(1)
    await assert_page_is_sound()

    # A refused configuration, and its repair.
    scene.rewrite("shop", "maxEjectionPercent: 70", "maxEjectionPercent: 130")
    await expect(page.locator(".notice")).to_contain_text("refused")
    await page.locator(".notice a").first.click()
    await expect(page.locator(".findings.bad")).to_contain_text("maxEjectionPercent = 130")
    await assert_page_is_sound()
    scene.rewrite("shop", "maxEjectionPercent: 130", "maxEjectionPercent: 70")
    await expect(page.locator(".findings.bad")).to_have_count(0)


async def test_everything_is_reached_by_keys(open_page, make_scene):
    scene = await make_scene(shop=2)
    page = await open_page()
    await page.goto(scene.url())
    await expect(page.locator(".badge")).to_have_text("2/2 in")

    await page.keyboard.press("Tab")
    await expect(page.get_by_text("Skip to content")).to_be_focused()
    await page.locator(".card h2 a").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("main h1")).to_contain_text("shop.default")
    assert await page.evaluate("[scrollY, document.activeElement.id]") == [0, "main"]

    button = page.get_by_role("button", name=f"Eject {scene.hosts['shop'][0].address}")
    await button.press("Enter")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(button).to_be_focused()
    await button.press("Enter")
    await page.keyboard.type("by key")
    await page.keyboard.press("Enter")
    await expect(page.locator(".host .override").first).to_contain_text("by key")


async def test_panic_is_told_on_every_page(open_page, make_scene):
    scene = await make_scene(ratings=3)
    for host in scene.hosts["ratings"][:2]:
        host.set(status=503)
    page = await open_page()
    await page.goto(scene.url("events"))
    await scene.send("ratings", 20)

    await expect(page.locator(".notice")).to_contain_text("Panic")
    await page.locator(".notice a").click()
    await expect(page.locator(".panic")).to_be_visible()


async def test_two_hundred_hosts_are_small_tiles_and_rows(open_page, make_scene):
    scene = await make_scene(shop=200)
    page = await open_page()
    await page.goto(scene.url())

    await expect(page.locator(".tiles.small .tile")).to_have_count(200)
    await page.goto(scene.url(CLUSTER))
    await expect(page.locator(".host")).to_have_count(200)


async def test_what_is_not_there_is_said(open_page, make_scene):
    scene = await make_scene()
    page = await open_page()

    await page.goto(scene.url())
    await expect(page.locator("main .empty")).to_contain_text(["No clusters: the configuration names no service."])
    await page.goto(scene.url(CLUSTER))
    await expect(page.locator("main .empty").first).to_contain_text("There is no such cluster now")
    await page.goto(scene.url("events"))
    await expect(page.locator("main .empty")).to_have_text("Nothing has happened since the sidecar started.")


async def test_lost_sidecar_is_shown(open_page, make_scene):
    scene = await make_scene(shop=1)
    page = await open_page()
    await page.goto(scene.url())
    await expect(page.locator("#connection")).to_have_text("connected")
    await scene.stop()

    await expect(page.locator("#connection")).to_have_text("no connection")
    await page.goto("about:blank")
    page.messages.clear()  # the browser itself reports each refused connection


async def test_names_from_outside_are_text(open_page, make_scene):
    scene = await make_scene(shop=1)
    page = await open_page()
    await page.goto(scene.url(CLUSTER))
    button = page.get_by_role("button", name="Eject 127.0.0.1")
    await override(page, button, "<img src=x onerror=alert(1)>")

    await expect(page.locator(".host .override")).to_contain_text("<img src=x")
    assert await page.locator("main img").count() == 0
