"""A rule on trial beside the live one: it ejects nobody, and counts what it would have changed."""

import json
import urllib.request

import pytest

from proxy.config.advice import advise
from proxy.config.resource import read_resources
from proxy.config.service_clusters import ConversionContext
from proxy.config.shadow import SHADOW_ANNOTATION
from proxy.config.static_config import static_config
from proxy.testing import FaultyUpstream, Sidecar

PLAIN = {"host": "reviews", "trafficPolicy": {"loadBalancer": {"simple": "ROUND_ROBIN"}}}
ROUND_ROBIN = {"loadBalancer": {"simple": "ROUND_ROBIN"}}
BLOCK = {"consecutive5xxErrors": 3, "baseEjectionTime": "30s", "maxEjectionPercent": 50}


def rule(shadow, live=None):
    policy = ROUND_ROBIN | ({} if live is None else {"outlierDetection": live})
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "reviews", "annotations": {SHADOW_ANNOTATION: json.dumps(shadow)}},
        "spec": {"host": "reviews", "trafficPolicy": policy},
    }


def stats(sidecar):
    """Return the shadow's statistics that are not 0."""
    with urllib.request.urlopen(f"{sidecar.admin_url}/stats?format=json&filter=outlier_detection_shadow") as response:
        shown = json.load(response)["stats"]
    return {stat["name"].rpartition(".")[2]: stat["value"] for stat in shown if stat["value"]}


def get(sidecar, count):
    for _ in range(count):
        sidecar.get("/")


@pytest.mark.parametrize("live", [None, {"consecutive5xxErrors": 0}], ids=["no live rule", "a live rule"])
def test_the_shadow_ejects_nobody_and_counts_what_it_would_have_saved(live):
    with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=rule(BLOCK, live), endpoints=[good, bad]) as sidecar,
    ):
        get(sidecar, 6)
        get(sidecar, 4)

        assert (sidecar.ejected(), bad.request_count) == ([], 5)
        counted = stats(sidecar)
        assert (counted["ejections_active"], counted["saved"], counted["most_ejected"]) == (1, 2, 1)
        assert "diverted" not in counted


def test_requests_that_succeed_on_a_host_that_would_be_out_are_diverted():
    with (
        FaultyUpstream() as good,
        FaultyUpstream() as bad,
        Sidecar(destination_rule=rule(BLOCK), endpoints=[good, bad]) as sidecar,
    ):
        bad.for_next(3, status=500)
        get(sidecar, 8)

        assert (stats(sidecar)["diverted"], "saved" in stats(sidecar)) == (1, False)


def test_requests_are_lost_when_nobody_would_be_left():
    with (
        FaultyUpstream() as only,
        Sidecar(destination_rule=rule(BLOCK | {"maxEjectionPercent": 100}), endpoints=[only]) as sidecar,
    ):
        only.for_next(3, status=500)
        get(sidecar, 5)

        assert stats(sidecar)["lost"] == 2


def test_its_ejections_end_like_others():
    with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=rule(BLOCK), endpoints=[good, bad]) as sidecar,
    ):
        get(sidecar, 6)
        sidecar.advance(seconds=29)
        before = stats(sidecar)["ejections_active"]
        sidecar.advance(seconds=1)

        assert (before, "ejections_active" in stats(sidecar)) == (1, False)


@pytest.mark.parametrize(
    ("reply", "block"),
    [
        ({"fault": "reset"}, BLOCK),
        ({"status": 429}, BLOCK | {"outlierDetectionHttpErrorCodes": [429]}),
        ({"status": 503}, {"consecutiveGatewayErrors": 3, "consecutive5xxErrors": 0, "maxEjectionPercent": 50}),
    ],
    ids=["reset", "error codes of its own", "gateway"],
)
def test_it_hears_what_the_live_detector_hears(reply, block):
    with (
        FaultyUpstream() as good,
        FaultyUpstream(**reply) as bad,
        Sidecar(destination_rule=rule(block), endpoints=[good, bad]) as sidecar,
    ):
        get(sidecar, 10)

        assert stats(sidecar)["ejections_enforced_total"] == 1


def test_a_refused_connection_is_heard():
    with (
        FaultyUpstream() as good,
        FaultyUpstream() as bad,
        Sidecar(destination_rule=rule(BLOCK), endpoints=[good, bad]) as sidecar,
    ):
        bad.refuse()
        get(sidecar, 10)

        assert stats(sidecar)["ejections_enforced_total"] == 1


def test_live_and_shadow_are_told_apart_in_the_events():
    with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=rule(BLOCK | {"consecutive5xxErrors": 2}, BLOCK), endpoints=[good, bad]) as sidecar,
    ):
        get(sidecar, 6)

        assert [event.kind for event in sidecar.events] == ["ejection"]
        assert [line.split("  ")[-2] for line in sidecar.timeline().splitlines()[1:]] == ["would be ejected", "ejected"]
        assert sidecar.ejected() == [bad]
        assert stats(sidecar)["ejections_enforced_total"] == 1


def findings(annotation):
    text = json.dumps(rule(BLOCK) | {"metadata": {"name": "r", "annotations": {SHADOW_ANNOTATION: annotation}}})
    found = advise(static_config({"x": text}, ConversionContext()))
    return [issue.rule for issue in found if SHADOW_ANNOTATION in issue.rule]


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        (json.dumps(BLOCK), ""),
        ("consecutive5xxErrors: 3", ""),
        ("{", "cannot be parsed"),
        ("3", "must be an object"),
        ("maxEjectionPercent: 130", "maxEjectionPercent"),
    ],
)
def test_check_says_why_an_annotation_is_not_used(annotation, found):
    rules = findings(annotation)

    assert len(rules) == bool(found)
    assert found in "".join(rules)


@pytest.mark.parametrize("annotation", ["{", "maxEjectionPercent: 130"])
def test_a_bad_annotation_is_ignored(annotation):
    bad = rule(BLOCK) | {"metadata": {"name": "reviews", "annotations": {SHADOW_ANNOTATION: annotation}}}
    with FaultyUpstream() as good, Sidecar(destination_rule=bad, endpoints=[good]) as sidecar:
        assert sidecar.get("/").status == 200
        assert stats(sidecar) == {}


def test_an_annotation_may_come_change_and_go_while_the_sidecar_runs():
    def update(sidecar, shadow):
        document = rule(shadow) if shadow else rule({}) | {"metadata": {"name": "reviews"}}
        document["metadata"]["name"] = "rule"
        thread, server = sidecar._running(), sidecar._sidecar._server
        thread.call(server.pipeline.update, "test", {"destination_rule": read_resources(json.dumps(document), "x")})

    with FaultyUpstream(status=500) as bad, Sidecar(destination_rule=PLAIN, endpoints=[bad]) as sidecar:
        get(sidecar, 2)
        assert stats(sidecar) == {}
        update(sidecar, BLOCK | {"maxEjectionPercent": 100})
        get(sidecar, 3)
        assert stats(sidecar)["ejections_active"] == 1
        update(sidecar, {"consecutive5xxErrors": 0})
        get(sidecar, 3)
        assert "ejections_active" not in stats(sidecar)
        update(sidecar, None)
        get(sidecar, 3)
        assert stats(sidecar) == {}
