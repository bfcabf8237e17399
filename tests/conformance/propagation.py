"""Propagation vectors: when changes are pushed, how requests merge, whose turn it is."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from proxy.push.debounce import Batch, Debounce, DebounceSettings
from proxy.push.queue import PushQueue, Shutdown, push_throttle
from proxy.push.request import PushRequest, merge
from tests.conformance.mcp_bodies import expect_same


def run_propagation(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Run one case."""
    if "debounce" in case:
        _debounce(case)
    elif "queue" in case:
        _queue(case)
    elif "merge_request" in case:
        _merge(case)
    else:
        for cores, pushes in case["throttle"].items():
            expect_same(pushes, push_throttle(cores), f"{cores} cores")


def _debounce(case: Mapping[str, Any]) -> None:
    settings = case["debounce"]
    debounce = Debounce(
        DebounceSettings(after_ms=settings["after"], max_ms=settings["max"], endpoints=settings.get("eds", True))
    )
    events = [event if isinstance(event, dict) else {"t": event} for event in case["events"]]
    push_ms = case["push_ms"]
    pushes: list[dict[str, int]] = []
    direct: list[int] = []
    took: list[int] = []
    push_end: int | None = None

    def start(batch: Batch | None, now_ms: int) -> None:
        nonlocal push_end
        if batch is not None:
            length = push_ms if isinstance(push_ms, int) else push_ms[len(pushes)]
            pushes.append({"at": now_ms, "events": batch.events, "first": batch.request.start_ms})
            push_end = now_ms + length
            took.append(push_end - batch.request.start_ms)

    while events or push_end is not None or debounce.deadline_ms is not None:
        due = [push_end, events[0]["t"] if events else None, debounce.deadline_ms]
        now_ms = min(time for time in due if time is not None)
        if push_end == now_ms:  # at equal times a finished push comes first, then events, then the timer
            push_end = None
            start(debounce.on_push_finished(now_ms), now_ms)
        elif events and events[0]["t"] == now_ms:
            event = events.pop(0)
            request = PushRequest(start_ms=now_ms, endpoints_only=event.get("endpoints_only", False))
            if debounce.on_event(request, now_ms) is not None:
                direct.append(now_ms)
        else:
            start(debounce.on_timer(now_ms), now_ms)
    expect_same(case["out"]["pushes"], pushes, "pushes")
    expect_same(case["out"].get("direct", []), direct, "direct")
    if "debounce_time" in case["out"]:
        expect_same(case["out"]["debounce_time"], took, "debounce_time")


def _queue(case: Mapping[str, Any]) -> None:
    queue: PushQueue[str] = PushQueue()
    order = count()
    found: list[str] = []
    for operation in case["queue"]:
        verb, *arguments = operation.split()
        if verb == "enq":
            connection, name = arguments
            queue.enqueue(connection, PushRequest(start_ms=next(order), reasons={name: 1}))
        elif verb in {"deq", "trydeq"}:
            item = queue.dequeue()
            if item is None:
                found.append("block")
            elif isinstance(item, Shutdown):
                found.append("shutdown")
            else:
                found.append(f"{item[0]} {'+'.join(item[1].reasons)}")
        elif verb == "done":
            queue.mark_done(*arguments)
        else:
            queue.shutdown()
    expect_same(case["out"], found, "out")


def _request(fields: Mapping[str, Any] | None) -> PushRequest | None:
    if fields is None:
        return None
    configs = frozenset(fields["configs"]) if "configs" in fields else None
    return PushRequest(start_ms=fields["start"], configs=configs, reasons=fields.get("reasons", {}))


def _merge(case: Mapping[str, Any]) -> None:
    pair = case["merge_request"]
    expect_same(_request(case["out"]), merge(_request(pair["a"]), _request(pair["b"])), "merged")
