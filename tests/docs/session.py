"""A reader who types what a document says: commands in order, in a copy of the examples, with endpoints that answer.

Ports of the documents are replaced by free ones, so that nothing of this machine is in the way. Commands that serve
run until the next one of their kind, or until the end, and must then end with 0.
"""

import asyncio
import os
import re
import shutil
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.testing import FaultyUpstream

ROOT = Path(__file__).parents[2]
ENDPOINT_PORTS = (18081, 18082, 18083)
SERVER_PORTS = (15000, 15001, 15010)
DEADLINE_S = 180.0


def commands(document: str) -> list[str]:
    """Return the commands of a document's console blocks; a backslash at the end of a line goes on in the next."""
    blocks = re.findall(r"^```console\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


class Session:
    """A folder with the examples, and the servers that were started in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._servers: dict[str, asyncio.subprocess.Process] = {}
        self._ports: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        for port in ENDPOINT_PORTS:
            upstream = await self._stack.enter_async_context(FaultyUpstream(body="hello\n", max_recorded=0))
            self._ports[str(port)] = str(upstream.port)
        for port in SERVER_PORTS:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._ports[str(port)] = str(free.getsockname()[1])
        await asyncio.to_thread(self._copy)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for kind in tuple(self._servers):
            await self._stop(kind)
        await self._stack.aclose()

    def _copy(self) -> None:
        for name in ("examples", "docs/scenarios"):
            shutil.copytree(ROOT / name, self._folder / name)
        for path in (self._folder / "examples").rglob("*.*"):
            if path.is_file():
                path.write_text(self._with_our_ports(path.read_text(encoding="utf-8")), encoding="utf-8")
        programs = self._folder / "bin"
        programs.mkdir()
        outlier = programs / "outlier"
        outlier.write_text(f'#!/bin/sh\nexec {sys.executable} -m proxy.cli "$@"\n', encoding="utf-8")
        outlier.chmod(0o755)

    def _with_our_ports(self, text: str) -> str:
        return re.sub(r"\b(1808[123]|150(?:00|01|10))\b", lambda match: self._ports[match[0]], text)

    async def run(self, command: str) -> str:
        """Run one command to its end and return its output, or start one that serves and wait until it does.

        Raises:
            AssertionError: It ended with something else than 0, or did not end.
        """
        command = self._with_our_ports(command)
        kind = re.match(r"outlier (run|source)\b", command)
        if kind is not None:
            return await self._start(kind[1], command)
        process = await self._spawn(command, asyncio.subprocess.STDOUT)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode == 0, f"{command}\n{output.decode()}"
        return output.decode()

    async def _start(self, kind: str, command: str) -> str:
        await self._stop(kind)
        process = self._servers[kind] = await self._spawn(f"exec {command}", None)
        assert process.stdout is not None
        ready = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        assert ready, f"{command} does not serve"
        return ready.decode()

    async def _stop(self, kind: str) -> None:
        process = self._servers.pop(kind, None)
        if process is not None:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0

    async def _spawn(self, command: str, stderr: int | None) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", command),
            cwd=self._folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=os.environ
            | {
                "HOME": str(self._folder),
                "PATH": f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "OUTLIER_ADMIN": f"127.0.0.1:{self._ports['15000']}",
                "OUTLIER_LISTEN": f"127.0.0.1:{self._ports['15001']}",
                "OUTLIER_LOG_LEVEL": "error",
                "OUTLIER_DRAIN_TIME": "0",
            },
        )
