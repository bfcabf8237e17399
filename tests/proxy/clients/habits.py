"""Real HTTP clients behind one method, so that each of them is asked to do the same.

A client keeps its connections, follows no redirect unless told to, and raises what its library raises.
"""

import asyncio
import io
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Self

import aiohttp
import attrs
import httpx
import requests
import urllib3

WAIT_S = 20.0


@attrs.frozen
class Answer:
    """What a client made of a response; `body` is decoded as the client decodes it, names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HabitualClient:
    """One client; `async with`.

    Args:
        proxied: Whether the proxy that the environment names is used, as the library is told to do so.
    """

    def __init__(self, *, proxied: bool = False) -> None:
        self.proxied = proxied

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | list[bytes] | None = None,
        follow: bool = False,
    ) -> Answer:
        """Send one request; a list is sent piece by piece, without telling its length first."""
        raise NotImplementedError


class Requests(HabitualClient):
    """`requests.Session`."""

    async def __aenter__(self) -> Self:
        self._session = requests.Session()
        self._session.trust_env = self.proxied
        return self

    async def __aexit__(self, *_: object) -> None:
        self._session.close()

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        def run() -> Answer:
            data = iter(body) if isinstance(body, list) else body
            with self._session.request(
                method, url, headers=headers, data=data, allow_redirects=follow, timeout=WAIT_S
            ) as response:
                return Answer(response.status_code, _lower(response.headers), response.content)

        return await asyncio.to_thread(run)


class Urllib3(HabitualClient):
    """`urllib3.PoolManager`, which sends again by itself what a connection closed meanwhile has not answered."""

    async def __aenter__(self) -> Self:
        self._pool: urllib3.PoolManager = (
            urllib3.ProxyManager(os.environ["http_proxy"]) if self.proxied else urllib3.PoolManager()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pool.clear()

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        def run() -> Answer:
            data = iter(body) if isinstance(body, list) else body
            response = self._pool.request(
                method, url, headers=headers, body=data, redirect=follow, timeout=WAIT_S, retries=None if follow else 1
            )
            return Answer(response.status, _lower(response.headers), response.data)

        return await asyncio.to_thread(run)


class Httpx(HabitualClient):
    """`httpx.Client`."""

    async def __aenter__(self) -> Self:
        self._client = httpx.Client(trust_env=self.proxied, timeout=WAIT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        def run() -> Answer:
            data = iter(body) if isinstance(body, list) else body
            response = self._client.request(method, url, headers=headers, content=data, follow_redirects=follow)
            return Answer(response.status_code, _lower(response.headers), response.content)

        return await asyncio.to_thread(run)


class AsyncHttpx(HabitualClient):
    """`httpx.AsyncClient`."""

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(trust_env=self.proxied, timeout=WAIT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        data = _pieces(body) if isinstance(body, list) else body
        response = await self._client.request(method, url, headers=headers, content=data, follow_redirects=follow)
        return Answer(response.status_code, _lower(response.headers), response.content)


class Aiohttp(HabitualClient):
    """`aiohttp.ClientSession`, which sends a GET again by itself."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(trust_env=self.proxied, timeout=aiohttp.ClientTimeout(WAIT_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        # It warns of large bodies that are not files.
        data = _pieces(body) if isinstance(body, list) else None if body is None else io.BytesIO(body)
        async with self._session.request(method, url, headers=headers, data=data, allow_redirects=follow) as response:
            return Answer(response.status, _lower(response.headers), await response.read())


class Curl(HabitualClient):
    """The command `curl`: a new connection for each request."""

    async def ask(self, method, url, *, headers=None, body=None, follow=False):
        # A body from a pipe has no length; from the command's own buffer (`--data-binary`) it has.
        command = ["--include", *(("--head",) if method == "HEAD" else ("--request", method))]
        command += ["--compressed", "--suppress-connect-headers"]
        for name, value in (headers or {}).items():
            command += ["--header", f"{name}: {value}"]
        if isinstance(body, list):
            command += ["--upload-file", "-"]
        elif body is not None:
            command += ["--data-binary", "@-"]
        if follow:
            command.append("--location")
        if not self.proxied:
            command += ["--noproxy", "*"]
        pieces = body if isinstance(body, list) else [body or b""]
        output, _ = await run_curl(*command, url, pieces=pieces)
        while True:  # interim heads, and those of redirects, come first
            head, _, output = output.partition(b"\r\n\r\n")
            if not output.startswith(b"HTTP/1.1 "):
                break
        status_line, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return Answer(int(status_line.split(" ")[1]), {name.lower(): value for name, _, value in pairs}, output)


CLIENTS: tuple[type[HabitualClient], ...] = (Requests, Urllib3, Httpx, AsyncHttpx, Aiohttp, Curl)


async def run_curl(*arguments: str, pieces: Iterable[bytes] = ()) -> tuple[bytes, bytes]:
    """Run the command, feed it `pieces` on its standard input; return what it has printed, and what to stderr."""
    command = shutil.which("curl")
    assert command is not None, "curl is not installed; the package curl brings it"
    process = await asyncio.create_subprocess_exec(
        *(command, "--silent", "--show-error", "--max-time", str(WAIT_S), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(b"".join(pieces))
    assert process.returncode == 0, errors
    return output, errors


async def _pieces(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece


def _lower(headers: Any) -> dict[str, str]:
    items: Callable[[], Iterable[tuple[str, str]]] = headers.items
    return {name.lower(): value for name, value in items()}
