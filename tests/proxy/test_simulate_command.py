import argparse
import json
import re

import pytest

from outlier import ConfigError, ScenarioError
from proxy import simulate_command
from proxy.errors import ProxyError

ONE_OF_THREE = """
name: one of three
destination_rule:
  host: reviews
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 3, interval: 5s, baseEjectionTime: 10s, maxEjectionPercent: 50}
duration: 30s
rate: 20
hosts: [a, b, c]
behaviours: [b fails with 503 from 10s]
"""


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """Run the command on a scenario's text; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())

    def run(text, *options):
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        code = simulate_command.run(parser.parse_args(["simulate", str(file), *map(str, options)]))
        return code, capsys.readouterr().out

    return run


def test_timeline_has_time_host_and_reason(simulate):
    code, out = simulate(ONE_OF_THREE)

    lines = [line.rstrip() for line in out.splitlines()]
    assert (code, lines[0]) == (0, "one of three, Envoy 1.40: 30 s, 601 requests, 6 failed, 2 ejections")
    assert lines[1] == "10.350 s  b  ejected    CONSECUTIVE_5XX (3 in a row, threshold 3), for 10 s"
    assert lines[2] == "25.000 s  b  unejected  ejected for 14.65 s, 10 s were due"


def test_releases_stand_side_by_side(simulate):
    text = ONE_OF_THREE.replace("[b fails", "[c fails with 503 from 10s, b fails")
    _, out = simulate(text, "--envoy-release", "1.8", "--envoy-release", "1.40")

    assert "Envoy 1.8" in out
    row = next(line for line in out.splitlines() if line.startswith("10.400 s  c"))
    assert re.match(r"10.400 s  c +ejected: CONSECUTIVE_5XX .* not ejected: CONSECUTIVE_5XX", row)


def test_repeated_refusals_make_one_line(simulate):
    text = ONE_OF_THREE.replace("maxEjectionPercent: 50", "maxEjectionPercent: 10, consecutiveGatewayErrors: 0")
    _, out = simulate(text)

    assert out.count("not ejected") == 1
    assert "times)" in out


def test_json_holds_the_same(simulate):
    _, out = simulate(ONE_OF_THREE, "--format", "json")

    (found,) = json.loads(out)
    assert (found["scenario"], found["envoy_release"], found["requests"]) == ("one of three", "1.40", 601)
    assert found["timeline"][0] == {
        "at_ms": 10_350,
        "kind": "ejected",
        "host": "b",
        "reason": "CONSECUTIVE_5XX (3 in a row, threshold 3), for 10 s",
    }


@pytest.mark.parametrize(("ejected", "options", "code"), [("b", ["--check"], 0), ("c", ["--check"], 1), ("c", [], 0)])
def test_check_fails_on_an_unmet_expectation(simulate, ejected, options, code):
    found, out = simulate(f"{ONE_OF_THREE}expect: [{{at: 12s, ejected: [{ejected}]}}]\n", *options)

    assert found == code
    assert ("unmet, Envoy 1.40: expect[0].ejected at 12000 ms: expected ['c'], got ['b']" in out) is (ejected == "c")


def test_rule_brings_its_panic_threshold(simulate):
    """Without minHealthPercent Istio switches panic off, so requests fail when everyone is out."""
    text = ONE_OF_THREE.replace("maxEjectionPercent: 50", "maxEjectionPercent: 100").replace("[a, b, c]", "[b]")
    _, without = simulate(text, "--format", "json")
    _, with_panic = simulate(text.replace("interval: 5s", "minHealthPercent: 50, interval: 5s"), "--format", "json")

    assert "panic" not in {moment["kind"] for moment in json.loads(without)[0]["timeline"]}
    assert "panic" in {moment["kind"] for moment in json.loads(with_panic)[0]["timeline"]}


def test_istio_release_converts_the_rule(simulate):
    """1.0.0 did not know consecutive5xxErrors: Envoy's 5 applies."""
    text = ONE_OF_THREE.replace("consecutive5xxErrors: 3", "consecutiveErrors: 2")
    _, old = simulate(text, "--format", "json", "--istio-release", "1.0.0")
    _, new = simulate(text, "--format", "json")

    assert "threshold 2" in json.loads(old)[0]["timeline"][0]["reason"]
    assert "threshold 5" in json.loads(new)[0]["timeline"][0]["reason"]


