"""A person puts a host out or brings it back: what holds, for how long, and where it shows."""

import pytest

from outlier import OutlierDetection
from proxy.upstream.host import HealthFlag

CLUSTER = "outbound|80||a.default.svc.cluster.local"


class Timers:
    """Stands in for the event loop's timers."""

    def __init__(self):
        self.armed = []

    def call_later(self, delay_s, callback):
        timer = Timer(self, delay_s, callback)
        self.armed.append(timer)
        return timer


class Timer:
    def __init__(self, timers, delay_s, callback):
        self.timers, self.delay_s, self.callback = timers, delay_s, callback

    def cancel(self):
        if self in self.timers.armed:
            self.timers.armed.remove(self)

    def fire(self):
        self.cancel()
        self.callback()


@pytest.fixture
def timers(sidecar):
    timers = Timers()
    sidecar.call_later = timers.call_later
    return timers


@pytest.fixture
def cluster(sidecar, timers):
    """Three hosts; a detection ejects at the first failure, and the flag follows the detector as in a real cluster."""
    cluster = sidecar.add_cluster(
        CLUSTER, hosts=3, detection=OutlierDetection(consecutive_5xx=1, max_ejection_percent=100)
    )

    def on_change(monitor):
        host = next(host for host in cluster.hosts if host.monitor is monitor)
        host.put_flag(HealthFlag.FAILED_OUTLIER_CHECK, on=monitor.ejected)
        cluster.priority_set.refresh_health(host.priority)

    cluster.detector._on_change = on_change
    return cluster


def fields(host, **more):
    return {"cluster": CLUSTER, "host": host.address, "reason": "looking into it", **more}


def healthy(cluster):
    return [host.address for host in cluster.priority_set.host_sets[0].healthy_hosts]


async def test_ejected_by_hand_is_out_until_the_time_is_over(admin, cluster, timers):
    host, *others = cluster.hosts
    response = await admin.post("/eject", data=fields(host, seconds="60"))
    assert response.status == 200
    assert (await response.text()).startswith(f"{host.address}: eject until 1970-01-01T00:01:00Z: looking into it")
    assert healthy(cluster) == [other.address for other in others]
    (timer,) = timers.armed
    assert timer.delay_s == 60.0

    timer.fire()

    assert len(healthy(cluster)) == 3


async def test_ejection_by_hand_shows_everywhere(admin, cluster):
    host = cluster.hosts[0]
    await admin.post("/eject", data=fields(host))

    text = await (await admin.get("/clusters")).text()
    assert f"{CLUSTER}::{host.address}::override::eject until 1970-01-01T00:05:00Z: looking into it\n" in text
    assert f"{CLUSTER}::{host.address}::health_flags::/failed_eds_health\n" in text
    status = (await (await admin.get("/clusters?format=json")).json())["cluster_statuses"][0]["host_statuses"][0]
    assert status["override"] == "eject until 1970-01-01T00:05:00Z: looking into it"
    assert status["health_status"]["eds_health_status"] == "UNHEALTHY"
    explained = await (await admin.get("/explain", params={"cluster": CLUSTER, "host": host.address})).text()
    assert "By hand: eject until 1970-01-01T00:05:00Z: looking into it." in explained
    (event,) = await (await admin.get("/events?format=json")).json()
    assert (event["kind"], event["state"], event["action"], event["upstream_url"], event["reason"]) == (
        "override",
        "set",
        "eject",
        host.address,
        "looking into it",
    )


async def test_unejected_by_hand_gets_traffic_and_the_detector_goes_on(admin, cluster, timers):
    host = cluster.hosts[0]
    host.monitor.put_http_response_code(500)
    assert host.address not in healthy(cluster)
    await admin.post("/uneject", data=fields(host))

    assert host.address in healthy(cluster)
    assert host.monitor.ejected
    assert cluster.detector.stats.ejections_active == 1


async def test_end_of_an_unejection_gives_the_detector_the_word_again(admin, cluster, timers):
    host = cluster.hosts[0]
    host.monitor.put_http_response_code(500)
    await admin.post("/uneject", data=fields(host))
    timers.armed[0].fire()

    assert host.address not in healthy(cluster)


async def test_held_in_survives_a_new_ejection(sidecar, admin, cluster):
    host = cluster.hosts[0]
    host.monitor.put_http_response_code(500)
    await admin.post("/uneject", data=fields(host))
    sidecar.time.advance(30_000)
    cluster.detector.on_interval_timer()
    host.monitor.put_http_response_code(500)

    assert host.monitor.num_ejections == 2
    assert host.address in healthy(cluster)


async def test_put_out_survives_a_push_that_calls_the_host_healthy(admin, cluster):
    host = cluster.hosts[0]
    await admin.post("/eject", data=fields(host))
    host.update(host.endpoint)
    cluster.priority_set.update_hosts(cluster.hosts)

    assert host.address not in healthy(cluster)


async def test_uneject_takes_an_ejection_by_hand_back(admin, cluster, timers):
    host = cluster.hosts[0]
    await admin.post("/eject", data=fields(host))
    response = await admin.post("/uneject", data=fields(host))

    assert (await response.text()) == f"{host.address}: ejection by hand taken back\n"
    assert len(healthy(cluster)) == 3
    assert timers.armed == []


async def test_second_override_replaces_the_first(admin, cluster, timers):
    host = cluster.hosts[0]
    await admin.post("/eject", data=fields(host, seconds="10"))
    await admin.post("/eject", data=fields(host, seconds="20"))

    assert [timer.delay_s for timer in timers.armed] == [20.0]


async def test_override_of_a_removed_host_is_forgotten(sidecar, admin, cluster, timers):
    host, *others = cluster.hosts
    await admin.post("/eject", data=fields(host))
    cluster.priority_set.update_hosts(others)

    assert timers.armed == []
    kinds = [(e["kind"], e["state"]) for e in await (await admin.get("/events?format=json")).json()]
    assert kinds == [("override", "set"), ("override", "ended")]


async def test_reset_backoff_makes_the_next_ejection_last_the_base_time(sidecar, admin, cluster):
    host = cluster.hosts[0]
    for _ in range(3):
        host.monitor.put_http_response_code(500)
        sidecar.time.advance(200_000)
        cluster.detector.on_interval_timer()
    assert host.monitor.backoff == 3
    await admin.post("/reset_backoff", data=fields(host))
    host.monitor.put_http_response_code(500)

    assert host.monitor.last_ejection.ejection_time_ms == 30_000
    (event,) = await (await admin.get("/events?format=json&kind=override")).json()
    assert (event["action"], event["reason"]) == ("reset", "looking into it")


async def test_host_that_is_not_ejected_cannot_be_unejected(admin, cluster):
    assert (await admin.post("/uneject", data=fields(cluster.hosts[0]))).status == 409


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"reason": ""}, 400, "missing: reason; wanted: cluster, host, reason and maybe seconds\n"),
        ({"cluster": "x"}, 404, "no cluster x\n"),
        ({"host": "x"}, 404, f"no host x in {CLUSTER}\n"),
        ({"seconds": "0"}, 400, "seconds = 0; must be above 0 and at most 86400\n"),
        ({"seconds": "86400.1"}, 400, "seconds = 86400.1; must be above 0 and at most 86400\n"),
        ({"seconds": "nan"}, 400, "seconds = nan; must be above 0 and at most 86400\n"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
async def test_bad_request_is_refused(admin, cluster, change, status, message):
    response = await admin.post("/eject", data=fields(cluster.hosts[0]) | change)

    assert (response.status, await response.text()) == (status, message)
    assert len(healthy(cluster)) == 3
