"""`outlier check`, `explain` and `envoy` as a person runs them."""

import json

import pytest
import yaml

from proxy.cli import main

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop}
spec:
  hosts: [shop.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: http-web, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2}]
"""
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop}
spec: {host: shop, trafficPolicy: {outlierDetection: {interval: %s, maxEjectionPercent: %d}}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "service.yaml").write_text(SERVICE)
    (tmp_path / "rule.yaml").write_text(RULE % ("1s", 50))
    return tmp_path


def run(capsys, *arguments):
    """Return exit code, stdout and stderr."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_check_of_a_good_folder(capsys, folder):
    assert run(capsys, "check", folder) == (0, "2 resources, 0 errors, 0 warnings\n", "")


def test_check_prints_errors_on_stderr_and_warnings_on_stdout(capsys, folder):
    (folder / "rule.yaml").write_text(RULE % ("10", 50))
    (folder / "other.yaml").write_text((RULE % ("1s", 40)).replace("name: shop", "name: other"))

    code, out, err = run(capsys, "check", folder)

    rule = "must be a duration with a unit, such as 10s, 1m30s or 100ms"
    assert code == 1
    assert err == (
        f"{folder}/rule.yaml: spec.trafficPolicy.outlierDetection.interval = 10; {rule}"
        " (DestinationRule default/shop, line 4)\n"
    )
    assert out.splitlines()[-1] == "2 resources, 1 errors, 1 warnings"
    assert out.startswith(
        f"warning: {folder}/other.yaml: spec.trafficPolicy.outlierDetection.maxEjectionPercent = 40; "
    )


def test_check_as_json(capsys, folder):
    (folder / "rule.yaml").write_text(RULE % ("0s", 50))

    code, out, err = run(capsys, "check", folder, "--format", "json")

    report = json.loads(out)
    assert (code, err, report["warnings"], report["resources"]) == (1, "", [], 1)
    assert report["errors"] == [
        {
            "file": f"{folder}/rule.yaml",
            "line": 4,
            "resource": "DestinationRule default/shop",
            "field": "spec.trafficPolicy.outlierDetection.interval",
            "value": "0s",
            "rule": "must be at least 1ms, in whole milliseconds",
            "origin": "istio",
        }
    ]


def test_check_of_a_folder_without_resources_is_a_finding(capsys, tmp_path):
    code, _, err = run(capsys, "check", tmp_path)

    assert (code, err) == (1, f"{tmp_path}: no resource in YAML or JSON files here\n")


@pytest.mark.parametrize("command", ["check", "explain", "envoy"])
def test_a_missing_path_is_bad_usage(capsys, tmp_path, command):
    code, out, err = run(capsys, command, tmp_path / "nothing")

    assert (code, out, err) == (2, "", f"{tmp_path}/nothing: No such file or directory\n")


@pytest.mark.parametrize("command", ["check", "explain", "envoy"])
def test_a_file_that_is_no_text_is_bad_usage(capsys, tmp_path, command):
    (tmp_path / "a.yaml").write_bytes(b"\xff")

    code, _, err = run(capsys, command, tmp_path)

    assert (code, err) == (2, f"{tmp_path}/a.yaml: is not UTF-8: invalid start byte at byte 0\n")


def test_check_sees_rules_as_the_sidecar_of_a_namespace(capsys, folder):
    (folder / "rule.yaml").write_text((RULE % ("1s", 50)).replace("spec: {host", "spec: {exportTo: ['.'], host"))

    _, out, _ = run(capsys, "check", folder, "--namespace", "other")

    assert "the rule is not visible to a sidecar of namespace other" in out


def test_explain_names_values_and_places(capsys, folder):
    code, out, _ = run(capsys, "explain", folder, "--port", "80")

    assert code == 0
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    assert ["outbound|80||shop.default.svc.cluster.local"] in lines
    place = f"trafficPolicy.outlierDetection.interval ({folder}/rule.yaml:4)"
    assert ["outlier_detection.interval", "1s", place] in lines


@pytest.mark.parametrize(
    ("arguments", "ports"),
    [
        ((), [80, 81]),
        (("--host", "shop"), [80, 81]),
        (("--host", "shop.default"), [80, 81]),
        (("--host", "shop.default.svc.cluster.local", "--port", "81"), [81]),
        (("--subset", ""), [80, 81]),
    ],
)
def test_explain_selects(capsys, folder, arguments, ports):
    code, out, _ = run(capsys, "explain", folder, "--format", "json", *arguments)

    assert (code, [cluster["port"] for cluster in json.loads(out)]) == (0, ports)


@pytest.mark.parametrize("arguments", [("--host", "nobody"), ("--port", "82"), ("--subset", "v1")])
def test_explain_of_nothing_is_a_finding(capsys, folder, arguments):
    code, out, err = run(capsys, "explain", folder, *arguments)

    assert (code, out) == (1, "")
    assert err == "no cluster: no service in these files has that host, port and subset\n"


def test_explain_as_json_tells_who_decided(capsys, folder):
    _, out, _ = run(capsys, "explain", folder, "--port", "80", "--format", "json")

    settings = json.loads(out)[0]["settings"]
    assert settings["outlier_detection.max_ejection_percent"] | {"file": ""} == {
        "value": 50,
        "origin": "rule",
        "because": "trafficPolicy.outlierDetection.maxEjectionPercent",
        "resource": "DestinationRule default/shop",
        "field": "trafficPolicy.outlierDetection.maxEjectionPercent",
        "file": "",
        "line": 4,
        "inert": False,
        "applied": True,
    }


@pytest.mark.parametrize(("name", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_envoy_prints_a_bootstrap(capsys, folder, name, read):
    code, out, _ = run(capsys, "envoy", folder, "--format", name, "--listen", "127.0.0.1:0", "--event-log", "/tmp/e")

    bootstrap = read(out)
    assert code == 0
    assert [listener["name"] for listener in bootstrap["static_resources"]["listeners"]] == ["outbound"]
    assert bootstrap["cluster_manager"]["outlier_detection"]["event_log_path"] == "/tmp/e"


def test_envoy_refuses_a_broken_configuration(capsys, folder):
    (folder / "rule.yaml").write_text(RULE % ("10", 50))

    code, out, err = run(capsys, "envoy", "--config", folder)

    assert (code, out) == (1, "")
    assert "interval = 10" in err
