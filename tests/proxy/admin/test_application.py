"""Rules that hold for every endpoint: unknown paths, headers, and who may ask for what."""

import pytest

from proxy.admin.application import ENDPOINTS, help_text


async def test_unknown_path_answers_404_with_the_list(admin):
    response = await admin.get("/nope")

    assert response.status == 404
    assert await response.text() == "invalid path. " + help_text()


async def test_help_lists_every_endpoint_in_order(admin):
    lines = (await (await admin.get("/help")).text()).splitlines()

    assert lines[0] == "admin commands are:"
    paths = [line.split(":")[0].removesuffix(" (POST)").strip() for line in lines[1:] if line.startswith("  /")]
    assert paths == sorted(endpoint.path for endpoint in ENDPOINTS)
    assert "  /quitquitquit (POST): exit the server" in lines


async def test_answers_carry_envoys_headers(admin):
    headers = (await admin.get("/ready")).headers

    assert headers["cache-control"] == "no-cache, max-age=0"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"] == "text/plain; charset=UTF-8"


async def test_head_request_has_no_body(sidecar, admin):
    sidecar.add_cluster(hosts=3)

    response = await admin.head("/clusters")

    assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_reading_endpoint_takes_any_method_as_envoy_does(admin, method):
    assert (await admin.request(method, "/ready")).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1:15000", "localhost", "10.1.2.3", "[::1]:15000", "admin.localhost:1"])
async def test_host_that_is_an_address_or_local_is_answered(admin, host):
    assert (await admin.get("/ready", headers={"Host": host})).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:15000", "127.0.0.1.evil.example", "localhost.evil"])
async def test_host_of_a_stranger_is_refused(admin, host):
    """DNS rebinding: a page at a name that resolves to the loopback address reads the answer as its own."""
    assert (await admin.get("/ready", headers={"Host": host})).status == 403


async def test_post_from_a_page_of_somebody_else_is_refused(sidecar, admin):
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        response = await admin.post("/reset_counters", headers={"Origin": origin, "Host": "127.0.0.1:15000"})
        assert response.status == 403

    assert sidecar.done == []


async def test_post_from_our_own_page_or_from_curl_is_done(sidecar, admin):
    own = {"Origin": "http://127.0.0.1:15000", "Host": "127.0.0.1:15000"}
    await admin.post("/reset_counters", headers=own)
    await admin.post("/reset_counters", headers={"Host": "127.0.0.1:15000", "User-Agent": "curl/8"})

    assert sidecar.done == ["reset_counters"] * 2
