"""A DNS server on loopback that answers as a test says."""

import asyncio
import ipaddress
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import attrs
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from proxy.config.address import Address


@attrs.frozen
class Reply:
    """Addresses of either family, an alias to find them under, or an error code; `silent` is no reply at all."""

    addresses: Sequence[str] = ()
    ttl_s: int = 60
    alias: str = ""
    alias_ttl_s: int = 60
    code: dns.rcode.Rcode = dns.rcode.NOERROR
    silent: bool = False


MISSING = Reply(code=dns.rcode.NXDOMAIN)
BROKEN = Reply(code=dns.rcode.SERVFAIL)
SILENT = Reply(silent=True)


class DnsServer(asyncio.DatagramProtocol):
    """Answers with what `zone` has; `asked` are the questions so far, as `(name, type)`. Other names are missing."""

    def __init__(self, **replies: Reply) -> None:
        self.zone: dict[str, Reply] = {f"{name}.test": reply for name, reply in replies.items()}
        self.asked: list[tuple[str, str]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._transport.close()

    @property
    def address(self) -> Address:
        return Address(*self._transport.get_extra_info("sockname"))

    def datagram_received(self, data: bytes, client: tuple[str | Any, int]) -> None:
        query = dns.message.from_wire(data)
        (question,) = query.question
        name = question.name.to_text(omit_final_dot=True)
        self.asked.append((name, dns.rdatatype.to_text(question.rdtype)))
        reply = self.zone.get(name, MISSING)
        if reply.silent:
            return
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        response.set_rcode(reply.code)
        owner = question.name
        if reply.alias:
            response.answer.append(dns.rrset.from_text(owner, reply.alias_ttl_s, "IN", "CNAME", f"{reply.alias}."))
            owner = response.answer[0][0].target
        version = {dns.rdatatype.A: 4, dns.rdatatype.AAAA: 6}[question.rdtype]
        for address in reply.addresses:  # a set for each, since sets are shuffled on their way
            if ipaddress.ip_address(address).version == version:
                response.answer.append(dns.rrset.from_text(owner, reply.ttl_s, "IN", question.rdtype, address))
        self._transport.sendto(response.to_wire(), client)
