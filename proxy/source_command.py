"""`outlier source`: a folder as a source of configuration, over MCP and MCP over xDS.

The first line on stdout says where it listens. SIGINT and SIGTERM end it with 0.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from outlier import ConfigError
from proxy.admin.prometheus import prometheus_text
from proxy.config.address import Address
from proxy.config.feed_mode import FeedMode
from proxy.config.node import NodeConfig
from proxy.config.resource import Contents
from proxy.config.source_options import DEFAULT_MAX_MESSAGE_BYTES, ConnectionOptions, SourceTls
from proxy.errors import ListenError
from proxy.push.file_source import FileSource, FileTarget
from proxy.push.pipeline import ConfigPipeline
from proxy.server import SystemRandom

if TYPE_CHECKING:
    from proxy.push.envoy_content import EnvoyContent
    from proxy.push.source_server import SourceServer

_DEFAULT_LISTEN = "127.0.0.1:15010"  # where istiod serves xDS in plain text


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier source`."""
    parser = subparsers.add_parser(
        "source",
        help="serve a folder over MCP and MCP over xDS",
        description=(
            "Serve the resources of files and folders over MCP and MCP over xDS (state of the world and incremental), "
            "watching them for changes. While a new version of a resource is bad, its last good one is served."
        ),
        epilog="example: outlier source rules/ --listen 127.0.0.1:15010",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file or folder of resources")
    parser.add_argument("--listen", default=_DEFAULT_LISTEN, metavar="ADDR", help=f"default {_DEFAULT_LISTEN}")
    parser.add_argument(
        "--dial", action="append", default=[], metavar="ADDR", help="a sink that listens itself; repeatable"
    )
    parser.add_argument(
        "--admin", metavar="ADDR", help="serves /stats/prometheus and /journal (the last requests of each sink)"
    )
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in (FeedMode.SPEC, FeedMode.PILOT)],
        default=FeedMode.SPEC.value,
        help="the protocols by their text, or as Istio's own sources are; default spec",
    )
    parser.add_argument(
        "--envoy-xds",
        action="store_true",
        help="xDS serves clusters and endpoints (CDS, EDS) to Envoys instead of the resources themselves",
    )
    parser.add_argument(
        "--namespace", default="default", help="of the Envoys' workloads, with --envoy-xds; default default"
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="PEM; together with --tls-key")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM")
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="PEM; sinks must show a certificate that it signs")
    parser.add_argument(
        "--max-message-size",
        type=int,
        default=DEFAULT_MAX_MESSAGE_BYTES,
        metavar="BYTES",
        help=f"largest request taken, default {DEFAULT_MAX_MESSAGE_BYTES}",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return 0.

    Raises:
        ConfigError: An option is refused.
        ProxyError: A file is missing or wrong, or the address cannot be listened on.
    """
    listen = _address("--listen", args.listen)
    sinks = [_address("--dial", text) for text in args.dial]
    admin = Address.parse(_address("--admin", args.admin)) if args.admin else None
    if admin is not None and admin.path:
        raise ConfigError("--admin", args.admin, "must be host:port")
    asyncio.run(_serve(args, listen, sinks, admin))
    return 0


def connection_options(args: argparse.Namespace) -> ConnectionOptions:
    """Return how streams are carried.

    Raises:
        ConfigError: Certificate and key do not come together.
    """
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ConfigError("--tls-certificate", args.tls_certificate, "needs --tls-key, and the other way round")
    tls = None
    if args.tls_certificate is not None:
        tls = SourceTls(ca=args.tls_ca, certificate=args.tls_certificate, key=args.tls_key)
    return ConnectionOptions(max_message_bytes=args.max_message_size, tls=tls)


def _address(flag: str, text: str) -> str:
    try:
        return str(Address.parse(text))
    except ValueError as exc:
        raise ConfigError(flag, text, str(exc)) from exc


async def _serve(args: argparse.Namespace, listen: str, sinks: list[str], admin: Address | None) -> None:
    from proxy.push.source_server import SourceServer  # grpc: a third of a second that no other command needs

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = SourceServer(connection_options(args), mode=FeedMode(args.mode), random=SystemRandom())
    target: FileTarget = server
    if args.envoy_xds:
        from proxy.push.envoy_content import EnvoyContent  # loads Envoy's messages

        content = EnvoyContent()
        server.serve_xds(content)
        target = _Converted(server, content, NodeConfig(namespace=args.namespace))
    files = FileSource(args.paths, target)
    files.load()
    watching = loop.create_task(files.watch())
    runner: web.AppRunner | None = None
    try:
        address = await server.start(listen)
        for sink in sinks:
            server.dial_sink(sink)
        ready = {"listen": address, "pid": os.getpid()}
        if admin is not None:
            runner, ready["admin"] = await _start_admin(server, admin)
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        if runner is not None:
            await runner.cleanup()
        await server.close()


async def _start_admin(server: "SourceServer", address: Address) -> tuple[web.AppRunner, str]:
    """Serve statistics and journal; return what must be cleaned up, and the address with the port it really has."""

    async def prometheus(_request: web.Request) -> web.Response:
        metrics = sorted(server.metrics(), key=lambda metric: metric.name)
        return web.Response(text="".join(prometheus_text(metrics)), content_type="text/plain")

    async def journal(_request: web.Request) -> web.Response:
        return web.json_response(
            {peer: [entry.as_dict() for entry in entries] for peer, entries in server.journal().items()}
        )

    application = web.Application()
    application.router.add_get("/stats/prometheus", prometheus)
    application.router.add_get("/journal", journal)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as exc:
        await runner.cleanup()
        raise ListenError(str(address), exc.strerror or str(exc)) from exc
    return runner, str(Address(address.host, runner.addresses[0][1]))


class _Converted:
    """Feeds files to a source, and what they come to as clusters to its Envoys."""

    def __init__(self, server: "SourceServer", content: "EnvoyContent", node: NodeConfig) -> None:
        self._server = server
        self._content = content
        self._pipeline = ConfigPipeline(node, apply=content.apply)

    def update(self, source: str, parts: Mapping[str, Contents], removed: Iterable[str] = ()) -> None:
        """Replace parts by name, and drop others."""
        gone = tuple(removed)
        self._pipeline.update(source, parts, gone)
        self._server.update(source, parts, gone)
