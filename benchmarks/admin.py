"""What it costs to be watched: `python -m benchmarks.admin`.

First, the data plane: a sidecar with 200 hosts gets 2,000 requests a second from a paced client, while a real Chromium
has a page of the dashboard open, in alternating rounds this sidecar's and that of another one: so the browser, which
has the other core, slows both down alike. CPU is that of the sidecar's process, dashboard included, per request; the
ratio compares neighbouring rounds.

Second, the big pages: `/clusters` and `/stats` in their forms over 10,000 hosts: how long each takes, and the longest
CPU time that one turn of the event loop took, which is what a request may have to wait.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.admin_pages import PAGES, PageSample, measure_pages
from benchmarks.claims import Claim, last_line, worst
from benchmarks.nginx import Nginx
from benchmarks.processes import cpu_seconds, on_core, processor_name
from benchmarks.proxies import service
from tests.oracle.sidecar import Sidecar

if TYPE_CHECKING:
    from playwright.async_api import Page

HOSTS = 200
RATE = 2_000
CONNECTIONS = 32
TICK_S = 0.005
WATCHED, ELSEWHERE = "watched", "not watched"
LIMIT_RATIO = 1.05
LIMIT_PAGE_MS = 300
LIMIT_HELD_MS = 10


class PacedConnection(asyncio.Protocol):
    """One keep-alive connection that is idle, or waits for one answer without a body."""

    def __init__(self, load: "PacedLoad") -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be idle."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._load.idle.append(self)

    def data_received(self, data: bytes) -> None:
        """Count the answer, which comes in one piece."""
        assert data.startswith(b"HTTP/1.1 200"), data
        self._load.answered += 1
        self._load.idle.append(self)

    def send(self) -> None:
        """Send one request."""
        assert self._transport is not None
        self._transport.write(self._load.request)

    def close(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.close()


class PacedLoad:
    """Requests at a steady rate; `answered` counts. What cannot be sent in its tick is not made up for later."""

    def __init__(self, listen: tuple[str, int], host: str) -> None:
        self.request = f"GET /0 HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
        self.idle: list[PacedConnection] = []
        self.answered = 0
        self._listen = listen

    async def run(self) -> None:
        """Send until cancelled."""
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(lambda: PacedConnection(self), *self._listen) for _ in range(CONNECTIONS)]
        last_s, due = loop.time(), 0.0
        try:
            while True:
                await asyncio.sleep(TICK_S)
                now_s = loop.time()
                due = due % 1 + (now_s - last_s) * RATE
                last_s = now_s
                for _ in range(min(int(due), len(self.idle))):
                    self.idle.pop().send()
        finally:
            for _, connection in made:
                connection.close()


@attrs.frozen(kw_only=True)
class Sample:
    """One round: microseconds of CPU per request, and the requests a second that were answered."""

    cpu_us: float
    requests_per_second: float


Rounds = dict[str, dict[str, list[Sample]]]  # by page and by whether this sidecar is the one that is watched


@contextlib.asynccontextmanager
async def browser_page() -> AsyncIterator["Page"]:
    """Run Chromium meanwhile, with one page."""
    from playwright.async_api import async_playwright  # only this benchmark needs it

    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield await browser.new_page(viewport={"width": 1440, "height": 900})
        await browser.close()


async def measure_watching(rounds: int, seconds: float) -> Rounds:
    """Run the alternating rounds and return their samples."""
    proxy_core, load_core = sorted(os.sched_getaffinity(0))[:2]
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(on_core(load_core))
        upstream = stack.enter_context(Nginx(Path(folder), ["0"], addresses=HOSTS))
        target = service(upstream.addresses)
        other = await stack.enter_async_context(Sidecar([target]))
        with on_core(proxy_core):
            sidecar = await stack.enter_async_context(Sidecar([target]))
        watched = {WATCHED: sidecar.admin, ELSEWHERE: other.admin}
        pages = {"overview": "#/", "cluster page": f"#/cluster/{target.cluster_name.replace('|', '%7C')}"}
        samples: Rounds = {page: {WATCHED: [], ELSEWHERE: []} for page in pages}
        browser = await stack.enter_async_context(browser_page())
        load = PacedLoad(sidecar.listen, target.host)
        sending = asyncio.create_task(load.run())
        await asyncio.sleep(seconds)
        for _ in range(rounds):
            for page, fragment in pages.items():
                for state, admin in watched.items():
                    await browser.goto(f"http://{admin}/{fragment}")
                    await browser.wait_for_selector(".tile, .host")
                    samples[page][state].append(await _one_round(sidecar.pid, load, seconds))
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
    return samples


async def _one_round(pid: int, load: PacedLoad, seconds: float) -> Sample:
    loop = asyncio.get_running_loop()
    spent, answered, start = cpu_seconds(pid), load.answered, loop.time()
    await asyncio.sleep(seconds)
    requests = load.answered - answered
    return Sample(
        cpu_us=(cpu_seconds(pid) - spent) / requests * 1e6, requests_per_second=requests / (loop.time() - start)
    )


def ratios(samples: dict[str, list[Sample]]) -> list[float]:
    """Return the CPU per request of the watched sidecar over that of the unwatched one, for each round."""
    pairs = zip(samples[WATCHED], samples[ELSEWHERE], strict=True)
    return [watched.cpu_us / unwatched.cpu_us for watched, unwatched in pairs]


def print_watching(console: Console, samples: Rounds) -> None:
    """Print the first table."""
    table = Table(title=f"{HOSTS} hosts, {RATE} requests/s", caption=processor_name())
    for heading in ("dashboard", "requests/s", "CPU us/request", "not watched", "ratio (least..greatest)"):
        table.add_column(heading, justify="left" if heading == "dashboard" else "right")
    for page, of_page in samples.items():
        rate = statistics.median(sample.requests_per_second for sample in of_page[WATCHED])
        cpu = {state: statistics.median(sample.cpu_us for sample in rounds) for state, rounds in of_page.items()}
        found = ratios(of_page)
        spread = f"{statistics.median(found):.3f} ({min(found):.3f}..{max(found):.3f})"
        table.add_row(page, f"{rate:.0f}", f"{cpu[WATCHED]:.1f}", f"{cpu[ELSEWHERE]:.1f}", spread)
    console.print(table)


def print_pages(console: Console, hosts: int, pages: dict[str, PageSample]) -> None:
    """Print the second table."""
    table = Table(title=f"{hosts} hosts", caption="medians; the loop is held: the longest of all rounds")
    for heading in ("page", "ms", "loop held ms", "MB"):
        table.add_column(heading, justify="left" if heading == "page" else "right")
    for name, page in pages.items():
        table.add_row(name, f"{page.ms:.0f}", f"{page.held_ms:.1f}", f"{page.size / 1e6:.1f}")
    console.print(table)


def watching_claims(samples: Rounds) -> list[Claim]:
    """Return what watching costs: of the dearer page."""
    each = [Claim.of_rounds(page, ratios(of_page), "x") for page, of_page in samples.items()]
    return [worst(f"CPU of a request while the dashboard is open, {HOSTS} hosts", each, "x", limit=LIMIT_RATIO)]


def page_claims(pages: dict[str, PageSample], hosts: int) -> list[Claim]:
    """Return the slowest page, and the longest hold of the loop by any."""
    slowest = max(pages.values(), key=lambda page: page.ms)
    longest = max(page.held_ms for page in pages.values())
    return [
        Claim(name=f"the slowest admin page over {hosts:,} hosts", value=slowest.ms, unit="ms", limit=LIMIT_PAGE_MS),
        Claim(name="the longest hold of the loop by any", value=longest, unit="ms", limit=LIMIT_HELD_MS),
    ]


def main() -> int:
    """Run both parts; return 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each state, default 5")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a round, default 3")
    parser.add_argument("--hosts", type=int, default=10_000, help="hosts of the big pages, default 10000")
    parser.add_argument("--part", choices=("watching", "pages", "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print all figures as a last line of JSON")
    args = parser.parse_args()
    console = Console()
    figures: dict[str, object] = {}
    made: list[Claim] = []
    if args.part != "pages":
        samples = asyncio.run(measure_watching(args.rounds, args.seconds))
        print_watching(console, samples)
        made += watching_claims(samples)
        figures["watching"] = {
            page: {state: [attrs.asdict(sample) for sample in rounds] for state, rounds in of_page.items()}
            for page, of_page in samples.items()
        }
        figures["ratio"] = {page: statistics.median(ratios(of_page)) for page, of_page in samples.items()}
    if args.part != "watching":
        pages = measure_pages(args.hosts, PAGES, rounds=args.rounds)
        print_pages(console, args.hosts, pages)
        made += page_claims(pages, args.hosts)
        figures["pages"] = {name: attrs.asdict(page) for name, page in pages.items()}
    for claim in made:
        if not claim.kept:
            console.print(f"a limit is not kept: {claim.name}: {claim.value:.3g} {claim.unit}, limit {claim.limit:g}")
    if args.json:
        print(last_line(figures, made))
    return 0 if all(claim.kept for claim in made) else 1


if __name__ == "__main__":
    sys.exit(main())
