"""Applications of a test as upstreams: what reaches them and what comes back, of each kind."""

import asyncio

import pytest
from aiohttp import web

from proxy.testing import Sidecar, Upstream


async def asgi_echo(scope, receive, send):
    assert scope["type"] == "http"
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    told = f"{scope['method']} {scope['path']} {scope['raw_path'].decode()} {scope['query_string'].decode()} "
    headers = [(b"x-kind", b"asgi"), (b"x-got", dict(scope["headers"]).get(b"x-sent", b"-"))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": told.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": body})


def wsgi_echo(environ, start_response):
    body = environ["wsgi.input"].read()
    told = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {environ['QUERY_STRING']} "
    start_response("201 Created", [("X-Kind", "wsgi"), ("X-Got", environ.get("HTTP_X_SENT", "-"))])
    return [told.encode(), body]


async def aiohttp_echo(request):
    return web.Response(status=201, headers={"X-Kind": "aiohttp"}, body=await request.read())


async def test_asgi_application_gets_path_query_headers_and_body():
    async with Upstream.for_app(asgi_echo) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.post("/a%20b?c=1", data=b"hello", headers={"x-sent": "1"})

        assert (response.status, await response.text()) == (201, "POST /a b /a%20b c=1 hello")
        assert (response.headers["x-kind"], response.headers["x-got"], upstream.request_count) == ("asgi", "1", 1)


async def test_wsgi_application_gets_path_query_headers_and_body():
    async with Upstream.for_app(wsgi_echo) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.post("/a%20b?c=1", data=b"hello", headers={"x-sent": "1"})

        assert (response.status, await response.text()) == (201, "POST /a b c=1 hello")
        assert (response.headers["x-kind"], response.headers["x-got"]) == ("wsgi", "1")


async def test_aiohttp_application_is_served_as_it_is():
    app = web.Application()
    app.router.add_post("/", aiohttp_echo)
    async with Upstream.for_app(app) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.post("/", data=b"hello")

        assert (response.status, await response.read(), upstream.request_count) == (201, b"hello", 1)


@pytest.mark.parametrize("app", [asgi_echo, wsgi_echo], ids=["asgi", "wsgi"])
async def test_head_has_no_body(app):
    async with Upstream.for_app(app) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.request("HEAD", "/")

        assert (response.status, await response.read()) == (201, b"")


async def test_lifespan_runs_around_the_requests_and_its_state_is_theirs():
    told = []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                told.append((await receive())["type"])
                scope["state"]["ready"] = b"yes"
                await send({"type": f"lifespan.{step}.complete"})
            return
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": scope["state"]["ready"]})

    async with Upstream.for_app(app) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.get("/")
        body = await response.read()

    assert (told, body) == (["lifespan.startup", "lifespan.shutdown"], b"yes")


async def test_an_application_that_listens_for_a_disconnect_hears_of_it_after_its_response():
    """Starlette's streaming responses are given up as soon as they hear of one."""
    heard = []

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await receive()

        async def listen():
            heard.append((await receive())["type"])

        listening = asyncio.ensure_future(listen())
        await send({"type": "http.response.start", "status": 200})
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        heard.append("responding")
        await send({"type": "http.response.body"})
        await listening

    async with Upstream.for_app(app) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        response = await sidecar.get("/")

        assert (await response.read(), heard) == (b"ab", ["responding", "http.disconnect"])


async def test_a_start_up_that_fails_is_an_error():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(RuntimeError, match="no database"):
        await Upstream.for_app(app).start()


async def test_an_application_that_raises_is_charged_with_500():
    async def app(scope, receive, send):
        raise ValueError(scope["type"])

    block = {"consecutive5xxErrors": 1, "maxEjectionPercent": 100}
    async with (
        Upstream.for_app(app) as upstream,
        Sidecar(outlier_detection=block, endpoints=[upstream]) as sidecar,
    ):
        await sidecar.get("/")

        assert sidecar.ejected() == [upstream]


@pytest.mark.parametrize("app", [asgi_echo, wsgi_echo], ids=["asgi", "wsgi"])
def test_an_application_may_run_in_a_thread(app):
    with Upstream.for_app(app) as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        assert sidecar.get("/").status == 201


@pytest.mark.parametrize("thing", [5, "app", lambda: None, asyncio.sleep], ids=["int", "text", "none", "one"])
def test_anything_else_is_refused(thing):
    with pytest.raises(TypeError, match="neither an ASGI nor a WSGI call"):
        Upstream.for_app(thing)


def test_the_address_of_an_upstream_that_is_not_started_is_an_error():
    with pytest.raises(RuntimeError, match="not started"):
        _ = Upstream.for_app(wsgi_echo).address
