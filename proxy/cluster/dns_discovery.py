"""The hosts of a cluster whose endpoints are names: looked up at once, and again when an answer has served its time.

STRICT_DNS: every address of every name is a host. LOGICAL_DNS: the name is one host, which connects to its first
address, or soon to another; another list of addresses is another host.
Ports `DnsClusterImpl` (Envoy, source/extensions/clusters/dns/dns_cluster.cc) with the settings that Istio sends: TTLs
are respected, and a lookup that fails is tried again after the refresh rate.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import attrs
import structlog

from outlier import RandomGenerator
from proxy.config.address import Address
from proxy.config.cluster_config import ClusterConfig, ClusterType, Endpoint
from proxy.config.dns import DNS_JITTER_MS
from proxy.upstream.dns_resolver import DnsAnswer, DnsRecord, DnsResolver

log = structlog.get_logger()


@attrs.define
class DnsStats:
    """Envoy's `ConfigUpdateStats`, as far as DNS has to do with them; it never counts `update_empty`."""

    update_attempt: int = 0
    update_empty: int = 0
    update_failure: int = 0
    update_no_rebuild: int = 0
    update_success: int = 0

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield `(name, value)` of every counter."""
        for field in attrs.fields(DnsStats):
            yield field.name, getattr(self, field.name)

    def reset_counters(self) -> None:
        """Set every counter to 0."""
        for field in attrs.fields(DnsStats):
            setattr(self, field.name, 0)


class DnsDiscovery:
    """Looks up the names of one cluster until it is closed.

    Args:
        config: Of type STRICT_DNS or LOGICAL_DNS; its endpoints are names with ports.
        resolver: Whom to ask.
        loop: Runs the timers.
        random: Draws jitter.
        on_change: Called when `endpoints` have changed, and after the first answer or failure.

    Attributes:
        stats: Envoy's statistics of the cluster's updates.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        resolver: DnsResolver,
        loop: asyncio.AbstractEventLoop,
        random: RandomGenerator,
        on_change: Callable[[], None],
    ) -> None:
        self.stats = DnsStats()
        self._config = config
        self._resolver = resolver
        self._loop = loop
        self._random = random
        self._on_change = on_change
        self._targets: dict[str, _Target] = {}
        self._answered = asyncio.Event()
        self.update(config)

    @property
    def answered(self) -> bool:
        """Whether a lookup has ended, well or not, or there is nothing to look up: what is known is what there is."""
        return self._answered.is_set()

    async def wait_answered(self) -> None:
        """Return once `answered` holds, or nothing is looked up any more."""
        await self._answered.wait()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses found, in the order of the names and of the answers."""
        return tuple(endpoint for target in self._targets.values() for endpoint in target.endpoints)

    def update(self, config: ClusterConfig) -> None:
        """Take a new configuration of the same type; names that stay keep their addresses and their time.

        While none of them has an answer, nothing is known.
        """
        self._config = config
        old, self._targets = self._targets, {}
        repeats: Counter[str] = Counter()
        for endpoint in config.endpoints:
            number = repeats[endpoint.address]
            repeats[endpoint.address] += 1
            key = f"{endpoint.address}#{number}" if number else endpoint.address
            target = old.pop(key, None)
            if target is None:
                target = _Target(key, endpoint)
            else:
                target.update(endpoint)
            self._targets[key] = target
        for target in old.values():
            target.stop()
        targets = self._targets.values()
        if not targets or any(target.answered for target in targets):
            self._answered.set()
        else:
            self._answered.clear()
        for target in targets:
            if target.cancel is None:
                self._ask(target)

    def close(self) -> None:
        """Look up nothing any more."""
        for target in self._targets.values():
            target.stop()
        self._answered.set()

    def _ask(self, target: "_Target") -> None:
        self.stats.update_attempt += 1
        target.cancel = self._resolver.resolve(target.name, partial(self._on_answer, target))

    def _on_answer(self, target: "_Target", answer: DnsAnswer) -> None:
        config, stats = self._config, self.stats
        logical = config.type is ClusterType.LOGICAL_DNS
        first_of_name, target.answered = not target.answered, True
        changed = False
        refresh_ms = config.dns_refresh_ms
        if answer.failure or (logical and not answer.records):
            stats.update_failure += 1
            reason = answer.failure or "no address"
            log.warning("dns.lookup_failed", cluster_name=config.name, name=target.name, error=reason)
        else:
            stats.update_success += 1
            changed = target.take_one_host(answer.records) if logical else target.take_hosts(answer.records)
            stats.update_no_rebuild += not changed
            if not answer.records and (changed or first_of_name):
                log.warning("dns.address_not_found", cluster_name=config.name, name=target.name)
            deciding = answer.records[:1] if logical else answer.records
            refresh_ms = min((record.ttl_s for record in deciding), default=0) * 1000 or refresh_ms
            refresh_ms += self._random.random() % DNS_JITTER_MS
        target.cancel = self._loop.call_later(refresh_ms / 1000, partial(self._ask, target)).cancel
        first = not self.answered
        self._answered.set()
        if changed or first:
            self._on_change()


class _Target:
    """One name with its port, and what it resolved to."""

    def __init__(self, key: str, endpoint: Endpoint) -> None:
        address = Address.parse(endpoint.address)
        self.name = address.host
        self.answered = False  # or failed
        self.cancel: Callable[[], None] | None = None  # of what is waited for
        self.endpoints: tuple[Endpoint, ...] = ()
        self._key = key
        self._port = address.port
        self._template = endpoint

    def update(self, endpoint: Endpoint) -> None:
        """Take new attributes of the same name."""
        if endpoint != self._template:
            self._template = endpoint
            self.endpoints = tuple(self._endpoint(found.address, found.alternates) for found in self.endpoints)

    def take_hosts(self, records: tuple[DnsRecord, ...]) -> bool:
        """Take every address as a host, once; return whether one came or went. Another order is no change."""
        addresses = dict.fromkeys(self._with_port(record) for record in records)
        known = {endpoint.address: endpoint for endpoint in self.endpoints}
        self.endpoints = tuple(known.get(address) or self._endpoint(address) for address in addresses)
        return known.keys() != addresses.keys()

    def take_one_host(self, records: tuple[DnsRecord, ...]) -> bool:
        """Take the list of addresses, one at least, as a host; return whether it is another list."""
        first, *others = [self._with_port(record) for record in records]
        before, self.endpoints = self.endpoints, (self._endpoint(first, tuple(others)),)
        return before != self.endpoints

    def stop(self) -> None:
        """Neither ask nor wait for an answer."""
        if self.cancel is not None:
            self.cancel()

    def _with_port(self, record: DnsRecord) -> str:
        return str(Address(record.address, self._port))

    def _endpoint(self, address: str, alternates: tuple[str, ...] = ()) -> Endpoint:
        template = self._template
        return attrs.evolve(
            template,
            address=address,
            hostname=template.hostname or self.name,
            resolved_from=self._key,
            alternates=alternates,
        )
