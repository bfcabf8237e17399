"""Lookups with a DNS server on loopback: what of an answer becomes what, by the rules of Envoy's c-ares resolver."""

import asyncio

import attrs
import pytest

from proxy.config.dns import DnsLookupFamily, DnsSettings
from proxy.upstream.cares_resolver import CaresResolver
from proxy.upstream.dns_resolver import DnsAnswer, DnsRecord
from tests.proxy.upstream.dns_server import BROKEN, MISSING, SILENT, DnsServer, Reply

WAIT_S = 20.0  # reached only by a failing test


@attrs.define
class Subject:
    server: DnsServer
    resolver: CaresResolver

    async def ask(self, *names: str) -> list[DnsAnswer]:
        """Return the answers to questions that are asked at once."""
        futures = [asyncio.get_running_loop().create_future() for _ in names]
        for name, future in zip(names, futures, strict=True):
            self.resolver.resolve(name, future.set_result)
        async with asyncio.timeout(WAIT_S):
            return await asyncio.gather(*futures)

    async def records(self, name: str) -> list[tuple[str, int]]:
        (answer,) = await self.ask(name)
        assert answer.failure == ""
        return [(record.address, record.ttl_s) for record in answer.records]


@pytest.fixture
async def make_subject():
    """Return what makes a resolver of a family for a server."""
    resolvers: list[CaresResolver] = []

    def make(server: DnsServer, family: DnsLookupFamily = DnsLookupFamily.V4_ONLY) -> Subject:
        settings = DnsSettings(resolvers=(server.address,), lookup_family=family)
        resolvers.append(CaresResolver(settings, asyncio.get_running_loop()))
        return Subject(server, resolvers[-1])

    yield make
    for resolver in resolvers:
        await resolver.close()


async def test_addresses_come_in_the_order_of_the_answer_with_their_times(make_subject):
    async with DnsServer(one=Reply(["10.0.0.9", "10.0.0.1"], ttl_s=7)) as server:
        assert await make_subject(server).records("one.test") == [("10.0.0.9", 7), ("10.0.0.1", 7)]


async def test_an_alias_may_hold_for_less_time_than_what_it_leads_to(make_subject):
    reply = Reply(["10.0.0.1"], ttl_s=60, alias="other.test", alias_ttl_s=5)
    async with DnsServer(one=reply) as server:
        assert await make_subject(server).records("one.test") == [("10.0.0.1", 5)]


BOTH = Reply(["10.0.0.1", "fd00::1"])
ONLY_4 = Reply(["10.0.0.1"])
ONLY_6 = Reply(["fd00::1"])


@pytest.mark.parametrize(
    ("family", "reply", "found", "asked"),
    [
        ("v4_only", BOTH, {"10.0.0.1"}, ["A"]),
        ("v4_only", ONLY_6, set(), ["A"]),
        ("v6_only", BOTH, {"fd00::1"}, ["AAAA"]),
        ("v4_preferred", BOTH, {"10.0.0.1"}, ["A"]),
        ("v4_preferred", ONLY_6, {"fd00::1"}, ["A", "AAAA"]),
        ("auto", BOTH, {"fd00::1"}, ["AAAA"]),
        ("auto", ONLY_4, {"10.0.0.1"}, ["AAAA", "A"]),
        ("auto", MISSING, set(), ["AAAA", "A"]),
        ("all", BOTH, {"10.0.0.1", "fd00::1"}, ["A", "AAAA"]),
        ("all", ONLY_4, {"10.0.0.1"}, ["A", "AAAA"]),
    ],
)
async def test_a_family_decides_what_is_asked_for_and_in_which_order(make_subject, family, reply, found, asked):
    async with DnsServer(one=reply) as server:
        records = await make_subject(server, DnsLookupFamily(family)).records("one.test")

        assert {address for address, _ in records} == found
        assert server.asked == [("one.test", kind) for kind in asked]


