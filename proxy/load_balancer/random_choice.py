"""Any host with the same chance; weights are ignored.

Ports `RandomLoadBalancer` (Envoy, source/extensions/load_balancing_policies/random/random_lb.cc).
"""

from proxy.load_balancer.host_source import HostSource
from proxy.load_balancer.list_load_balancer import ListLoadBalancer
from proxy.upstream.host import Host


class RandomSource(HostSource):
    """A list that the number which chose the priority is an index into."""

    __slots__ = ()

    def pick(self, number: int) -> Host | None:
        """Return the host at `number`."""
        hosts = self.hosts
        return hosts[number % len(hosts)] if hosts else None

    def describe(self) -> str:
        """Say that weights do not count."""
        return "at random, weights ignored"


class RandomChoice(ListLoadBalancer):
    """Random: one number chooses both the priority and the host, as in Envoy.

    So with several priorities and a list whose length shares a factor with 100, some hosts of the list get no traffic.
    """

    def _choose_once(self) -> Host | None:
        number = self._draw()
        return self._pick(self._shares[number % 100], number)

    def _new_source(self, *, panic: bool) -> RandomSource:
        return RandomSource(panic=panic)
