"""New rules over the requests of an access log: who would have been ejected, and what that would have changed."""

import argparse
import json

import pytest

from outlier import ConfigError
from proxy import simulate_command
from proxy.errors import ProxyError
from proxy.testing import FaultyUpstream, Sidecar

CLUSTER = "outbound|9080||reviews.default.svc.cluster.local"
MIDNIGHT_MS = 1_795_996_800_000


def rule(host="reviews", namespace="default", **block):
    block = {"consecutive5xxErrors": 2, "interval": "10s", "baseEjectionTime": "30s", "maxEjectionPercent": 100} | block
    return json.dumps(
        {
            "apiVersion": "networking.istio.io/v1",
            "kind": "DestinationRule",
            "metadata": {"name": host, "namespace": namespace},
            "spec": {"host": host, "trafficPolicy": {"outlierDetection": block}},
        }
    )


def line(at_s, host, status=200, *, flags="-", duration_ms=0, cluster=CLUSTER, **fields):
    minutes, seconds = divmod(at_s, 60)
    return json.dumps(
        {
            "start_time": f"2026-11-30T00:{int(minutes):02d}:{seconds:06.3f}Z",
            "duration_ms": duration_ms,
            "response_code": status,
            "response_flags": flags,
            "response_code_details": "via_upstream",
            "upstream_cluster": cluster,
            "upstream_host": host,
        }
        | fields
    )


@pytest.fixture
def replay(tmp_path, capsys):
    """Replay lines against a rule; return the moments as (second, host, what), and the summary."""
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())

    def run(lines, config, *options):
        (tmp_path / "access.jsonl").write_text("\n".join(lines) + "\n")
        (tmp_path / "new.yaml").write_text(config)
        arguments = ["--replay", str(tmp_path / "access.jsonl"), "--config", str(tmp_path / "new.yaml"), *options]
        assert simulate_command.run(parser.parse_args(["simulate", "--format", "json", *arguments])) == 0
        *moments, summary = map(json.loads, capsys.readouterr().out.splitlines())
        told = [((moment["at_ms"] - MIDNIGHT_MS) / 1000, moment["host"], moment["what"]) for moment in moments]
        return told, summary["summary"]

    return run


def test_a_host_is_ejected_and_returns_as_the_rule_says(replay):
    lines = [line(1, "a:1", 503), line(2, "a:1", 503), line(3, "b:1"), line(60, "b:1")]

    told, summary = replay(lines, rule())

    assert told == [(2.0, "a:1", "ejected"), (41.0, "a:1", "unejected")]
    assert summary["clusters"][CLUSTER] == {
        "hosts": 2,
        "outlier_detection": True,
        "requests": 4,
        "failed": 2,
        "saved": 0,
        "diverted": 0,
        "lost": 0,
        "ejections": 1,
        "most_ejected": 1,
    }


def test_requests_to_an_ejected_host_are_saved_diverted_or_lost(replay):
    out = [line(1, "a:1", 503), line(2, "a:1", 503)]
    while_out = [line(3, "a:1", 503), line(4, "a:1", 200), line(5, "a:1", 404)]
    all_out = [line(6, "b:1", 500), line(7, "b:1", 500), line(8, "b:1", 200), line(9, "b:1", 500)]

    _, summary = replay([*out, *while_out, *all_out], rule())

    counts = summary["clusters"][CLUSTER]
    assert (counts["saved"], counts["diverted"], counts["lost"]) == (2, 2, 1)
    assert counts["most_ejected"] == 2


def test_in_panic_nobody_is_diverted(replay):
    lines = [line(1, "a:1", 503), line(2, "a:1", 503), line(3, "a:1", 503)]

    _, summary = replay(lines, rule(minHealthPercent=50))

    assert summary["clusters"][CLUSTER]["saved"] == 0


def test_a_request_that_began_before_the_ejection_was_sent_there(replay):
    lines = [line(1, "b:1"), line(1, "a:1", 503), line(2, "a:1", 503)]
    lines += [line(1.999, "a:1", 503, duration_ms=1_000), line(2, "a:1", 503, duration_ms=1_000)]

    _, summary = replay(lines, rule())

    assert summary["clusters"][CLUSTER]["saved"] == 1


