"""Misbehaving upstreams for tests, the demo and comparisons with other proxies."""

from proxy.testing.faulty_upstream import FaultyUpstream
from proxy.testing.reply import End, Fault, Framing, Reply
from proxy.testing.request import RecordedRequest

__all__ = ["End", "Fault", "FaultyUpstream", "Framing", "RecordedRequest", "Reply"]
