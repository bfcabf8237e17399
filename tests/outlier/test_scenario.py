import pytest

from outlier import ConfigError, EnvoyRelease, Result, Scenario, ScenarioError
from outlier.scenario import Repeat, Report, SetTime, Tick


def steps(*actions):
    return Scenario.from_dict({"hosts": ["a"], "steps": list(actions)}).steps


def test_clock_is_set_before_a_step_does_anything_else():
    (step,) = steps({"tick": True, "at_ms": 5})

    assert step.actions == (SetTime(5), Tick())


def test_actions_keep_the_order_written():
    (step,) = steps({"report": {"host": "a", "code": 500}, "tick": True})

    assert step.actions == (Report(("a",), None, 500, 1), Tick())


@pytest.mark.parametrize(
    ("host", "hosts"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), ([], ()), ("*", None)],
    ids=["one", "two", "none", "all"],
)
def test_report_names_its_hosts(host, hosts):
    (step,) = steps({"report": {"host": host, "result": "LOCAL_ORIGIN_TIMEOUT", "code": 204, "count": 3}})

    assert step.actions == (Report(hosts, Result.LOCAL_ORIGIN_TIMEOUT, 204, 3),)


def test_steps_nest_and_know_their_place():
    (step,) = steps({"repeat": {"times": 2, "steps": [{"tick": True}, {"tick": True}]}})

    assert isinstance(step.actions[0], Repeat)
    assert [inner.path for inner in step.actions[0].steps] == [
        "steps[0].repeat.steps[0]",
        "steps[0].repeat.steps[1]",
    ]


def test_form_with_steps_runs_under_the_eras_it_names():
    scenario = Scenario.from_dict({"hosts": [], "eras": ["legacy", "mid"], "steps": []})

    assert scenario.releases == (EnvoyRelease.V1_8, EnvoyRelease.V1_27)


def test_form_for_people_runs_under_the_releases_it_names():
    scenario = Scenario.from_dict({"hosts": ["a"], "duration": "1s", "releases": ["1.8", "1.40"]})

    assert scenario.releases == (EnvoyRelease.V1_8, EnvoyRelease.V1_40)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"steps": [{"jump": 1}]}, "steps[0].jump"),
        ({"steps": [{"report": {"host": "a"}}]}, "steps[0].report"),
        ({"steps": [{"report": {"code": 500}}]}, "steps[0].report"),
        ({"steps": [{"report": {"host": "a", "code": 500, "often": 2}}]}, "steps[0].report.often"),
        ({"steps": [{"report": {"host": "a", "result": "FINE"}}]}, "steps[0].report"),
        ({"steps": [{"at_ms": "soon"}]}, "steps[0].at_ms"),
        ({"steps": [{"runtime": {"interval": 1}}]}, "steps[0].runtime.interval"),
        ({"steps": [{"runtime": {"interval_ms": -1}}]}, "steps[0].runtime.interval_ms"),
        ({"steps": [{"runtime": {"interval_ms": "1"}}]}, "steps[0].runtime.interval_ms"),
        ({"steps": [{"active_health_check": {"host": "a", "result": "fine"}}]}, "steps[0].active_health_check.result"),
        ({"steps": [{"expect": ["a"]}]}, "steps[0].expect"),
        ({"steps": [], "eras": ["old"]}, "eras"),
        ({"steps": [], "host": ["a"]}, "host"),
        ({"steps": [], "hosts": "a"}, "hosts"),
        ({"steps": [], "runtime": []}, None),
        ({"steps": [], "config": [1]}, "config"),
        ({"duration": "1s", "speed": 1}, "speed"),
        ({"duration": "1s", "releases": ["1.9"]}, "releases"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(data, path):
    if path is None:  # an empty list is as good as none
        assert Scenario.from_dict(data).runtime == {}
        return
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(data)

    assert caught.value.path == path


def test_refused_setting_is_a_configuration_error():
    with pytest.raises(ConfigError, match="max_ejection_percent = 101"):
        Scenario.from_dict({"steps": [], "config": {"max_ejection_percent": 101}})