def test_an_ejected_host_is_silent_so_its_next_ejection_begins_afresh(replay):
    """The errors logged while it is out would not have happened."""
    lines = [line(at, "a:1", 503) for at in (1, 2, 3, 4)] + [line(1, "b:1"), line(50, "a:1", 503), line(51, "a:1", 503)]

    told, _ = replay(lines, rule())

    assert [(at, what) for at, _, what in told] == [(2.0, "ejected"), (41.0, "unejected"), (51.0, "ejected")]


@pytest.mark.parametrize(
    ("fields", "ejected"),
    [
        ({"status": 503, "flags": "UF"}, True),
        ({"status": 503, "flags": "UC"}, True),
        ({"status": 504, "flags": "UT"}, True),
        ({"status": 503, "flags": "UF,URX"}, True),
        ({"status": 500, "flags": "URX"}, True),
        ({"status": 503, "flags": "UO"}, False),
        ({"status": 0, "flags": "DC"}, False),
        ({"status": 503, "flags": "DC"}, True),
        ({"status": 404}, False),
        ({"status": 499}, False),
    ],
)
def test_flags_say_whose_fault_it_was(replay, fields, ejected):
    told, _ = replay([line(at, "a:1", **fields) for at in (1, 2)], rule())

    assert [what for *_, what in told] == (["ejected"] if ejected else [])


def test_the_rules_error_codes_count(replay):
    told, _ = replay([line(at, "a:1", 429) for at in (1, 2)], rule(outlierDetectionHttpErrorCodes=[429]))

    assert [what for *_, what in told] == ["ejected"]


def test_all_hosts_of_the_log_count_for_the_cap_from_the_start(replay):
    lines = [line(1, "a:1", 503), line(2, "a:1", 503), line(3, "b:1")]

    refused, _ = replay(lines, rule(maxEjectionPercent=49))
    allowed, _ = replay(lines, rule(maxEjectionPercent=50))

    assert [what for *_, what in refused] == ["not ejected"]
    assert [what for *_, what in allowed] == ["ejected"]


@pytest.mark.parametrize(
    ("endpoints", "percent", "outcome"),
    [
        (
            {"resolution": "STATIC", "endpoints": [{"address": f"10.0.0.{number}"} for number in range(4)]},
            25,
            "ejected",
        ),
        ({"resolution": "DNS", "endpoints": [{"address": "reviews.internal"}]}, 99, "not ejected"),
    ],
    ids=["addresses", "names"],
)
def test_the_addresses_of_the_configuration_count_too(replay, endpoints, percent, outcome):
    service = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "reviews"},
        "spec": {
            "hosts": ["reviews.default.svc.cluster.local"],
            "location": "MESH_INTERNAL",
            "ports": [{"number": 9080, "name": "http", "protocol": "HTTP"}],
            **endpoints,
        },
    }
    lines = [line(1, "10.0.0.1:9080", 503), line(2, "10.0.0.1:9080", 503)]

    told, _ = replay(lines, json.dumps(service) + "\n---\n" + rule(maxEjectionPercent=percent))

    assert [what for *_, what in told] == [outcome]


def test_istios_own_lines_are_read(replay):
    """Its duration is called so, and since 1.24 its clusters end with a semicolon."""
    lines = [
        json.dumps(json.loads(line(at, "a:1", 503, cluster=CLUSTER + ";")) | {"duration": 0, "duration_ms": 0})
        for at in (1, 2)
    ]

    told, summary = replay(lines, rule())

    assert ([what for *_, what in told], list(summary["clusters"])) == (["ejected"], [CLUSTER])


