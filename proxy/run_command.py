"""`outlier run`: the sidecar, from its options to its last request.

The first line on stdout says where it listens. SIGINT and SIGTERM drain and end with 0; a second one ends at once.
SIGHUP and SIGUSR1 reopen the log files.
"""

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable

from outlier import ConfigError
from proxy.allocator import keep_read_buffers
from proxy.config.bootstrap import Bootstrap, LoopChoice
from proxy.logs import configure_logs
from proxy.run_options import add_run_options, bootstrap_from_args
from proxy.server import Server

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REOPEN_SIGNALS = (signal.SIGHUP, signal.SIGUSR1)
_SIGNALLED = 128  # a shell's convention: this plus the signal's number

# A thread that reads configuration holds requests up for this long each time the loop has waited for a socket; by
# default for five times as long.
_SWITCH_INTERVAL_S = 0.001

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier run`."""
    parser = subparsers.add_parser(
        "run",
        help="the sidecar, until SIGINT or SIGTERM",
        description="Run the sidecar until SIGINT or SIGTERM; then drain and exit 0. A second signal exits at once.",
        epilog="example: outlier run --config rules/ --service reviews:9080=127.0.0.1:9080 --event-log events.log",
    )
    add_run_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return 0.

    Raises:
        ConfigError: An option is refused.
        OutlierError: The bootstrap file or a resource cannot be read.
        ProxyError: An address cannot be listened on.
    """
    bootstrap = bootstrap_from_args(args)
    if not (bootstrap.config_paths or bootstrap.sources):
        raise ConfigError("--config", "nothing", "at least one --config or --source is needed")
    loop_factory = choose_loop(bootstrap.loop)
    configure_logs(bootstrap.log_format, bootstrap.log_level)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(bootstrap))
    return 0


def choose_loop(choice: LoopChoice) -> LoopFactory:
    """Return what makes the event loop.

    Raises:
        ConfigError: uvloop was asked for by name and is not installed.
    """
    if choice is LoopChoice.ASYNCIO:
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as exc:
        if choice is LoopChoice.UVLOOP:
            raise ConfigError("--loop", "uvloop", "uvloop is not installed") from exc
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def spare_collector() -> None:
    """Take what is alive now out of garbage collection.

    A full collection looks through the whole configuration while requests wait: 80 ms with 10,000 hosts
    (`benchmarks/admin_pages.py`). Done once, since what a freeze catches in a cycle is never freed: freezing at every
    change would leak.
    """
    gc.collect()
    gc.freeze()


async def _serve(bootstrap: Bootstrap) -> None:
    keep_read_buffers()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    server = Server(bootstrap)
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, _on_stop_signal, number, server)
    for number in _REOPEN_SIGNALS:
        loop.add_signal_handler(number, server.reopen_logs)
    if not await _started(server):
        return
    spare_collector()
    sys.stdout.write(json.dumps(server.ready_line()) + "\n")
    sys.stdout.flush()
    await server.quit_requested.wait()
    await server.drain()


async def _started(server: Server) -> bool:
    """Return once the sidecar serves; False when it was told to stop before that."""
    starting = asyncio.ensure_future(server.start())
    stopping = asyncio.ensure_future(server.quit_requested.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        await starting  # raises what went wrong
        return True
    starting.cancel()
    await asyncio.wait((starting,))
    return False


def _on_stop_signal(number: int, server: Server) -> None:
    if server.quit_requested.is_set():
        os._exit(_SIGNALLED + number)
    server.quit_requested.set()
