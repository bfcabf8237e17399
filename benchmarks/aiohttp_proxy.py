"""A proxy as one writes it with aiohttp in an afternoon: `python -m benchmarks.aiohttp_proxy PORT UPSTREAM...`.

An aiohttp handler that streams through an aiohttp client, round robin, on uvloop: the yardstick for what the
sidecar's own data plane saves. It detects nothing.
"""

import itertools
import sys

import aiohttp
import uvloop
from aiohttp import web

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
TIMEOUT = aiohttp.ClientTimeout(total=15)
BUFFER_BYTES = 65_536


def application(upstreams: list[str]) -> web.Application:
    """Return an application that forwards every request to the next upstream, each `host:port`."""
    turn = itertools.cycle(upstreams)

    async def client(app: web.Application):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(auto_decompress=False, connector=connector, timeout=TIMEOUT) as session:
            app["session"] = session
            yield

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP]
        body = request.content if request.body_exists else None
        url = f"http://{next(turn)}{request.raw_path}"
        async with request.app["session"].request(request.method, url, headers=headers, data=body) as upstream:
            response = web.StreamResponse(status=upstream.status)
            for name, value in upstream.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in upstream.content.iter_chunked(BUFFER_BYTES):
                await response.write(chunk)
            return response

    app = web.Application()
    app.cleanup_ctx.append(client)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


if __name__ == "__main__":
    loop = uvloop.new_event_loop()
    web.run_app(
        application(sys.argv[2:]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None, loop=loop
    )