RULE = """
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: default}
spec: {host: reviews, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 2, maxEjectionPercent: 100}}}
"""


def test_rule_can_come_from_a_folder(simulate, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rule.yaml").write_text(RULE)
    _, out = simulate(ONE_OF_THREE, "--config", folder)

    assert "2 in a row, threshold 2" in out


def test_folder_with_two_rules_is_refused(simulate, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rule.yaml").write_text(RULE + "---" + RULE.replace("name: reviews", "name: other"))

    with pytest.raises(ProxyError, match="2 DestinationRules with outlierDetection; exactly one is needed"):
        simulate(ONE_OF_THREE, "--config", folder)


def test_vector_file_is_run_case_by_case(simulate):
    text = """
cases:
- {id: one, eras: [legacy, current], hosts: [a], steps: [{report: {host: a, code: 500, count: 5}}]}
- {id: other, eras: [current], kind: event_json}
"""
    _, out = simulate(text, "--format", "json")

    assert [(found["scenario"], found["envoy_release"]) for found in json.loads(out)] == [
        ("scenario", "1.8"),
        ("scenario", "1.40"),
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", ProxyError, "scenario.yaml: while parsing"),
        ("[]", ScenarioError, "scenario.yaml: a scenario is a mapping"),
        ("duration: 1s\nspeed: 2", ScenarioError, "scenario.yaml: speed: no such key"),
        (
            "duration: 1s\noutlier_detection: {interval: 0s}",
            ConfigError,
            "scenario.yaml: interval_ms = 0; value must be",
        ),
        ("duration: 1s\ndestination_rule: {host: a}", ScenarioError, "has no outlierDetection"),
        ("duration: 1s\ndestination_rule: {hosts: a}", ScenarioError, "destination_rule: spec.host = "),
        (
            "duration: 1s\ndestination_rule: {host: a, trafficPolicy: {outlierDetection: {interval: 0s}}}",
            ScenarioError,
            "destination_rule: spec.trafficPolicy.outlierDetection.interval = ",
        ),
        ("duration: 1s\ndestination_rule: {kind: Pod}", ScenarioError, "destination_rule: "),
        ("duration: 1s\ndestination_rule: {}\noutlier_detection: {}", ScenarioError, "give either this or"),
    ],
)
def test_refused_scenario_names_file_and_place(simulate, text, error, message):
    with pytest.raises(error) as caught:
        simulate(text)

    assert message in str(caught.value)


def test_missing_file_is_refused(simulate, tmp_path):
    with pytest.raises(ProxyError, match="No such file"):
        simulate(ONE_OF_THREE, tmp_path / "missing.yaml")


@pytest.mark.slow
def test_plot_is_an_svg_with_a_lane_for_each_host(simulate, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plot.svg"
    simulate(ONE_OF_THREE, "--plot", picture)

    text = picture.read_text()
    assert text.startswith("<?xml")
    assert all(f"<!-- {host} -->" in text for host in "abc")


def test_plot_of_an_unknown_format_is_refused(simulate, tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ProxyError, match=r"plot\.xyz"):
        simulate(ONE_OF_THREE, "--plot", tmp_path / "plot.xyz")


def test_a_shadow_rule_stands_beside_the_live_one_and_says_what_it_saves(simulate, tmp_path):
    shadow = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "new"},
        "spec": {
            "host": "reviews",
            "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 1, "maxEjectionPercent": 50}},
        },
    }
    (tmp_path / "new.json").write_text(json.dumps(shadow))
    code, out = simulate(ONE_OF_THREE, "--shadow", tmp_path / "new.json", "--check")

    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("one of three, Envoy 1.40: 30 s, 601 requests, 6 failed")
    assert lines[1].startswith("one of three, Envoy 1.40, shadow rule: 30 s, 601 requests, 1 failed")
    assert lines[2] == "the shadow rule saves 5 of 601 requests"
    assert "Envoy 1.40, shadow rule" in lines[3]


def test_json_tells_the_shadow_from_the_live_rule(simulate, tmp_path):
    scenario = tmp_path / "rule.yaml"
    scenario.write_text(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\n"
        "spec: {host: reviews, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 1}}}\n"
    )
    _, out = simulate(ONE_OF_THREE, "--shadow", scenario, "--format", "json")

    assert [(run["envoy_release"], run["shadow"]) for run in json.loads(out)] == [("1.40", False), ("1.40", True)]
