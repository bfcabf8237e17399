"""When pings go out, and when a host is given up."""

import asyncio
from typing import cast

import pytest

from outlier import SeededRandom
from proxy.upstream.http2_keepalive import Http2Keepalive
from tests.proxy.http.sidecar import ManualClock

INTERVAL_MS, TIMEOUT_MS = 1_000, 400


class Zero(SeededRandom):
    """No jitter."""

    def random(self) -> int:
        return 0


class Pings:
    """A connection's pings by a clock of the test's own; `sent` are their times in milliseconds."""

    def __init__(self, random: SeededRandom | None = None) -> None:
        self.clock = ManualClock()
        self._start = self.clock.time()
        self.sent: list[int] = []
        self.given_up: list[int] = []
        self.keepalive = Http2Keepalive(
            cast("asyncio.AbstractEventLoop", self.clock),
            random or Zero(1),
            interval_ms=INTERVAL_MS,
            timeout_ms=TIMEOUT_MS,
            ping=lambda payload: self.sent.append(self._now(payload)),
            on_timeout=lambda: self.given_up.append(self._now(b"        ")),
        )

    def _now(self, payload: bytes) -> int:
        assert len(payload) == 8
        return round((self.clock.time() - self._start) * 1000)


@pytest.mark.parametrize(("passed_ms", "sent"), [(999, []), (1_000, [1_000]), (1_399, [1_000])])
def test_ping_goes_out_after_the_interval(passed_ms, sent):
    pings = Pings()
    pings.clock.advance(passed_ms)

    assert (pings.sent, pings.given_up) == (sent, [])


def test_no_answer_in_time_gives_the_host_up():
    pings = Pings()
    pings.clock.advance(1_400)

    assert (pings.sent, pings.given_up) == ([1_000], [1_400])


def test_interval_begins_with_the_answer():
    pings = Pings()
    for _ in range(2):
        pings.clock.advance(1_300)
        pings.keepalive.start()
    pings.clock.advance(999)

    assert (pings.sent, pings.given_up) == ([1_000, 2_300], [])


def test_host_that_sends_is_given_the_whole_time_again():
    """Seen of Envoy 1.40 with a host that answers no ping while it sends a body."""
    pings = Pings()
    pings.clock.advance(1_399)
    pings.keepalive.on_data()
    pings.clock.advance(399)
    before = list(pings.given_up)
    pings.clock.advance(1)

    assert (before, pings.given_up) == ([], [1_799])


def test_data_before_a_ping_changes_nothing():
    pings = Pings()
    pings.clock.advance(500)
    pings.keepalive.on_data()
    pings.clock.advance(500)

    assert pings.sent == [1_000]


@pytest.mark.parametrize("passed_ms", [500, 1_200], ids=["between pings", "during one"])
def test_nothing_comes_once_stopped(passed_ms):
    pings = Pings()
    pings.clock.advance(passed_ms)
    sent = list(pings.sent)
    pings.keepalive.stop()
    pings.clock.advance(10_000)

    assert (pings.sent, pings.given_up) == (sent, [])


def test_interval_is_up_to_15_percent_longer():
    sent = []
    for seed in range(50):
        pings = Pings(SeededRandom(seed))
        pings.clock.advance(1_150)
        sent += pings.sent

    assert len(sent) == 50
    assert len(set(sent)) > 10
    assert all(1_000 <= time_ms < 1_150 for time_ms in sent)