def test_a_subset_and_a_rule_of_the_services_namespace_apply(replay):
    cluster = "outbound|80|v2|reviews.shop.svc.cluster.local"
    config = json.loads(rule(namespace="shop"))
    config["spec"]["subsets"] = [
        {"name": "v2", "labels": {"version": "v2"}, "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 0}}}
    ]

    told, summary = replay([line(at, "a:1", 503, cluster=cluster) for at in (1, 2, 3)], json.dumps(config))

    assert (told, summary["clusters"][cluster]["outlier_detection"]) == ([], True)


def test_other_lines_are_counted_and_passed_over(replay):
    lines = [line(1, "a:1"), "no JSON", "[]", json.dumps({"upstream_cluster": CLUSTER}), line(2, None, cluster=None)]

    _, summary = replay(lines, rule())

    assert (summary["lines"], summary["unreadable"], summary["unrouted"]) == (5, 3, 1)


def test_a_cluster_without_a_rule_is_only_counted(replay):
    _, summary = replay([line(1, "a:1", 503, cluster="outbound|80||other.default.svc.cluster.local")], rule())

    (counts,) = summary["clusters"].values()
    assert (counts["requests"], counts["failed"], counts["outlier_detection"]) == (1, 1, False)


def test_text_says_what_was_saved(tmp_path, capsys):
    (tmp_path / "access.jsonl").write_text("\n".join([line(at, "a:1", 503) for at in (1, 2, 3)] + [line(4, "b:1")]))
    (tmp_path / "new.yaml").write_text(rule())
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    options = ["simulate", "--replay", str(tmp_path / "access.jsonl"), "--config", str(tmp_path / "new.yaml")]
    simulate_command.run(parser.parse_args(options))

    assert capsys.readouterr().out.splitlines() == [
        f"2026-11-30T00:00:02.000Z  {CLUSTER}  a:1  ejected  CONSECUTIVE_5XX (2 in a row, threshold 2), for 30 s",
        f"{CLUSTER}: 2 hosts, 4 requests, 3 failed",
        "  1 ejections, at most 1 at a time; saved 1 failed requests, diverted 0 good ones, lost 0",
        "4 lines, 0 without a cluster, 0 unreadable",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replay", "log"], "--config"),
        (["--replay", "log", "--config", "c", "--envoy-release", "1.8", "--envoy-release", "1.40"], "once"),
        (["--replay", "log", "--config", "c", "--check"], "does not go with check"),
        (["x.yaml", "--replay", "log", "--config", "c"], "does not go with scenarios"),
        ([], "at least one scenario"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, message):
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())

    with pytest.raises(ConfigError, match=message):
        simulate_command.run(parser.parse_args(["simulate", *arguments]))


def test_a_log_that_is_not_there_is_an_error(replay, tmp_path):
    with pytest.raises(ProxyError, match="gone: No such file"):
        replay([], rule(), "--replay", str(tmp_path / "gone"))


def test_a_log_without_requests_is_an_error(replay):
    with pytest.raises(ProxyError, match="no request that was sent to a cluster, in 1 lines"):
        replay(["{}"], rule())


def test_refused_rules_are_an_error(replay):
    with pytest.raises(ProxyError, match="maxEjectionPercent"):
        replay([line(1, "a:1")], rule(maxEjectionPercent=130))


async def test_the_sidecars_own_log_replays_to_what_the_sidecar_did(tmp_path, replay):
    """Sweeps are counted from the first request here, from the start there, so times agree within an interval."""
    config = rule(maxEjectionPercent=50)
    log = tmp_path / "sidecar.jsonl"
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=config, endpoints=[good, bad], access_log=log) as sidecar,
    ):
        for _ in range(6):
            await sidecar.get("/")
            sidecar.advance(seconds=1)
        sidecar.advance(seconds=60)
        await sidecar.get("/")
        did = [(event.system_ms / 1000, event.data["upstream_url"], event.kind) for event in sidecar.events]

    told, summary = replay(log.read_text().splitlines(), config)

    kinds = {"ejected": "ejection", "unejected": "unejection"}
    assert [(host, kinds[what]) for _, host, what in told] == [(host, kind) for _, host, kind in did]
    assert [at_s + MIDNIGHT_MS / 1000 for at_s, *_ in told] == pytest.approx([at_s for at_s, *_ in did], abs=10)
    assert summary["clusters"]["outbound|80||reviews.default.svc.cluster.local"]["requests"] == 7
