"""`outlier demo`: a sidecar, four hosts that misbehave on a schedule, and traffic, in one process.

It uses the sidecar from outside, as anybody would: a configuration file, the listener, `/clusters` and the event log.
The script of the misbehaviour is `demo_script`, the picture `demo_view`.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import aiohttp
from rich.console import Console
from rich.live import Live

from outlier import ConfigError
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, LoopChoice
from proxy.demo_script import CYCLE_MS, GOOD, HOST_NAMES, SERVICE, changes, rules
from proxy.demo_view import Board, HostRow
from proxy.run_command import choose_loop
from proxy.server import Server
from proxy.testing import FaultyUpstream

_WORKERS = 6
_PAUSE_S = 0.03  # between two requests of a worker: about 150 requests a second in all
_POLL_S = 0.25
_POLLS_PER_LINE = 8  # plain output: a line of progress every two seconds


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="see hosts being ejected and returned, without any configuration of yours",
        description="Run a sidecar, hosts that misbehave on a schedule, and traffic; print a summary at the end.",
        epilog="example: outlier demo --duration 20",
    )
    parser.add_argument(
        "--duration", metavar="S", type=float, default=60.0, help="seconds, default 60; SIGINT ends too"
    )
    parser.add_argument("--port", metavar="P", type=int, default=0, help="port of the proxy; 0, the default, picks one")


def run(args: argparse.Namespace) -> int:
    """Run the demo and return 0.

    Raises:
        ConfigError: An option is out of range.
        ProxyError: The port cannot be listened on.
    """
    if not 0 < args.duration <= 86_400:
        raise ConfigError("--duration", args.duration, "must be above 0 and at most 86400 seconds")
    if not 0 <= args.port <= 65_535:
        raise ConfigError("--port", args.port, "must be in 0..65535")
    with asyncio.Runner(loop_factory=choose_loop(LoopChoice.AUTO)) as runner:
        runner.run(_demo(args.duration, args.port, _Console()))
    return 0


class _Console(Console):
    """Ends the demo as every command ends when nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Exit with what a shell reports for a program that SIGPIPE ended."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(128 + signal.SIGPIPE) from None


async def _demo(duration_s: float, port: int, console: Console) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    loop.call_later(duration_s, end.set)
    board = Board()
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlier-demo-")))
        upstreams = {
            name: await stack.enter_async_context(FaultyUpstream(body="hello\n", max_recorded=0)) for name in HOST_NAMES
        }
        board.hosts = {upstream.address: HostRow(name, upstream.address, GOOD) for name, upstream in upstreams.items()}
        await stack.enter_async_context(_sidecar(folder, port, [u.port for u in upstreams.values()], board))
        event_log = stack.enter_context((folder / "events.log").open(encoding="utf-8"))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_request(session, board)) for _ in range(_WORKERS)]
            tasks.append(group.create_task(_perform(upstreams, board)))
            await _show(console, session, board, event_log, end)
            for task in tasks:
                task.cancel()
    for line in board.summary():
        console.print(line, highlight=False, soft_wrap=True)


@contextlib.asynccontextmanager
async def _sidecar(folder: Path, port: int, ports: list[int], board: Board) -> AsyncIterator[None]:
    """Run a sidecar on the demo's rules; note where it listens."""
    config = folder / "shop.yaml"
    config.write_text(rules(ports), encoding="utf-8")
    server = Server(
        Bootstrap(
            config_paths=(config,),
            listen=Address("127.0.0.1", port),
            admin=Address("127.0.0.1", 0),
            event_log=folder / "events.log",
            drain_time_ms=0,
        )
    )
    await server.start()
    try:
        ready = server.ready_line()
        board.listen, board.admin = str(ready["listen"]), str(ready["admin"])
        yield
    finally:
        await server.drain()


async def _request(session: aiohttp.ClientSession, board: Board) -> None:
    """Send requests for the service, one after the other."""
    while True:
        try:
            async with session.get(f"http://{board.listen}/", headers={"Host": SERVICE}) as response:
                await response.read()
                board.statuses[str(response.status)] += 1
        except aiohttp.ClientError as exc:
            board.statuses[type(exc).__name__] += 1
        await asyncio.sleep(_PAUSE_S)


async def _perform(upstreams: dict[str, FaultyUpstream], board: Board) -> None:
    """Let the hosts misbehave by the script, cycle after cycle."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while True:
        for change in changes():
            await asyncio.sleep(start_s + change.at_ms / 1000 - loop.time())
            upstream = upstreams[change.host]
            row = board.hosts[upstream.address]
            if change.act is None:
                row.behaviour = GOOD
                upstream.set(body="hello\n")
                await upstream.accept()
            elif change.act.reply is None:
                row.behaviour = change.act.label
                await upstream.refuse()
            else:
                row.behaviour = change.act.label
                upstream.set(**change.act.reply)
        start_s += CYCLE_MS / 1000


async def _show(
    console: Console, session: aiohttp.ClientSession, board: Board, event_log: IO[str], end: asyncio.Event
) -> None:
    """Keep the board up to date and show it until the end."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    polls = 0
    live = Live(board.table(), console=console, auto_refresh=False) if console.is_terminal else None
    if live is None:
        console.print(f"proxy http://{board.listen}, admin http://{board.admin}", highlight=False)
    with live or contextlib.nullcontext():
        while not end.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), _POLL_S)
            async with session.get(f"http://{board.admin}/clusters?format=json") as response:
                board.update_hosts(await response.json())
            board.elapsed_ms = int((loop.time() - start_s) * 1000)
            events = [board.add_event(json.loads(line), board.elapsed_ms) for line in event_log]
            polls += 1
            if live is not None:
                live.update(board.table(), refresh=True)
                continue
            for event in events:
                if event is not None:
                    console.print(str(event), highlight=False, soft_wrap=True)
            if polls % _POLLS_PER_LINE == 0:
                console.print(board.progress(), highlight=False, soft_wrap=True)
