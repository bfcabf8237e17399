"""A long day in a short time: `python -m benchmarks.soak`.

Clients load the sidecar while its upstreams, three nginx processes, are killed and started again; with `--minutes`
they also hang, clients read slowly or leave, and the configuration is written anew each second. At the end every
answer must be one that Envoy would give, and nothing may be left behind: no request, no connection, no file
descriptor, and no memory. `--proxy envoy` puts a real Envoy in the sidecar's place, to see what it does.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import uvloop
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.claims import Claim, last_line
from benchmarks.nginx import Nginx, parse_size
from benchmarks.processes import open_descriptors, resident_bytes
from benchmarks.soak_traffic import Counter, SteadyClient, leave_early, read_slowly
from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar, resources
from tests.oracle.subject import Subject

UPSTREAMS = 3
SIZE = "2k"
LARGE = "1m"
# Two of three may be ejected: one that is down, and one that is back but not trusted yet.
RULE = {
    "consecutive5xxErrors": 5,
    "interval": "200ms",
    "baseEjectionTime": "500ms",
    "maxEjectionPercent": 67,
}
DOWN_S = 0.3
HANG_S = 2.0
BETWEEN_FAULTS_S = 3.0
CALIBRATION_S = 5.0
SETTLE_DEADLINE_S = 10.0
GROWTH_LIMIT = 1.05
_RESET = "upstream connect error or disconnect/reset before headers. reset reason: "
EXPECTED = re.compile(
    rf"200|503 {_RESET}(remote connection failure|connection termination|connection timeout)|"
    r"504 upstream request timeout|200 cut|left early|slow reader: (200|503|504)( cut)?"
)
LIVE_GAUGES = re.compile(
    r"\.(downstream_cx_active|downstream_rq_active|upstream_rq_active|upstream_rq_pending_active)$"
)


@attrs.frozen
class Footprint:
    """What the kernel says of the proxy at one moment; `second` counts from the start of the load."""

    second: float
    resident_mb: float
    descriptors: int


class Soak:
    """One run: the upstreams, the proxy, the load and the faults."""

    def __init__(
        self, subject: Subject, target: Service, upstreams: Sequence[Nginx], options: argparse.Namespace
    ) -> None:
        self._subject = subject
        self._target = target
        self._upstreams = upstreams
        self._options = options
        self._chance = random.Random(options.seed)
        self.counter = Counter(parse_size(SIZE))
        self.footprints: list[Footprint] = []
        self.faults: collections.Counter[str] = collections.Counter()
        self._started = time.monotonic()

    async def run(self) -> None:
        """Run the load and the faults side by side until the load is over."""
        pause_s = await self._calibrate() if self._options.minutes else 0.0
        self._started = time.monotonic()
        if self._options.minutes:
            asyncio.get_running_loop().call_later(self._options.minutes * 60, self._stop)
            background = (self._watch(), self._misbehave(), self._reload(), self._slow_readers(), self._leavers())
        else:
            self.counter.remaining = self._options.requests
            self.counter.more = self._options.restarts > 0
            background = (self._watch(), self._restart_in_turn())
        tasks = [asyncio.create_task(work) for work in background]
        await self._load(pause_s)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _stop(self) -> None:
        self.counter.remaining = 0

    async def _load(self, pause_s: float) -> None:
        clients = [
            SteadyClient(self._subject.listen, self._request(SIZE), self.counter, pause_s)
            for _ in range(self._options.connections)
        ]
        await asyncio.gather(*(client.connect() for client in clients))
        await asyncio.gather(*(client.done for client in clients))

    async def _calibrate(self) -> float:
        """Return the pause between two requests of one client that gives the wanted share of what the proxy can do."""
        asyncio.get_running_loop().call_later(CALIBRATION_S, self._stop)
        await self._load(0.0)
        done = self.counter.answers.total()
        self.counter.answers.clear()
        self.counter.remaining = float("inf")
        return self._options.connections * CALIBRATION_S / done / self._options.load

    def _request(self, size: str) -> bytes:
        return f"GET /{size} HTTP/1.1\r\nHost: {self._target.host}\r\n\r\n".encode()

    async def _watch(self) -> None:
        while True:
            second = time.monotonic() - self._started
            self.footprints.append(footprint(self._subject, second))
            await asyncio.sleep(1.0 if self._options.minutes else 0.25)

    async def _restart_in_turn(self) -> None:
        total = self._options.requests
        for number in range(self._options.restarts):
            threshold = total * (self._options.restarts - number - 0.5) / self._options.restarts
            while self.counter.remaining > threshold:  # noqa: ASYNC110 (a number of requests, not an event)
                await asyncio.sleep(0.01)
            await self._kill(self._upstreams[number % UPSTREAMS])
        self.counter.more = False

    async def _misbehave(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0, 2 * BETWEEN_FAULTS_S))
            upstream = self._chance.choice(self._upstreams)
            if self._chance.random() < 0.5:
                await self._kill(upstream)
            else:
                await self._hang(upstream)

    async def _kill(self, upstream: Nginx) -> None:
        self.faults["killed and started"] += 1
        upstream.kill()
        try:
            await asyncio.sleep(DOWN_S)
        finally:
            upstream.start()

    async def _hang(self, upstream: Nginx) -> None:
        self.faults["hung"] += 1
        upstream.hang()
        try:
            await asyncio.sleep(HANG_S)
        finally:
            upstream.resume()

    async def _reload(self) -> None:
        path = self._subject.directory / "config" / f"{self._target.host}.yaml"
        while path.exists():  # Envoy has no such file
            await asyncio.sleep(1.0)
            self.faults["configuration written"] += 1
            # Another threshold each time, so that the proxy must apply it.
            rule = RULE | {"consecutive5xxErrors": 5 + self.faults["configuration written"] % 2}
            changed = attrs.evolve(self._target, outlier_detection=rule)
            fresh = self._subject.directory / "fresh.yaml"
            fresh.write_text(yaml.safe_dump_all(resources(changed), sort_keys=False))
            fresh.replace(path)

    async def _slow_readers(self) -> None:
        async with asyncio.TaskGroup() as readers:
            while True:
                await asyncio.sleep(0.5)
                expected = parse_size(LARGE)
                readers.create_task(read_slowly(self._subject.listen, self._request(LARGE), expected, self.counter))

    async def _leavers(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            after_head = self._chance.random() < 0.5
            await leave_early(self._subject.listen, self._request(LARGE), self.counter, after_head=after_head)


def footprint(subject: Subject, second: float) -> Footprint:
    """Look at the proxy's process."""
    return Footprint(round(second, 1), round(resident_bytes(subject.pid) / 1e6, 2), open_descriptors(subject.pid))


