import pytest
from structlog.testing import capture_logs

from proxy.config.node import NodeConfig
from proxy.config.resource import read_resources
from proxy.push.pipeline import ConfigPipeline

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
"""
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a}
spec: {host: a, trafficPolicy: {outlierDetection: {interval: %s}}}
"""


class Clock:
    now_ms = 1000

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def applied():
    return []


@pytest.fixture
def pipeline(applied, clock):
    return ConfigPipeline(NodeConfig(), apply=applied.append, system_ms=clock)


def update(pipeline, removed=(), **texts):
    return pipeline.update("file", {part: read_resources(text, part) for part, text in texts.items()}, removed)


def interval_ms(snapshot):
    (cluster,) = snapshot.clusters.values()
    return cluster.outlier_detection.interval_ms


def test_each_new_state_is_applied_once_and_logged(pipeline, applied):
    with capture_logs() as logs:
        update(pipeline, service=SERVICE, rule=RULE % "1s")
        update(pipeline, rule=RULE % "2s")
        update(pipeline, rule=RULE % "2000ms")

    assert [interval_ms(snapshot) for snapshot in applied] == [1000, 2000]
    assert applied[-1] is pipeline.snapshot
    assert [(log["event"], log["version"]) for log in logs] == [("config.applied", "1"), ("config.applied", "2")]


def test_a_refused_resource_leaves_the_running_one_in_force_and_is_named(pipeline, applied):
    update(pipeline, service=SERVICE, rule=RULE % "1s")

    with capture_logs() as logs:
        errors = update(pipeline, rule=RULE % "1us")

    assert len(applied) == 1
    assert [str(error) for error in errors] == [
        (
            "rule: spec.trafficPolicy.outlierDetection.interval = 1us; must be at least 1ms, in whole milliseconds"
            " (DestinationRule default/a, line 4)"
        )
    ]
    assert logs == [
        {
            "event": "config.rejected",
            "log_level": "warning",
            "source": "rule",
            "resource": "DestinationRule default/a",
            "line": 4,
            "error": str(errors[0]),
        }
    ]


def test_the_status_says_since_when_a_source_is_stale(pipeline, clock):
    update(pipeline, service=SERVICE, rule=RULE % "1s")
    clock.now_ms = 2000
    update(pipeline, rule=RULE % "10")
    clock.now_ms = 3000
    update(pipeline, service=SERVICE)

    (stale,) = pipeline.status().sources
    clock.now_ms = 4000
    update(pipeline, rule=RULE % "1s")
    (fresh,) = pipeline.status().sources

    assert (stale.stale_since_ms, len(stale.rejected), stale.last_update_ms) == (2000, 1, 3000)
    assert (fresh.stale_since_ms, fresh.rejected, fresh.last_update_ms) == (None, (), 4000)


def test_the_status_counts_resources_by_collection(pipeline):
    update(pipeline, service=SERVICE, rule=RULE % "1s")

    status = pipeline.status()

    assert status.sources[0].resources == {
        "istio/networking/v1alpha3/serviceentries": 1,
        "istio/networking/v1alpha3/destinationrules": 1,
    }
    assert (status.version, status.clusters, status.virtual_hosts) == ("1", 1, 1)


def test_sources_do_not_touch_each_others_parts(pipeline):
    update(pipeline, part=SERVICE)

    pipeline.update("other", {}, ["part"])

    assert len(pipeline.snapshot.clusters) == 1


def test_a_removed_part_takes_its_resources_along(pipeline, applied):
    update(pipeline, service=SERVICE, rule=RULE % "1s")

    update(pipeline, removed=["service"])

    assert applied[-1].clusters == {}
