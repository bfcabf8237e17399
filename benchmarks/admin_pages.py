"""How long the admin pages of a big sidecar take, and for how long each holds the event loop."""

import asyncio
import http.client
import json
import multiprocessing
import multiprocessing.connection
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

PAGES = (
    "/clusters",
    "/clusters?format=json",
    "/stats",
    "/stats?format=json",
    "/stats/prometheus",
    "/stats?filter=ejections_active",
    "/dashboard/state",
)
_HOSTS_PER_SERVICE = 100
_PAUSE_S = 0.2  # between two pages: the loop does what the page before left for it


@attrs.frozen(kw_only=True)
class PageSample:
    """One page: the median of its times, the longest hold of the loop in any round, and its bytes."""

    ms: float
    held_ms: float
    size: int


def measure_pages(hosts: int, pages: Sequence[str], *, rounds: int) -> dict[str, PageSample]:
    """Start a sidecar with so many hosts in a process of its own, and ask it for each page, in alternating rounds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        _write_config(Path(folder), hosts)
        process = context.Process(target=_serve, args=(folder, theirs), daemon=True)
        process.start()
        host, _, port = ours.recv().rpartition(":")
        times: dict[str, list[float]] = {page: [] for page in pages}
        held: dict[str, list[float]] = {page: [] for page in pages}
        sizes = {}
        for _ in range(rounds):
            for page in pages:
                time.sleep(_PAUSE_S)
                ours.send("reset")
                ours.recv()
                start = time.perf_counter()
                sizes[page] = _get(host, int(port), page)
                times[page].append((time.perf_counter() - start) * 1000)
                ours.send("longest")
                held[page].append(ours.recv())
        ours.send("end")
        process.join()
    return {
        page: PageSample(ms=statistics.median(times[page]), held_ms=max(held[page]), size=sizes[page]) for page in pages
    }


def _get(host: str, port: int, page: str) -> int:
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", page)
    response = connection.getresponse()
    assert response.status == 200
    size = len(response.read())
    connection.close()
    return size


def _write_config(folder: Path, hosts: int) -> None:
    for number in range(hosts // _HOSTS_PER_SERVICE):
        name = f"s{number}.default.svc.cluster.local"
        endpoints = [
            {"address": f"10.{number // 250}.{number % 250}.{host}"} for host in range(1, _HOSTS_PER_SERVICE + 1)
        ]
        entry = {
            "hosts": [name],
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            "resolution": "STATIC",
            "endpoints": endpoints,
        }
        rule = {"host": name, "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 5}}}
        for kind, spec in (("ServiceEntry", entry), ("DestinationRule", rule)):
            resource = {
                "apiVersion": "networking.istio.io/v1",
                "kind": kind,
                "metadata": {"name": f"s{number}", "namespace": "default"},
                "spec": spec,
            }
            (folder / f"{kind}-{number}.json").write_text(json.dumps(resource))


def _serve(folder: str, pipe: multiprocessing.connection.Connection) -> None:
    from proxy.config.bootstrap import LoopChoice
    from proxy.run_command import choose_loop

    with asyncio.Runner(loop_factory=choose_loop(LoopChoice.AUTO)) as runner:
        runner.run(_serve_until_told(Path(folder), pipe))


async def _serve_until_told(folder: Path, pipe: multiprocessing.connection.Connection) -> None:
    from proxy.config.address import Address
    from proxy.config.bootstrap import Bootstrap
    from proxy.run_command import spare_collector
    from proxy.server import Server

    nowhere = Address("127.0.0.1", 0)
    server = Server(Bootstrap(config_paths=(folder,), listen=nowhere, admin=nowhere, drain_time_ms=0))
    await server.start()
    spare_collector()
    pipe.send(server.ready_line()["admin"])
    loop = asyncio.get_running_loop()
    longest = 0.0
    end = asyncio.Event()

    def on_message() -> None:
        nonlocal longest
        message = pipe.recv()
        if message == "end":
            end.set()
        else:
            pipe.send(longest * 1000)
            longest = 0.0

    loop.add_reader(pipe.fileno(), on_message)
    while not end.is_set():
        before = time.thread_time()  # of this thread only: what other processes take is not the page's doing
        await asyncio.sleep(0)  # one turn of the loop: whatever is due runs once
        longest = max(longest, time.thread_time() - before)
    loop.remove_reader(pipe.fileno())
    await server.close()