async def gauges(subject: Subject) -> dict[str, int]:
    """Return the gauges of what is alive in the proxy, admin connections aside."""
    page = json.loads(await subject.get("/stats?format=json"))
    return {
        stat["name"]: stat["value"]
        for stat in page["stats"]
        if "value" in stat and LIVE_GAUGES.search(stat["name"]) and "admin." not in stat["name"]
    }


async def leftovers(subject: Subject, target: Service, before: int) -> list[str]:
    """Wait for the proxy to come to rest; return what did not go away.

    Idle upstream connections stay, by design; each is one descriptor more than `before`.
    """
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while True:
        alive = {name: value for name, value in (await gauges(subject)).items() if value}
        idle = (await subject.stats(target.cluster_name)).get("upstream_cx_active", 0)
        surplus = open_descriptors(subject.pid) - before - idle
        if (not alive and surplus <= 0) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    found = [f"{name} is {value}" for name, value in sorted(alive.items())]
    if surplus > 0:
        found.append(f"{surplus} file descriptors more than before, besides {idle} idle upstream connections")
    return found


def growth(footprints: Sequence[Footprint], settled_after_s: float) -> tuple[float, float]:
    """Return the resident memory in MB when the proxy had settled, and the most of the last tenth of the run."""
    settled = next((look for look in footprints if look.second >= settled_after_s), footprints[-1])
    last = footprints[-max(1, len(footprints) // 10) :]
    return settled.resident_mb, max(look.resident_mb for look in last)


async def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run one soak and return its findings."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        upstreams = [stack.enter_context(Nginx(directory, [SIZE, LARGE])) for _ in range(UPSTREAMS)]
        target = Service(
            host="soak.test",
            addresses=[upstream.address for upstream in upstreams],
            outlier_detection=RULE,
            timeout_ms=1_000,
        )
        async with (Envoy if options.proxy == "envoy" else Sidecar)([target]) as subject:
            await subject.stats(target.cluster_name)  # the admin connection is open from here on, and counted
            before = open_descriptors(subject.pid)
            run = Soak(subject, target, upstreams, options)
            await run.run()
            left = await leftovers(subject, target, before)
            lines = [event.line for event in subject.events(target.cluster_name)]
            events = collections.Counter(
                line["action"] for line in lines if line["enforced"] or line["action"] == "UNEJECT"
            )
    lasted_s = run.footprints[-1].second
    settled_mb, last_mb = growth(run.footprints, 60.0 if lasted_s > 120 else lasted_s / 4)
    return {
        "proxy": options.proxy,
        "seconds": lasted_s,
        "answers": dict(run.counter.answers.most_common()),
        "unexpected": {text: count for text, count in run.counter.answers.items() if not EXPECTED.fullmatch(text)},
        "faults": dict(run.faults),
        "events": dict(events),
        "left_behind": left,
        "resident_mb": {"settled": settled_mb, "last": last_mb},
        "footprints": [attrs.astuple(look) for look in run.footprints],
    }


def claims(found: dict[str, Any]) -> list[Claim]:
    """Return what may not happen at all, and how memory may grow."""
    answers = sum(found["answers"].values())
    memory = found["resident_mb"]
    name = f"{answers:,} answers while {sum(found['faults'].values())} upstreams fail: those Envoy would not give"
    return [
        Claim(name=name, value=float(sum(found["unexpected"].values())), unit="", limit=0.0),
        Claim(
            name="requests, connections and descriptors left behind",
            value=float(len(found["left_behind"])),
            unit="",
            limit=0.0,
        ),
        Claim(
            name="memory at the end, over that once settled",
            value=memory["last"] / memory["settled"],
            unit="x",
            limit=GROWTH_LIMIT,
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 when something was unexpected, left behind or grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="(default %(default)s)")
    parser.add_argument("--connections", type=int, default=64, help="(default %(default)s)")
    parser.add_argument("--restarts", type=int, default=10, help="kills spread over the requests (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=0.0, help="run so long instead, with every kind of fault")
    parser.add_argument(
        "--load", type=float, default=0.7, help="with --minutes: share of what it can do (default %(default)s)"
    )
    parser.add_argument("--proxy", choices=("sidecar", "envoy"), default="sidecar", help="(default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults' schedule (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    found = uvloop.run(soak(options))
    shown = Table(title=f"Answers of the {options.proxy} in {found['seconds']:.0f} s")
    shown.add_column("answer")
    shown.add_column("count", justify="right")
    for answer, count in found["answers"].items():
        shown.add_row(answer, str(count), style="red" if answer in found["unexpected"] else None)
    console = Console()
    console.print(shown)
    memory = found["resident_mb"]
    problems = [f"unexpected: {count} x {answer}" for answer, count in found["unexpected"].items()]
    problems += [f"left behind: {text}" for text in found["left_behind"]]
    if memory["last"] > memory["settled"] * GROWTH_LIMIT:
        problems.append(f"memory grew from {memory['settled']} to {memory['last']} MB")
    console.print(f"faults: {found['faults']}; events: {found['events']}")
    console.print(f"resident memory: {memory['settled']} MB once settled, {memory['last']} MB at the end")
    console.print("\n".join(problems) if problems else "nothing unexpected, nothing left behind", style="bold")
    if options.json:
        print(last_line(found, claims(found)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
