"""Consistent hashing by header: each of 1,000 keys goes to the same host through the sidecar as through a real Envoy.

For ring hash and maglev, 3 to 8 hosts; with all hosts in, with one ejected, and in panic. Hosts are hashed by their
addresses, so both proxies have the same upstreams.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

import attrs
import pytest

from tests.oracle import envoy as envoy_module
from tests.oracle import sidecar as sidecar_module
from tests.oracle.envoy import Envoy
from tests.oracle.patience import equal, patiently
from tests.oracle.service import AIM_HEADER, Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

KEYS = tuple(f"key-{number}" for number in range(1_000))
SIZES = range(3, 9)
POLICIES = ("RING_HASH", "MAGLEV")
PHASES = ("before", "one ejected", "panic")
SETTLE_S = 0.5  # until Envoy's worker has heard of an ejection, and the sidecar's new table is built
BATCH = 50  # requests sent ahead on one connection

_HOST = re.compile(rb"HTTP/1\.1 (\d{3}) .*?\r\nx-host: (\d+)\r\n", re.DOTALL)


class NumberedHost(asyncio.Protocol):
    """Answers 200 with its number; `/fail/<its number>` gets 503."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *requests, self._data = (self._data + data).split(b"\r\n\r\n")
        for request in requests:
            status = b"503" if request.startswith(b"GET /fail/%d " % self._number) else b"200"
            self._transport.write(b"HTTP/1.1 %b X\r\nx-host: %d\r\ncontent-length: 0\r\n\r\n" % (status, self._number))


@attrs.frozen(kw_only=True)
class Outcome:
    """What one proxy did for one service: the host of each key by phase, hosts ejected, and picks counted as panic."""

    picks: Mapping[str, Sequence[tuple[int, int]]]
    ejected: Sequence[int]
    lb_healthy_panic: int


Pair = tuple[Outcome, Outcome]


def service_name(policy: str, size: int) -> str:
    return f"{policy.lower().replace('_', '-')}-{size}.example"


async def request_all(subject: Subject, host: str, keys: Sequence[str], path: str = "/") -> list[tuple[int, int]]:
    """Return status and number of the host that answered, for each key."""
    reader, writer = await asyncio.open_connection(*subject.listen)
    answers: list[tuple[int, int]] = []
    received = b""
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        writer.write(
            b"".join(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{AIM_HEADER}: {key}\r\n\r\n".encode() for key in batch)
        )
        while len(answers) < start + len(batch):
            received += await reader.read(65_536)
            *heads, received = received.split(b"\r\n\r\n")
            for head in heads:
                match = _HOST.match(head + b"\r\n")
                assert match is not None, head
                answers.append((int(match[1]), int(match[2])))
    writer.close()
    await writer.wait_closed()
    return answers


async def eject(subject: Subject, service: Service, number: int) -> None:
    """Make one host fail once; its key is whichever leads there."""
    for key in KEYS:
        ((status, _),) = await request_all(subject, service.host, [key], f"/fail/{number}")
        if status == 503:
            break


async def explore(subject: Subject, service: Service, scale: int) -> Outcome:
    """Send every key in every phase."""
    size = len(service.addresses)
    picks = {"before": await request_all(subject, service.host, KEYS)}
    await eject(subject, service, 0)
    await asyncio.sleep(SETTLE_S * scale)
    picks["one ejected"] = await request_all(subject, service.host, KEYS)
    for number in range(1, size // 2 + 1):
        await eject(subject, service, number)
    await asyncio.sleep(SETTLE_S * scale)
    before = (await subject.stats(service.cluster_name, used_only=False))["lb_healthy_panic"]
    picks["panic"] = await request_all(subject, service.host, KEYS)
    after = (await subject.stats(service.cluster_name, used_only=False))["lb_healthy_panic"]
    views = (await subject.hosts())[service.cluster_name]
    flags = [views[address].flags for address in service.addresses]
    ejected = [number for number, flag in enumerate(flags) if "failed_outlier_check" in flag]
    return Outcome(picks=picks, ejected=ejected, lb_healthy_panic=after - before)


async def compare(services: Sequence[Service], scale: int) -> list[Pair]:
    """Return the outcomes of both proxies, Envoy's first, for each service."""
    outcomes = []
    for kind in (Envoy, Sidecar):
        async with kind(services) as subject:
            outcomes.append([await explore(subject, service, scale) for service in services])
    return list(zip(*outcomes, strict=True))


async def _run(kinds: Sequence[tuple[str, int]], scale: int) -> list[Pair]:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        addresses = []
        for number in range(max(SIZES)):
            server = await loop.create_server(lambda number=number: NumberedHost(number), "127.0.0.1", 0)
            stack.callback(server.close)
            addresses.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        rule = {
            "consecutive5xxErrors": 1,
            "maxEjectionPercent": 100,
            "minHealthPercent": 50,
            "interval": "600s",
            "baseEjectionTime": "600s",
        }
        services = [
            Service(
                host=service_name(policy, size),
                addresses=addresses[:size],
                outlier_detection=rule,
                balancer=policy,
                timeout_ms=60_000,
            )
            for policy, size in kinds
        ]
        return await compare(services, scale)


def _hashing(original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Give every route of Envoy's bootstrap the hash policy; the harness does so for ring hash only."""

    def bootstrap(*arguments: Any) -> dict[str, Any]:
        message = original(*arguments)
        (listener,) = message["static_resources"]["listeners"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        for virtual_host in manager["route_config"]["virtual_hosts"]:
            virtual_host["routes"][0]["route"]["hash_policy"] = [{"header": {"header_name": AIM_HEADER}}]
        return message

    return bootstrap


def _consistent_hash(original: Callable[[Service], list[dict[str, Any]]]) -> Callable[[Service], list[dict[str, Any]]]:
    """Give a DestinationRule the algorithm that the service wants."""

    def resources(service: Service) -> list[dict[str, Any]]:
        objects = original(service)
        algorithm = {"maglev": {}} if service.balancer == "MAGLEV" else {}
        for each in objects:
            if each["kind"] == "DestinationRule":
                each["spec"]["trafficPolicy"]["loadBalancer"] = {
                    "consistentHash": {"httpHeaderName": AIM_HEADER, **algorithm}
                }
        return objects

    return resources


@pytest.fixture(scope="module")
def outcomes(_envoy: None) -> dict[tuple[str, int], Pair]:
    """Return the outcomes of both proxies, by policy and number of hosts."""
    kinds = list(itertools.product(POLICIES, SIZES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envoy_module, "bootstrap", _hashing(envoy_module.bootstrap))
        patch.setattr(sidecar_module, "resources", _consistent_hash(sidecar_module.resources))
        pairs = patiently(kinds, lambda chosen, scale: asyncio.run(_run(chosen, scale)), equal)
    return dict(zip(kinds, pairs, strict=True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
class TestEveryPick:
    @pytest.mark.parametrize("phase", PHASES)
    def test_is_envoys(self, outcomes, policy, size, phase):
        expected, actual = (outcome.picks[phase] for outcome in outcomes[policy, size])

        different = [(key, *both) for key, *both in zip(KEYS, expected, actual, strict=True) if both[0] != both[1]]
        assert different == []
        assert {status for status, _ in expected} == {200}
        used = {number for _, number in expected}
        assert used == set(range(1 if phase == "one ejected" else 0, size))

    def test_in_panic_is_counted_as_such(self, outcomes, policy, size):
        both = outcomes[policy, size]

        assert [outcome.ejected for outcome in both] == [list(range(size // 2 + 1))] * 2
        assert [outcome.lb_healthy_panic for outcome in both] == [len(KEYS)] * 2
