"""The guide's properties: the first rules break them with the counterexamples shown, the second keep them."""

import argparse
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from proxy import simulate_command
from proxy.testing import longest_ejection_ms, most_ejected, simulated
from proxy.testing.strategies import traffic

PAGE = (Path(__file__).parents[3] / "docs" / "property-test-your-rule.md").read_text()
SEARCH = settings(max_examples=200, deadline=None, derandomize=True, database=None)

pytestmark = pytest.mark.slow


def rule(**block):
    return {"host": "reviews", "trafficPolicy": {"outlierDetection": block}}


def replay(file, *options):
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    return simulate_command.run(parser.parse_args(["simulate", str(file), *options]))


def half_out(spec, file):
    @SEARCH
    @given(drawn=traffic(5, seconds=60))
    def no_more_than_half_of_the_pods_are_ever_out(drawn):
        with simulated({**drawn, "destination_rule": spec}, write_to=file) as simulation:
            assert most_ejected(simulation) <= 2

    no_more_than_half_of_the_pods_are_ever_out()


def out_too_long(spec, file, examples):
    @settings(SEARCH, max_examples=examples)
    @given(drawn=traffic(5, seconds=900))
    def no_pod_is_out_for_more_than_five_minutes(drawn):
        with simulated({**drawn, "destination_rule": spec}, write_to=file) as simulation:
            assert longest_ejection_ms(simulation) <= 300_000

    no_pod_is_out_for_more_than_five_minutes()


def test_sixty_percent_of_five_is_found_with_the_scenario_that_the_page_shows(tmp_path, capsys):
    file = tmp_path / "more-than-half.yaml"
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])

    with pytest.raises(AssertionError):
        half_out(shown["destination_rule"], file)

    found = yaml.safe_load(file.read_text())
    assert found == shown | {"behaviours": found["behaviours"]}
    assert len(found["behaviours"]) == len(shown["behaviours"])
    assert replay(file) == 0
    assert capsys.readouterr().out.count(" ejected ") >= 3


def test_fifty_percent_of_five_holds(tmp_path):
    half_out(rule(consecutive5xxErrors=1, maxEjectionPercent=50), tmp_path / "x.yaml")

    assert not (tmp_path / "x.yaml").exists()


def test_a_base_of_two_minutes_keeps_a_flapping_pod_out_too_long(tmp_path):
    file = tmp_path / "out-too-long.yaml"

    with pytest.raises(AssertionError):
        out_too_long(rule(consecutive5xxErrors=5, baseEjectionTime="2m", maxEjectionPercent=50), file, 200)

    assert len(yaml.safe_load(file.read_text())["behaviours"]) <= 2


def test_a_base_of_thirty_seconds_does_not_in_a_quarter_of_an_hour(tmp_path):
    out_too_long(rule(consecutive5xxErrors=5, baseEjectionTime="30s", maxEjectionPercent=50), tmp_path / "x.yaml", 40)
