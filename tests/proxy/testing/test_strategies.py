"""What the strategies draw is what the product takes; counterexamples are scenarios that `outlier simulate` replays."""

import argparse
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from outlier import Scenario
from proxy import simulate_command
from proxy.config.scenario_reader import read_rule
from proxy.testing import longest_ejection_ms, most_ejected, simulated
from proxy.testing.strategies import DetectorMachine, destination_rules, outlier_detections, traffic

QUICK = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def rule(**block):
    return {"host": "reviews", "trafficPolicy": {"outlierDetection": block}}


def replay(*arguments):
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    return simulate_command.run(parser.parse_args(["simulate", *map(str, arguments)]))


@pytest.mark.slow
@QUICK
@given(destination_rules())
def test_drawn_rules_are_accepted(spec):
    assert read_rule(spec).host == "reviews"


@pytest.mark.slow
@QUICK
@given(outlier_detections())
def test_drawn_blocks_are_accepted(block):
    read_rule(rule(**block))


@pytest.mark.slow
@QUICK
@given(traffic(moves=True))
def test_drawn_traffic_is_a_scenario_without_its_rule(drawn):
    scenario = Scenario.from_dict(drawn)

    assert scenario.hosts == ("h0", "h1", "h2", "h3")


@pytest.mark.parametrize(
    ("behaviours", "most", "longest_ms"),
    [
        ([], 0, 0),
        (["a fails with 503 from 1s to 5s"], 1, 10_000),
        (["a fails with 503 from 1s to 5s", "b fails with 503 from 1s to 5s"], 2, 10_000),
        (["a fails with 503 from 1s to 5s", "b fails with 503 from 31s to 35s"], 1, 10_000),
    ],
    ids=["none", "one", "both at once", "one after the other"],
)
def test_most_ejected_and_longest_ejection_are_those_of_the_timeline(tmp_path, behaviours, most, longest_ms):
    block = {"consecutive5xxErrors": 1, "interval": "1s", "baseEjectionTime": "9500ms", "maxEjectionPercent": 100}
    scenario = {"duration": "60s", "rate": 100, "hosts": ["a", "b"], "behaviours": behaviours}
    scenario |= {"destination_rule": rule(**block)}
    with simulated(scenario, write_to=tmp_path / "x.yaml") as simulation:
        assert most_ejected(simulation) == most
        assert round(longest_ejection_ms(simulation), -3) == longest_ms
        assert longest_ejection_ms(simulation, "c") == 0

    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.slow
def test_a_property_that_fails_leaves_a_scenario_that_shows_it(tmp_path, capsys):
    """Sixty percent of four hosts are two, of five three: more than half."""
    file = tmp_path / "more-than-half.yaml"
    strict = rule(consecutive5xxErrors=1, maxEjectionPercent=60)

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(drawn=traffic(hosts=5, seconds=60))
    def no_more_than_half_are_out(drawn):
        with simulated({**drawn, "destination_rule": strict}, write_to=file) as simulation:
            assert most_ejected(simulation) <= 2

    with pytest.raises(AssertionError) as caught:
        no_more_than_half_are_out()
    assert f"replay: outlier simulate {file}" in caught.value.__notes__[0]

    found = yaml.safe_load(file.read_text())
    assert len(found["behaviours"]) == 3
    assert replay(file) == 0
    assert capsys.readouterr().out.count(" ejected ") >= 3


class Half(DetectorMachine):
    """Two of three may go, which is more than half."""

    destination_rule = rule(consecutive5xxErrors=3, maxEjectionPercent=67)
    host_count = 3

    @invariant()
    def at_most_half_are_out(self):
        assert len(self.ejected) * 2 <= len(self.monitors)


class Capped(Half):
    destination_rule = rule(consecutive5xxErrors=3, maxEjectionPercent=50)


class Proto(DetectorMachine):
    outlier_detection: ClassVar = {"consecutive_5xx": 2, "max_ejection_percent": 100}


@pytest.mark.slow
def test_a_machine_finds_the_shortest_history_and_its_scenario_replays(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Half, "scenario_file", tmp_path / "half.yaml")

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Half, settings=settings(max_examples=200, derandomize=True, database=None))
    steps = yaml.safe_load((tmp_path / "half.yaml").read_text())["steps"]

    assert len(steps) == 3
    assert steps[-1] == {"expect": {"ejected": steps[-1]["expect"]["ejected"]}}
    assert replay(tmp_path / "half.yaml", "--check") == 0
    assert capsys.readouterr().out.count(" ejected ") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Capped, Proto])
def test_a_machine_whose_invariants_hold_passes(machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=20, deadline=None, derandomize=True)
    )

    assert not list(Path().glob("*.yaml"))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_every_history_of_a_machine_replays_to_the_same_end(data):
    """What is written is what happened: the replay ends with the same hosts ejected."""
    machine = Proto()
    for _ in range(data.draw(st.integers(1, 12))):
        host = data.draw(st.sampled_from(machine.host_names))
        match data.draw(st.integers(0, 4)):
            case 0:
                machine.respond(host, data.draw(st.sampled_from([200, 500, 503])), data.draw(st.integers(1, 3)))
            case 1:
                machine.refuse(host, 1)
            case 2:
                machine.time_out(host, 1)
            case 3:
                machine.time_passes(data.draw(st.sampled_from([1, 10, 60])))
            case 4:
                if len(machine.monitors) > 1:
                    machine.remove_host(host)
                machine.add_host(f"n{len(machine.scenario()['steps'])}")
    with simulated(machine.scenario(), write_to="unused.yaml") as simulation:
        assert simulation.unmet == []
