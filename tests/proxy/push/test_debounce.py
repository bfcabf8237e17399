import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.push.debounce import Debounce, DebounceSettings
from proxy.push.queue import PushQueue, Shutdown, push_throttle
from proxy.push.request import PushRequest, merge


def request(start_ms=0, **fields):
    return PushRequest(start_ms=start_ms, **fields)


@pytest.mark.parametrize(("now_ms", "pushed"), [(99, False), (100, True), (101, True)])
def test_a_batch_goes_once_it_is_quiet_for_the_time(now_ms, pushed):
    debounce = Debounce(DebounceSettings(after_ms=100, max_ms=10_000))
    debounce.on_event(request(), 0)

    assert (debounce.on_timer(now_ms) is not None) is pushed


@pytest.mark.parametrize(("now_ms", "pushed"), [(999, False), (1_000, True), (1_001, True)])
def test_a_batch_goes_once_it_is_as_old_as_the_maximum(now_ms, pushed):
    debounce = Debounce(DebounceSettings(after_ms=100, max_ms=1_000))
    debounce.on_event(request(), 0)
    debounce.on_event(request(), 999)

    assert (debounce.on_timer(now_ms) is not None) is pushed


def test_what_comes_during_a_push_waits_for_its_end():
    debounce = Debounce(DebounceSettings(after_ms=100, max_ms=1_000))
    debounce.on_event(request(), 0)
    debounce.on_timer(100)
    debounce.on_event(request(150), 150)

    assert debounce.on_timer(250) is None
    assert debounce.deadline_ms is None
    batch = debounce.on_push_finished(5_000)
    assert batch is not None
    assert batch.request.start_ms == 150


@given(
    gaps=st.lists(st.integers(0, 300), min_size=1, max_size=30),
    push_ms=st.integers(0, 500),
    after_ms=st.integers(1, 200),
    max_ms=st.integers(1, 500),
)
def test_every_event_is_pushed_once_and_pushes_do_not_overlap(gaps, push_ms, after_ms, max_ms):
    debounce = Debounce(DebounceSettings(after_ms=after_ms, max_ms=max_ms))
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    events, pushed, end_ms, now_ms = list(times), 0, None, 0

    while events or end_ms is not None or not debounce.idle:
        now_ms = min(time for time in (end_ms, events[0] if events else None, debounce.deadline_ms) if time is not None)
        if end_ms == now_ms:
            end_ms = None
            batch = debounce.on_push_finished(now_ms)
        elif events and events[0] == now_ms:
            debounce.on_event(request(events.pop(0)), now_ms)
            continue
        else:
            batch = debounce.on_timer(now_ms)
        if batch is not None:
            assert end_ms is None
            assert batch.request.start_ms == times[pushed]
            pushed += batch.events
            end_ms = now_ms + push_ms

    assert pushed == len(times)


def test_merging_adds_reasons_and_unites_configs():
    older = request(1, configs=frozenset("a"), reasons={"x": 1}, endpoints_only=True)
    newer = request(2, configs=frozenset("b"), reasons={"x": 2, "y": 1}, forced=True)

    assert merge(older, newer) == request(
        1, configs=frozenset("ab"), reasons={"x": 3, "y": 1}, forced=True, endpoints_only=False
    )


def test_merging_with_everything_is_everything():
    assert merge(request(configs=frozenset("a")), request(configs=None)).configs is None


def test_merging_with_nothing_gives_the_other_itself():
    one = request()

    assert merge(None, one) is one
    assert merge(one, None) is one
    assert merge(None, None) is None


def test_a_queue_that_is_shut_down_hands_out_what_waits():
    queue = PushQueue()
    queue.enqueue("a", request())
    queue.shutdown()
    queue.enqueue("b", request())

    assert queue.dequeue()[0] == "a"
    assert queue.dequeue() is Shutdown.SHUTDOWN


@pytest.mark.parametrize(("cores", "pushes"), [(1, 20), (16, 95), (17, 100), (18, 100)])
def test_the_throttle_grows_with_the_cores_up_to_a_hundred(cores, pushes):
    assert push_throttle(cores) == pushes
