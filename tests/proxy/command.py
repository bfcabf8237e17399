"""The command `outlier` as a child process."""

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

READY_S = 60


@asynccontextmanager
async def outlier(*argv: str) -> AsyncIterator[Process]:
    """The command as a child process; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxy.cli", *argv),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ready(process: Process) -> dict[str, str]:
    """Return the ready line; the test fails with what was said on stderr if there is none."""
    line = await asyncio.wait_for(process.stdout.readline(), READY_S)
    return json.loads(line) if line else pytest.fail((await process.stderr.read()).decode())
