"""Whatever answers and configurations come in whatever order, the hosts are those of the last answers."""

from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlier import OutlierDetection
from proxy.config.cluster_config import ClusterType, Endpoint
from proxy.upstream.host import Host
from tests.proxy.cluster.environment import ClusterUnderTest, config

NAMES = ("a.test", "b.test", "c.test")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
found = st.lists(st.sampled_from(ADDRESSES), max_size=4)


def endpoints(chosen: list[str], weight: int = 1) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(address=f"{name}:80", weight=weight) for name in chosen)


class DnsHistory(RuleBasedStateMachine):
    """A STRICT_DNS cluster beside what is known of it: names, their last answers, and who was a host of each."""

    @initialize(chosen=names)
    def start(self, chosen: list[str]) -> None:
        self.names = chosen
        self.answers: dict[str, list[str]] = {}
        self.weight = 1
        self.hosts: Mapping[tuple[str, str], Host] = {}
        self.subject = ClusterUnderTest(
            config(
                type=ClusterType.STRICT_DNS,
                endpoints=endpoints(chosen),
                dns_refresh_ms=1_000,
                outlier_detection=OutlierDetection(consecutive_5xx=1, max_ejection_percent=100),
            )
        )

    @precondition(lambda self: self.subject.resolver.open)
    @rule(data=st.data(), addresses=found)
    def answer(self, data: st.DataObject, addresses: list[str]) -> None:
        name = data.draw(st.sampled_from(self.subject.resolver.open))
        self.answers[name] = list(dict.fromkeys(addresses))
        self.subject.resolver.answer(name, *addresses, ttl_s=2)

    @precondition(lambda self: self.subject.resolver.open)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.subject.resolver.open))
        self.answers.setdefault(name, [])
        self.subject.resolver.fail(name)

    @rule(ms=st.sampled_from([500, 1_000, 2_100]))
    def wait(self, ms: int) -> None:
        self.subject.loop.advance(ms)

    @precondition(lambda self: self.subject.hosts)
    @rule(data=st.data())
    def eject(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(self.subject.hosts))
        host.monitor.put_http_response_code(500)

    @rule(chosen=names, weight=st.integers(1, 3))
    def configure(self, chosen: list[str], weight: int) -> None:
        self.names, self.weight = chosen, weight
        self.answers = {name: found for name, found in self.answers.items() if name in chosen}
        self.subject.update(endpoints=endpoints(chosen, weight))

    @invariant()
    def hosts_are_those_of_the_last_answers_and_stay_the_same(self) -> None:
        before = self.hosts
        self.hosts = shown = {(host.endpoint.hostname, host.address): host for host in self.subject.hosts}
        assert len(shown) == len(self.subject.hosts)
        if self.names and not self.answers:
            assert shown == before  # until a new name is answered
            return
        wanted = [(name, f"{address}:80") for name in self.names for address in self.answers.get(name, [])]
        assert sorted(shown) == sorted(wanted)
        assert {host.weight for host in shown.values()} <= {self.weight}
        for place in shown.keys() & before.keys():
            assert shown[place] is before[place]

    @invariant()
    def every_lookup_ends_once(self) -> None:
        discovery = self.subject.cluster.discovery
        assert discovery is not None
        stats, asking = discovery.stats, len(self.subject.resolver.open)
        assert stats.update_attempt >= stats.update_success + stats.update_failure + asking
        assert stats.update_no_rebuild <= stats.update_success

    @invariant()
    def every_name_is_waited_for_or_asked(self) -> None:
        discovery = self.subject.cluster.discovery
        assert discovery is not None
        assert len(self.subject.resolver.open) <= len(self.names)
        assert set(self.subject.resolver.open) <= set(self.names)


DnsHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestDnsHistories = pytest.mark.slow(DnsHistory.TestCase)
