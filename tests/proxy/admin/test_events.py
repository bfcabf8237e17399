"""`/events`: replay, following, selection, and readers that do not keep up."""

import asyncio
import json

import pytest

from outlier import Detector, OutlierDetection, SeededRandom
from proxy.admin import events
from proxy.admin.events import end_streams
from proxy.event_stream import EventStream
from tests.proxy.http.sidecar import WAIT_S


@pytest.fixture
def stream(sidecar):
    return sidecar.events


async def read(response, count):
    """The next `count` events of a stream, as `(id, kind, data)`."""
    found = []
    fields = {}
    while len(found) < count:
        line = (await asyncio.wait_for(response.content.readline(), WAIT_S)).decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
            fields = {}
    return found


async def test_follower_sees_what_comes(admin, stream):
    stream.publish("config", version="1")
    async with admin.get("/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        await response.content.readline()
        stream.publish("config", version="2")

        assert await read(response, 1) == [(2, "config", {"id": 2, "system_ms": 0, "kind": "config", "version": "2"})]


@pytest.mark.parametrize(
    ("query", "headers"), [("?since=1", {}), ("", {"Last-Event-ID": "1"})], ids=["since", "header"]
)
async def test_events_missed_are_replayed(admin, stream, query, headers):
    for version in "123":
        stream.publish("config", version=version)
    async with admin.get(f"/events{query}", headers=headers) as response:
        assert [data["version"] for _, _, data in await read(response, 2)] == ["2", "3"]


async def test_id_of_an_earlier_process_replays_everything(admin, stream):
    stream.publish("config", version="1")

    kept = await (await admin.get("/events?since=99&format=json")).json()
    assert [event["version"] for event in kept] == ["1"]


async def test_kinds_are_selected(admin, stream):
    stream.publish("config", version="1")
    stream.publish("warning", message="x")

    kept = await (await admin.get("/events?kind=warning,ejection&format=json")).json()
    assert [event["kind"] for event in kept] == ["warning"]


async def test_bad_id_is_refused(admin):
    assert (await admin.get("/events?since=yesterday")).status == 400


async def test_followers_are_let_go_at_shutdown(admin):
    async with admin.get("/events") as response:
        await response.content.readline()
        await end_streams(admin.app)

        assert (await asyncio.wait_for(response.content.read(), WAIT_S)).strip() == b""


async def test_follower_that_does_not_keep_up_is_let_go(admin, stream, monkeypatch):
    monkeypatch.setattr(events, "MAX_BACKLOG", 2)
    async with admin.get("/events") as response:
        await response.content.readline()
        for number in range(5):
            stream.publish("config", version=str(number))

        assert [data["version"] for _, _, data in await read(response, 2)] == ["0", "1"]
        assert (await asyncio.wait_for(response.content.read(), WAIT_S)).strip() == b""


def test_ejections_carry_the_reason(sidecar):
    stream = EventStream(sidecar.time)
    detector = Detector(
        OutlierDetection(consecutive_5xx=1, max_ejection_percent=100),
        cluster_name="a",
        time_source=sidecar.time,
        random=SeededRandom(),
        on_event=stream.publish_ejection,
    )
    detector.add_host("10.0.0.1:80").put_http_response_code(500)
    sidecar.time.advance(30_000)
    detector.on_interval_timer()

    ejection, unejection = stream.since(0)
    assert (ejection.kind, ejection.data["upstream_url"], ejection.data["type"], ejection.data["num_ejections"]) == (
        "ejection",
        "10.0.0.1:80",
        "CONSECUTIVE_5XX",
        1,
    )
    assert ejection.data["ejection_time_ms"] == 30_000
    assert "1" in ejection.data["reason"]
    assert (unejection.kind, unejection.data["enforced"]) == ("unejection", False)
    assert unejection.data["reason"]


def test_only_the_newest_events_are_kept(sidecar):
    stream = EventStream(sidecar.time, keep=2)
    for _ in range(3):
        stream.publish("config")

    assert [event.id for event in stream.since(0)] == [2, 3]
    assert stream.last_id == 3
