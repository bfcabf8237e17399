"""Looks up names with c-ares, the library that Envoy has for it, so hosts files, search domains and retries are alike.

Ports what `DnsResolverImpl::AddrInfoPendingResolution` makes of c-ares' results (Envoy,
source/extensions/network/dns_resolver/cares/dns_impl.cc).
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence

import aiodns
import pycares
from aiodns.error import ARES_ENODATA, ARES_ENOTFOUND, DNSError

from proxy.config.dns import DnsLookupFamily, DnsSettings
from proxy.upstream.dns_resolver import DnsAnswer, DnsRecord

# Envoy's defaults.
_TIMEOUT_S = 5
_TRIES = 4
_NO_SORT = 1 << 7  # ARES_AI_NOSORT, which pycares does not name: addresses in the order of the answer

# Thousands of names that are due at once would overrun a DNS server's socket, and be lost until the first timeout.
_LOOKUPS_A_ROUND = 20
_ROUND_S = 0.01

_NO_RECORDS = frozenset({ARES_ENODATA, ARES_ENOTFOUND})
_FAMILIES: dict[DnsLookupFamily, Sequence[socket.AddressFamily]] = {
    DnsLookupFamily.V4_ONLY: (socket.AF_INET,),
    DnsLookupFamily.V6_ONLY: (socket.AF_INET6,),
    DnsLookupFamily.V4_PREFERRED: (socket.AF_INET, socket.AF_INET6),
    DnsLookupFamily.AUTO: (socket.AF_INET6, socket.AF_INET),
    DnsLookupFamily.ALL: (socket.AF_UNSPEC,),
}


class CaresResolver:
    """Asks DNS servers; who asks for a name that is being looked up gets the same answer.

    Args:
        settings: Whom to ask and what for.
        loop: The event loop.
    """

    def __init__(self, settings: DnsSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._servers = [str(address) for address in settings.resolvers]
        self._families = _FAMILIES[settings.lookup_family]
        self._loop = loop
        self._channel: _Channel | None = None
        self._lookups: dict[str, _Lookup] = {}
        self._queue: deque[_Lookup] = deque()
        self._round: asyncio.Handle | None = None

    def resolve(self, name: str, on_answer: Callable[[DnsAnswer], None]) -> Callable[[], None]:
        """Look up a name; `on_answer` is called once, after this has returned.

        Returns:
            What to call when nobody wants the answer any more.
        """
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = _Lookup(name)
            self._queue.append(lookup)
            if self._round is None:
                self._round = self._loop.call_soon(self._begin_some)
        return lookup.listen(on_answer)

    async def close(self) -> None:
        """Look up nothing any more; nobody gets another answer."""
        if self._round is not None:
            self._round.cancel()
        tasks = [lookup.task for lookup in self._lookups.values() if lookup.task is not None]
        self._queue.clear()
        self._lookups.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._channel is not None:
            await self._channel.release()
            self._channel = None

    def _begin_some(self) -> None:
        for _ in range(min(_LOOKUPS_A_ROUND, len(self._queue))):
            lookup = self._queue.popleft()
            lookup.task = self._loop.create_task(self._look_up(lookup))
        self._round = self._loop.call_later(_ROUND_S, self._begin_some) if self._queue else None

    async def _look_up(self, lookup: "_Lookup") -> None:
        try:
            channel = await self._hold_channel(lookup.name)
        except pycares.AresError as error:
            answer = DnsAnswer(failure=str(error.args[-1]))
        else:
            try:
                answer = await self._ask(channel.resolver, lookup.name)
            finally:
                await channel.release()
        del self._lookups[lookup.name]
        lookup.answer(answer)

    async def _hold_channel(self, name: str) -> "_Channel":
        """Return a channel that has never been asked for the name, to be released.

        c-ares keeps what a channel was answered for as long as its records' time to live, and for names that are not
        there as long as their zone says; Envoy switches that off, which pycares cannot.

        Raises:
            pycares.AresError: The system's resolver configuration cannot be read.
        """
        if self._channel is not None and name not in self._channel.names:
            return self._channel.hold(name)
        resolver = aiodns.DNSResolver(self._servers, self._loop, timeout=_TIMEOUT_S, tries=_TRIES)
        retired, self._channel = self._channel, _Channel(resolver)
        channel = self._channel.hold(name)
        if retired is not None:
            await retired.release()
        return channel

    async def _ask(self, resolver: aiodns.DNSResolver, name: str) -> DnsAnswer:
        """Ask for one family after the other until one has records; no records from one of them is an answer."""
        failure = ""
        answered = False
        for family in self._families:
            try:
                result = await resolver.getaddrinfo(name, family=family, type=socket.SOCK_STREAM, flags=_NO_SORT)
            except DNSError as error:
                if error.args[0] in _NO_RECORDS:
                    answered = True
                else:
                    failure = str(error.args[-1])
            else:
                return DnsAnswer(records=_records(result))
        return DnsAnswer(failure="" if answered else failure)


def _records(result: pycares.AddrInfoResult) -> tuple[DnsRecord, ...]:
    """Return the addresses in their order; an alias on the way to them may hold for less time than they do."""
    alias_ttls_s = [alias.ttl for alias in result.cnames]
    return tuple(DnsRecord(node.addr[0].decode(), min([node.ttl, *alias_ttls_s])) for node in result.nodes)


class _Lookup:
    """One name being looked up, and who waits for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self._listeners: dict[object, Callable[[DnsAnswer], None]] = {}

    def listen(self, on_answer: Callable[[DnsAnswer], None]) -> Callable[[], None]:
        """Return what takes the listener away again."""
        key = object()
        self._listeners[key] = on_answer

        def forget() -> None:
            self._listeners.pop(key, None)

        return forget

    def answer(self, answer: DnsAnswer) -> None:
        """Tell everybody; one of them may take others away."""
        while self._listeners:
            self._listeners.pop(next(iter(self._listeners)))(answer)


class _Channel:
    """A resolver of the library's and the names it was asked for; closed when nobody holds it, its maker included."""

    def __init__(self, resolver: aiodns.DNSResolver) -> None:
        self.resolver = resolver
        self.names: set[str] = set()
        self._holders = 1

    def hold(self, name: str) -> "_Channel":
        """Ask it for a name; return itself."""
        self.names.add(name)
        self._holders += 1
        return self

    async def release(self) -> None:
        """Hold it no longer."""
        self._holders -= 1
        if not self._holders:
            await self.resolver.close()
