"""A sidecar inside a test: what it can be made of, its time, and what it says."""

import json
from pathlib import Path

import pytest
import structlog
import yaml

from outlier import EnvoyRelease, OutlierDetection
from proxy.push.file_source import ConfigRejectedError
from proxy.testing import FaultyUpstream, Sidecar, SimulatedClock
from proxy.testing.sidecar_config import SidecarConfigError
from proxy.testing.simulated_clock import EPOCH_MS

BLOCK = {"consecutive5xxErrors": 3, "interval": "10s", "baseEjectionTime": "30s", "maxEjectionPercent": 50}
SPEC = {"host": "reviews", "trafficPolicy": {"loadBalancer": {"simple": "ROUND_ROBIN"}, "outlierDetection": BLOCK}}
OBJECT = {
    "apiVersion": "networking.istio.io/v1",
    "kind": "DestinationRule",
    "metadata": {"name": "reviews", "namespace": "default"},
    "spec": SPEC,
}
MCP = {
    "metadata": {"name": "default/reviews"},
    "body": {"@type": "type.googleapis.com/istio.networking.v1alpha3.DestinationRule", **SPEC},
}


async def eject(sidecar, count=6):
    for _ in range(count):
        await sidecar.get("/")


@pytest.mark.parametrize(
    "rule",
    [SPEC, OBJECT, MCP, yaml.safe_dump(SPEC), yaml.safe_dump(OBJECT), json.dumps(MCP)],
    ids=["spec", "object", "mcp", "spec text", "object text", "mcp text"],
)
async def test_a_rule_may_have_any_shape(rule):
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=rule, endpoints=[good, bad]) as sidecar,
    ):
        await eject(sidecar)

        assert sidecar.ejected() == [bad]


async def test_a_rule_may_be_a_file_and_its_service_runs_on_the_tests_endpoints(tmp_path: Path):
    service = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "reviews"},
        "spec": {
            "hosts": ["reviews.default.svc.cluster.local"],
            "resolution": "STATIC",
            "location": "MESH_INTERNAL",
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            "endpoints": [{"address": "192.0.2.1"}],
        },
    }
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump_all([OBJECT, service]))
    async with FaultyUpstream(body="mine") as good, Sidecar(config=tmp_path, endpoints=[good]) as sidecar:
        response = await sidecar.get("/")

        assert (response.status, await response.text()) == (200, "mine")


async def test_an_outlier_detection_block_is_enough():
    async with (
        FaultyUpstream(status=503) as bad,
        Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[bad]) as sidecar,
    ):
        await eject(sidecar, 4)

        assert sidecar.ejected() == [bad]


async def test_envoys_own_settings_are_taken_as_they_are():
    settings = OutlierDetection(consecutive_5xx=2, max_ejection_percent=100)
    async with (
        FaultyUpstream(status=500) as bad,
        Sidecar(outlier_detection=settings, endpoints=[bad]) as sidecar,
    ):
        await sidecar.get("/")
        before = list(sidecar.ejected())
        await sidecar.get("/")

        assert (before, sidecar.ejected()) == ([], [bad])


async def test_endpoints_may_be_addresses():
    async with (
        FaultyUpstream(status=500) as bad,
        Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[bad.address]) as sidecar,
    ):
        await eject(sidecar, 3)

        assert sidecar.ejected() == [bad.address]


@pytest.mark.parametrize(
    ("names", "status"),
    [({"pay.internal": ["127.0.0.1"]}, 200), ({"localhost": ["127.0.0.1"]}, 503)],
    ids=["given", "not given"],
)
async def test_names_of_other_services_resolve_to_what_is_given(names, status):
    async with FaultyUpstream() as upstream:
        entry = {
            "hosts": ["pay.internal"],
            "resolution": "DNS",
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            "endpoints": [{"address": "pay.internal", "ports": {"http": upstream.port}}],
        }
        route = {"hosts": ["service"], "http": [{"route": [{"destination": {"host": "pay.internal"}}]}]}
        config = [
            {"apiVersion": "networking.istio.io/v1", "kind": kind, "metadata": {"name": "pay"}, "spec": spec}
            for kind, spec in (("ServiceEntry", entry), ("VirtualService", route))
        ]
        async with Sidecar(endpoints=[], config=config, service="service", names=names) as sidecar:
            assert (await sidecar.get("/")).status == status


async def test_an_ejection_ends_at_its_time_and_not_before():
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=SPEC, endpoints=[good, bad]) as sidecar,
    ):
        await eject(sidecar)
        sidecar.advance(ms=29_999)
        before = list(sidecar.ejected())
        sidecar.advance(ms=1)

        assert (before, sidecar.ejected()) == ([bad], [])


async def test_wait_unejected_lets_the_clock_go_on_to_the_sweep_that_brings_it_back():
    clock = SimulatedClock(now_ms=5_000)
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=SPEC, endpoints=[good, bad], clock=clock) as sidecar,
    ):
        await eject(sidecar)
        await sidecar.wait_unejected(bad)

        assert (sidecar.ejected(), clock.monotonic_ms()) == ([], 35_000)


async def test_wait_unejected_gives_up_after_its_time_with_the_reasons():
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=SPEC, endpoints=[good, bad]) as sidecar,
    ):
        await eject(sidecar)

        with pytest.raises(AssertionError, match=r"after 29 s not all of .* are back") as caught:
            await sidecar.wait_unejected(bad, within_seconds=29)
        assert "Ejected: CONSECUTIVE_5XX (3 in a row, threshold 3), for 30 s" in str(caught.value)


async def test_wait_ejected_says_why_nobody_was():
    async with FaultyUpstream() as good, Sidecar(destination_rule=SPEC, endpoints=[good]) as sidecar:
        await sidecar.get("/")

        with pytest.raises(AssertionError, match=r"are ejected\n.*\n  In: not ejected") as caught:
            await sidecar.wait_ejected(good, within_seconds=0)
        assert "nothing was detected" in str(caught.value)