@pytest.mark.parametrize("reply", [MISSING, Reply()], ids=["no such name", "no address"])
async def test_no_record_is_an_answer(make_subject, reply):
    async with DnsServer(one=reply) as server:
        assert await make_subject(server).ask("one.test") == [DnsAnswer()]


async def test_a_server_that_fails_is_a_failure(make_subject):
    async with DnsServer(one=BROKEN) as server:
        (answer,) = await make_subject(server).ask("one.test")

        assert (answer.records, "failure" in answer.failure) == ((), True)


async def test_nothing_is_asked_about_an_address_or_localhost(make_subject):
    async with DnsServer() as server:
        subject = make_subject(server)

        assert await subject.records("10.0.0.1") == [("10.0.0.1", 0)]
        assert await subject.records("localhost") == [("127.0.0.1", 0)]
        assert server.asked == []


async def test_a_short_name_is_looked_for_in_the_search_domain(make_subject, monkeypatch):
    monkeypatch.setenv("LOCALDOMAIN", "b.test")
    async with DnsServer() as server:
        server.zone = {"one.b.test": Reply(["10.0.0.1"])}

        assert await make_subject(server).records("one") == [("10.0.0.1", 60)]
        assert [name for name, _ in server.asked] == ["one.b.test"]


async def test_every_lookup_asks_anew(make_subject):
    """c-ares would remember answers, and that a name is missing."""
    async with DnsServer(one=Reply(["10.0.0.1"])) as server:
        subject = make_subject(server)
        first = [await subject.records("one.test"), await subject.records("two.test")]
        server.zone = {"one.test": MISSING, "two.test": Reply(["10.0.0.2"], ttl_s=3)}

        assert first == [[("10.0.0.1", 60)], []]
        assert [await subject.records("one.test"), await subject.records("two.test")] == [[], [("10.0.0.2", 3)]]


async def test_who_asks_at_the_same_time_gets_the_same_answer(make_subject):
    async with DnsServer(one=Reply(["10.0.0.1"])) as server:
        answers = await make_subject(server).ask("one.test", "one.test", "one.test")

        assert answers == [DnsAnswer(records=(DnsRecord("10.0.0.1", 60),))] * 3
        assert server.asked == [("one.test", "A")]


async def test_an_answer_nobody_wants_any_more_is_not_told(make_subject):
    async with DnsServer(one=Reply(["10.0.0.1"])) as server:
        subject = make_subject(server)
        heard: list[DnsAnswer] = []
        forget = subject.resolver.resolve("one.test", heard.append)
        forget()
        await subject.ask("one.test")

        assert heard == []


async def test_a_listener_may_take_the_next_one_away(make_subject):
    async with DnsServer(one=Reply(["10.0.0.1"])) as server:
        subject = make_subject(server)
        heard: list[str] = []
        forgets: list = []
        subject.resolver.resolve("one.test", lambda _answer: (heard.append("first"), forgets[0]()))
        forgets.append(subject.resolver.resolve("one.test", lambda _answer: heard.append("second")))
        await subject.ask("one.test")

        assert heard == ["first"]


async def test_many_names_are_all_answered(make_subject):
    names = [f"n{number}.test" for number in range(120)]
    async with DnsServer() as server:
        server.zone = {name: Reply([f"10.0.0.{number}"]) for number, name in enumerate(names)}
        answers = await make_subject(server).ask(*names)

        assert [answer.records[0].address for answer in answers] == [f"10.0.0.{number}" for number in range(120)]


async def test_closing_ends_what_is_under_way_without_a_word(make_subject):
    async with DnsServer(one=SILENT) as server:
        subject = make_subject(server)
        heard: list[DnsAnswer] = []
        subject.resolver.resolve("one.test", heard.append)
        subject.resolver.resolve("two.test", heard.append)
        async with asyncio.timeout(WAIT_S):
            while not server.asked:  # noqa: ASYNC110 - a datagram has no event
                await asyncio.sleep(0)
        await subject.resolver.close()

        assert [answer for answer in heard if answer.failure] == []
