"""A whole sidecar inside a test: real sockets, and detectors whose time the test moves.

It is the product's `Server` with another clock and seeded chance; nothing of the data plane is replaced. `async with`
runs it in the test's event loop; a plain `with` runs it in a thread and gives its synchronous twin, `threaded`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import attrs
from yarl import URL

from outlier import EnvoyRelease, OutlierDetection, SeededRandom, Verdict
from proxy.cluster.cluster import Cluster
from proxy.cluster.outlier_driver import OutlierDriver
from proxy.cluster.time_source import LoopTime
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, ServiceListener
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.snapshot import ConfigSnapshot
from proxy.event_stream import StreamEvent
from proxy.push.file_source import ConfigRejectedError
from proxy.server import Server
from proxy.testing.ejection_report import (
    EJECTION_KINDS,
    EjectedHosts,
    Endpoint,
    address_of,
    name,
    names,
    timeline_text,
)
from proxy.testing.given_names import GivenNames
from proxy.testing.library_logs import log_as_a_library
from proxy.testing.sidecar_config import SERVICE_PORT, Rule, sidecar_config
from proxy.testing.simulated_clock import SimulatedClock
from proxy.testing.threaded import ThreadedSidecar

_LOOPBACK = Address("127.0.0.1", 0)


class Sidecar:
    """A sidecar for one service of a test.

    >>> async with FaultyUpstream() as good, FaultyUpstream(status=503) as bad:  # doctest: +SKIP
    ...     async with Sidecar(destination_rule={...}, endpoints=[good, bad]) as sidecar:
    ...         for _ in range(20):
    ...             await sidecar.get("/")
    ...         assert sidecar.ejected() == [bad]
    ...         sidecar.advance(seconds=30)
    ...         assert sidecar.ejected() == []

    Args:
        endpoints: The hosts of the service: running upstreams, or `host:port`.
        destination_rule: The rule: a spec, a Kubernetes object or an MCP resource, as mapping, as YAML text, or a
            `Path` to a file or folder.
        outlier_detection: In place of a rule: its `outlierDetection` block as mapping, or Envoy's settings as
            `OutlierDetection`. With the latter panic is off.
        config: Further resources (VirtualServices, ...), each given like a rule; entries for the service are left out.
        service: Host of the service; None takes that of the only rule.
        port: Its port, 1..65535.
        names: What the names of other services' hosts resolve to, IP addresses; no DNS server is asked, other names
            are not there. The attribute of this name may be changed, and is looked at anew each second.
        envoy_release: Whose detection.
        istio_release: Whose conversion.
        access_log: Write an access log there.
        clock: Time of the detectors; None makes one that stands at 0. Not with `real_time`.
        real_time: Let the detectors' time pass by itself; `advance` is then refused.
        seed: Of all chance: balancing, enforcement, jitter, ids.

    When the block is left by an exception, the exception gets the ejection timeline as a note.
    """

    def __init__(
        self,
        *,
        endpoints: Iterable[Endpoint],
        destination_rule: Rule | None = None,
        outlier_detection: OutlierDetection | Mapping[str, Any] | None = None,
        config: Rule | Iterable[Rule] = (),
        service: str | None = None,
        port: int = SERVICE_PORT,
        names: Mapping[str, Sequence[str]] | None = None,
        envoy_release: EnvoyRelease = EnvoyRelease.V1_40,
        istio_release: IstioRelease = CURRENT,
        access_log: Path | None = None,
        clock: SimulatedClock | None = None,
        real_time: bool = False,
        seed: int = 1,
    ) -> None:
        if real_time and clock is not None:
            raise ValueError("give either clock or real_time")
        self.endpoints = tuple(endpoints)
        self.names = dict(names or {})
        self.clock = None if real_time else clock or SimulatedClock()
        self._bootstrap = Bootstrap(
            listen=_LOOPBACK,
            admin=_LOOPBACK,
            access_log=access_log,
            envoy_release=envoy_release,
            istio_release=istio_release,
            drain_time_ms=0,
        )
        self._config_arguments: dict[str, Any] = {
            "destination_rule": destination_rule,
            "outlier_detection": outlier_detection,
            "config": config,
            "service": service,
            "port": port,
        }
        self._settings = outlier_detection if isinstance(outlier_detection, OutlierDetection) else None
        self._seed = seed
        self._server: Server | None = None
        self._session: aiohttp.ClientSession | None = None
        self._threaded: ThreadedSidecar | None = None
        self._start_ms = 0
        self._events: list[StreamEvent] = []
        self._changed = asyncio.Event()
        self.url = ""
        self.admin_url = ""

    def __repr__(self) -> str:
        return f"Sidecar({self.url or 'not started'}, {len(self.endpoints)} endpoints)"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            exc.add_note(self.timeline())
        await self.close()

    def __enter__(self) -> ThreadedSidecar:
        self._threaded = ThreadedSidecar(self)
        return self._threaded.__enter__()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._threaded is not None
        self._threaded.__exit__(exc_type, exc, traceback)

    async def start(self) -> None:
        """Listen; `url` then is where requests for the service go.

        Raises:
            ConfigRejectedError: A resource is refused.
            SidecarConfigError: It cannot be told which service is meant.
            RuntimeError: The sidecar was started before.
        """
        if self._server is not None:
            raise RuntimeError("a Sidecar is started once")
        log_as_a_library()
        found = sidecar_config(node=self._bootstrap.node, endpoints=self.endpoints, **self._config_arguments)
        listener = ServiceListener(found.service, self._config_arguments["port"], _LOOPBACK)
        bootstrap = attrs.evolve(self._bootstrap, services=(listener,))
        clock = self.clock
        server = Server(
            bootstrap,
            time_source=clock,
            drive_sweeps=OutlierDriver if clock is None else clock.drive,
            random=SeededRandom(self._seed),
            resolver=GivenNames(self.names, asyncio.get_running_loop()),
        )
        time_source = clock or LoopTime(asyncio.get_running_loop())
        self._start_ms = time_source.system_ms() if clock is None else clock.epoch_ms
        server.events.subscribe(self._on_event)
        errors = server.pipeline.update("test", found.parts)
        if errors:
            raise ConfigRejectedError(errors)
        if self._settings is not None:
            server.apply(_with_settings(server.snapshot, found.service, self._settings))
        await server.start()
        self._server = server
        ready = server.ready_line()
        services = ready["services"]
        assert isinstance(services, dict)
        self.url = f"http://{services[listener.service]}"
        self.admin_url = f"http://{ready['admin']}"
        self._session = aiohttp.ClientSession()

    async def close(self) -> None:
        """Stop; events and timeline stay."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._server is not None:
            await self._server.close()

    # Requests

    async def get(self, path: str = "/", **options: Any) -> aiohttp.ClientResponse:
        """Send a GET through the proxy; see `request`."""
        return await self.request("GET", path, **options)

    async def post(self, path: str = "/", **options: Any) -> aiohttp.ClientResponse:
        """Send a POST through the proxy; see `request`."""
        return await self.request("POST", path, **options)

    async def request(self, method: str, path: str = "/", **options: Any) -> aiohttp.ClientResponse:
        """Send a request through the proxy and return the response, its body read.

        Args:
            method: Any.
            path: With its query, sent as it is.
            options: As of `aiohttp.ClientSession.request`; redirects are not followed unless asked for.
        """
        if self._session is None:
            raise RuntimeError("the sidecar is not running; use `async with`, or await `start`")
        url = URL(self.url + path, encoded=True)
        response = await self._session.request(method, url, **{"allow_redirects": False, **options})
        await response.read()  # not in a block: leaving it would forbid to read the body once more
        return response

    # Time

    def advance(self, *, seconds: float = 0, minutes: float = 0, ms: int = 0) -> None:
        """Let so much time pass for the detectors, sweeps included; the sum of the three, 0 or more.

        Raises:
            RuntimeError: The sidecar runs in real time.
            ValueError: The time is negative.
        """
        if self.clock is None:
            raise RuntimeError("this sidecar runs in real time; its clock cannot be advanced")
        self.clock.advance(ms + round((seconds + 60 * minutes) * 1000))

    # What the detectors say

    def ejected(self) -> EjectedHosts:
        """Return the endpoints that are ejected now, in the order they were given."""
        addresses = {
            monitor.address
            for cluster in self._clusters()
            if cluster.detector is not None
            for monitor in cluster.detector.hosts
            if monitor.ejected
        }
        return EjectedHosts([host for host in self.endpoints if address_of(host) in addresses], self)

    def assert_ejected(self, *hosts: Endpoint) -> None:
        """Hold that exactly these hosts are ejected, in any order.

        Raises:
            AssertionError: They are not; the message has the reasons of each host in question, and the timeline.
        """
        found = self.ejected()
        if {address_of(host) for host in found} != {address_of(host) for host in hosts}:
            raise AssertionError("\n".join(["other hosts are ejected than expected", *found.difference(hosts)]))

    async def wait_ejected(self, *hosts: Endpoint, within_seconds: float = 5.0) -> None:
        """Wait until all of these hosts are ejected; somebody else must send the requests.

        Raises:
            AssertionError: They were not within so many seconds of real time.
        """
        await self._wait(hosts, ejected=True, within_seconds=within_seconds)

    async def wait_unejected(self, *hosts: Endpoint, within_seconds: float = 3600.0) -> None:
        """Let the clock go on, sweep by sweep, until none of these hosts is ejected.

        Raises:
            AssertionError: One still was after so many seconds of the detectors' time; in real time they are waited
                for.
        """
        if self.clock is None:
            await self._wait(hosts, ejected=False, within_seconds=within_seconds)
            return
        end_ms = self.clock.monotonic_ms() + round(within_seconds * 1000)
        while not self._is(hosts, ejected=False):
            sweep_ms = self.clock.next_sweep_ms
            if sweep_ms is None or sweep_ms > end_ms:
                raise AssertionError(self._still(hosts, ejected=True, within_seconds=within_seconds))
            self.clock.advance(max(sweep_ms - self.clock.monotonic_ms(), 0))

    def verdict(self, endpoint: Endpoint) -> Verdict:
        """Return why a host is, or is not, ejected, as exact numbers.

        Raises:
            KeyError: No cluster with a detector has the host.
        """
        address = address_of(endpoint)
        for cluster in self._clusters():
            for host in cluster.hosts:
                if host.address == address and cluster.detector is not None:
                    panic = cluster.load_balancer.panic[host.priority]
                    return cluster.detector.verdict(host.monitor, panic=panic)
        raise KeyError(f"no cluster with outlier detection has {address}")

    def explain(self, endpoint: Endpoint) -> str:
        """Return why a host is, or is not, ejected, a sentence a line."""
        try:
            return "\n".join(self.verdict(endpoint).reasons())
        except KeyError as exc:
            return str(exc.args[0])

    @property
    def events(self) -> Sequence[StreamEvent]:
        """Ejections, returns, and detections that were not enforced, so far; as the admin's `/events` has them."""
        return tuple(event for event in self._events if event.kind in EJECTION_KINDS)

    def timeline(self) -> str:
        """Return the events so far, a line each."""
        return timeline_text(self._events, self._start_ms)

    # Own

    def _clusters(self) -> Iterable[Cluster]:
        return () if self._server is None else self._server.cluster_manager.clusters.values()

    def _on_event(self, event: StreamEvent) -> None:
        self._events.append(event)
        self._changed.set()

    def _is(self, hosts: Sequence[Endpoint], *, ejected: bool) -> bool:
        out = {address_of(host) for host in self.ejected()}
        return all((address_of(host) in out) is ejected for host in hosts)

    async def _wait(self, hosts: Sequence[Endpoint], *, ejected: bool, within_seconds: float) -> None:
        try:
            async with asyncio.timeout(within_seconds):
                while not self._is(hosts, ejected=ejected):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(self._still(hosts, ejected=not ejected, within_seconds=within_seconds)) from None

    def _still(self, hosts: Sequence[Endpoint], *, ejected: bool, within_seconds: float) -> str:
        lines = [f"after {within_seconds:g} s not all of {names(hosts)} are {'back' if ejected else 'ejected'}"]
        for host in hosts:
            lines += [f"{name(host)}:", *(f"  {line}" for line in self.explain(host).splitlines())]
        return "\n".join([*lines, self.timeline()])


def _with_settings(snapshot: ConfigSnapshot, service: str, settings: OutlierDetection) -> ConfigSnapshot:
    clusters = {
        name: attrs.evolve(config, outlier_detection=settings) if config.service_host == service else config
        for name, config in snapshot.clusters.items()
    }
    return attrs.evolve(snapshot, clusters=clusters)
