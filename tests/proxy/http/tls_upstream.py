"""An upstream that speaks TLS, and answers each request with what it has seen of the handshake."""

import asyncio
import json
import socket
import ssl
from contextlib import suppress
from typing import Any, Self

from tests.proxy.certificates import server_context


class TlsUpstream:
    """Serves as `async with`; `handshakes` and `requests` count what came.

    The body of an answer is JSON: `sni`, `version` and `client` (whether a certificate was shown).
    """

    def __init__(self, *names: str, by: str = "ours", client_ca: str = "", **settings: Any) -> None:
        self.context = server_context(*names, by=by, client_ca=client_ca)
        for name, value in settings.items():
            setattr(self.context, name, value)
        self.context.sni_callback = self._on_sni
        self._sni: dict[int, str | None] = {}
        self.handshakes: list[str | None] = []
        self.requests = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._sock = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._sock.getsockname()[1]}"
        self._server = await asyncio.start_server(self._serve, sock=self._sock, ssl=self.context)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()  # type: ignore[attr-defined]

    def _on_sni(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        self.handshakes.append(name)
        connection.server_name_seen = name

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        secured: Any = writer.get_extra_info("ssl_object")
        with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                seen = {
                    "sni": secured.server_name_seen,
                    "version": secured.version(),
                    "client": secured.getpeercert(binary_form=True) is not None,
                }
                body = json.dumps(seen).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