async def test_assert_ejected_explains_each_host_that_is_not_as_expected():
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=SPEC, endpoints=[good, bad]) as sidecar,
    ):
        await eject(sidecar)
        sidecar.assert_ejected(bad)

        with pytest.raises(AssertionError) as caught:
            sidecar.assert_ejected(good)
        message = str(caught.value)
        assert f"{good!r} should be ejected:\n  In: not ejected." in message
        assert f"{bad!r} should not be ejected:\n  Ejected: CONSECUTIVE_5XX" in message
        assert f"0.000 s  {bad.address}  ejected  CONSECUTIVE_5XX" in message


async def test_an_exception_that_leaves_the_block_carries_the_timeline():
    async def fail():
        async with (
            FaultyUpstream(status=500) as bad,
            Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[bad]) as sidecar,
        ):
            await eject(sidecar, 3)
            raise KeyError

    with pytest.raises(KeyError) as caught:
        await fail()

    assert "ejected  CONSECUTIVE_5XX (3 in a row, threshold 3), for 30 s" in caught.value.__notes__[0]


async def test_events_are_those_of_the_detectors():
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=SPEC, endpoints=[good, bad]) as sidecar,
    ):
        await eject(sidecar)
        sidecar.advance(minutes=0.5)

        assert [(event.kind, event.system_ms - EPOCH_MS, event.data["upstream_url"]) for event in sidecar.events] == [
            ("ejection", 0, bad.address),
            ("unejection", 30_000, bad.address),
        ]


async def test_the_release_decides():
    """Envoy 1.8 lets one host go whatever the cap."""
    rule = {"host": "reviews", "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 1}}}
    ejected = {}
    for release in (EnvoyRelease.V1_8, EnvoyRelease.V1_40):
        async with (
            FaultyUpstream(status=500) as bad,
            Sidecar(destination_rule=rule, endpoints=[bad], envoy_release=release) as sidecar,
        ):
            await sidecar.get("/")
            ejected[release] = len(sidecar.ejected())

    assert ejected == {EnvoyRelease.V1_8: 1, EnvoyRelease.V1_40: 0}


async def test_the_same_seed_chooses_the_same_hosts():
    """Least request draws; three upstreams, so that chance has something to choose."""

    async def counts():
        async with (
            FaultyUpstream() as a,
            FaultyUpstream() as b,
            FaultyUpstream() as c,
            Sidecar(outlier_detection={}, endpoints=[a, b, c], seed=7) as sidecar,
        ):
            await eject(sidecar, 12)
            return [upstream.request_count for upstream in (a, b, c)]

    assert await counts() == await counts()


async def test_real_time_is_not_advanced():
    async with FaultyUpstream() as good, Sidecar(endpoints=[good], real_time=True) as sidecar:
        with pytest.raises(RuntimeError, match="real time"):
            sidecar.advance(seconds=1)


async def test_real_time_ejections_end_by_themselves():
    block = BLOCK | {"interval": "5ms", "baseEjectionTime": "1ms", "maxEjectionPercent": 100}
    async with (
        FaultyUpstream(status=500) as bad,
        Sidecar(outlier_detection=block, endpoints=[bad], real_time=True) as sidecar,
    ):
        await eject(sidecar, 3)
        await sidecar.wait_unejected(bad, within_seconds=60)

        assert [event.kind for event in sidecar.events] == ["ejection", "unejection"]


async def test_a_refused_rule_does_not_start():
    rule = {"host": "reviews", "trafficPolicy": {"outlierDetection": {"maxEjectionPercent": 130}}}

    with pytest.raises(ConfigRejectedError, match="maxEjectionPercent"):
        await Sidecar(destination_rule=rule, endpoints=["127.0.0.1:1"]).start()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"destination_rule": SPEC, "outlier_detection": BLOCK}, "either"),
        ({"destination_rule": SPEC | {"host": "*.local"}}, "service="),
        ({"config": [OBJECT, OBJECT | {"metadata": {"name": "b"}, "spec": SPEC | {"host": "b"}}]}, "service="),
    ],
    ids=["two rules", "wildcard", "two hosts"],
)
async def test_an_open_question_is_an_error(arguments, message):
    with pytest.raises(SidecarConfigError, match=message):
        await Sidecar(endpoints=["127.0.0.1:1"], **arguments).start()


async def test_explain_of_a_host_without_detection_says_so():
    async with FaultyUpstream() as good, Sidecar(endpoints=[good]) as sidecar:
        assert sidecar.explain(good) == f"no cluster with outlier detection has {good.address}"


async def test_the_path_reaches_the_upstream_unchanged():
    async with FaultyUpstream() as good, Sidecar(endpoints=[good]) as sidecar:
        await sidecar.get("/a%2Fb?c=%7E")

        assert good.requests[-1].target == "/a%2Fb?c=%7E"


async def test_log_lines_go_to_logging_and_not_to_stdout(capsys, caplog):
    structlog.reset_defaults()
    async with (
        FaultyUpstream(status=500) as bad,
        Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[bad]) as sidecar,
    ):
        await eject(sidecar, 3)
    structlog.reset_defaults()

    assert capsys.readouterr().out == ""
    assert [line.name for line in caplog.records if "outlier.host_ejected" in line.message] == ["outlier"]


async def test_a_configured_structlog_is_left_alone():
    async with FaultyUpstream() as good:
        structlog.configure(processors=[structlog.processors.JSONRenderer()])
        before = structlog.get_config()
        async with Sidecar(endpoints=[good]):
            after = structlog.get_config()
        structlog.reset_defaults()

    assert after == before
