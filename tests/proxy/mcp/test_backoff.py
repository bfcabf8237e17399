import pytest

from outlier import SeededRandom
from outlier.sources import ListedRandom
from proxy.mcp.backoff import EXPONENTIAL, FIXED, Backoff
from proxy.mcp.journal import CAPACITY, Journal, JournalEntry
from proxy.mcp.messages import Status
from proxy.mcp.rate_limit import RateLimit

MIDDLE = 2**63  # no jitter


def test_waits_grow_by_half_up_to_a_minute():
    backoff = Backoff(EXPONENTIAL, ListedRandom([MIDDLE] * 20))
    waits = [backoff.next_ms() for _ in range(14)]

    assert waits[:4] == [500, 750, 1125, 1688]
    assert waits[-3:] == [43_249, 60_000, 60_000]


@pytest.mark.parametrize(("drawn", "wait_ms"), [(0, 250), (MIDDLE, 500), (2**64 - 1, 750)])
def test_jitter_moves_a_wait_by_up_to_half(drawn, wait_ms):
    assert Backoff(EXPONENTIAL, ListedRandom([drawn])).next_ms() == wait_ms


def test_a_stream_that_was_up_starts_the_waits_anew():
    backoff = Backoff(EXPONENTIAL, ListedRandom([MIDDLE] * 3))
    backoff.next_ms()
    backoff.next_ms()
    backoff.reset()

    assert backoff.next_ms() == 500


def test_istios_sink_waits_a_second_always():
    backoff = Backoff(FIXED, SeededRandom(1))

    assert {backoff.next_ms() for _ in range(50)} == {1_000}


def test_a_burst_is_free_and_then_one_a_second():
    limit = RateLimit(0, rate_per_s=1.0, burst=3)

    assert [limit.reserve(0) for _ in range(5)] == [0, 0, 0, 1_000, 2_000]
    assert limit.reserve(2_999) == 1
    assert limit.reserve(5_000) == 0


def test_the_journal_keeps_the_last_requests():
    journal = Journal()
    for number in range(CAPACITY + 1):
        journal.record(JournalEntry(time_ms=number, collection="c", nonce=str(number), error=None))

    assert [entry.time_ms for entry in journal.entries()] == list(range(1, CAPACITY + 1))


def test_an_entry_without_error_is_an_ack():
    acked, refused = (JournalEntry(time_ms=0, collection="c", nonce="", error=e) for e in (None, Status(3)))

    assert (acked.acked, refused.acked) == (True, False)
