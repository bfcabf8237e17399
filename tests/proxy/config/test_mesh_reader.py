"""The key `mesh` of the bootstrap file: what it may hold, and what is said of what it may not."""

import json

import pytest

from outlier import ConfigError
from proxy.cli import main
from proxy.config.bootstrap import Bootstrap
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.config.mesh_config import MeshConfig
from proxy.push.pipeline import ConfigPipeline
from proxy.server import Server

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop}
spec:
  hosts: [shop.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
"""
MESH = """\
mesh:
  connectTimeout: 3s
  localityLbSetting: {enabled: false}
  defaultTrafficPolicy:
    outlierDetection: {consecutive5xxErrors: 7}
"""
CLUSTER = "outbound|80||shop.default.svc.cluster.local"


@pytest.fixture
def boot(tmp_path):
    def write(text):
        path = tmp_path / "boot.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "service.yaml").write_text(SERVICE)
    return folder


def read(file):
    return load_bootstrap(file, {}, {}).mesh


def test_values_have_their_own_types(boot):
    mesh = read(boot(MESH))

    assert mesh.connect_timeout == 3_000_000_000
    assert mesh.locality_lb_setting.enabled is False
    assert mesh.default_traffic_policy.outlier_detection.consecutive_5xx_errors == 7


@pytest.mark.parametrize("text", ["namespace: a\n", "mesh:\n", "mesh: {}\n"], ids=["absent", "nothing", "empty"])
def test_nothing_said_is_istio_s_defaults(boot, text):
    assert read(boot(text)) == MeshConfig() == Bootstrap().mesh


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("3s", "mesh = 3s; must be a mapping"),
        ("[a]", "mesh = ['a']; must be a mapping"),
        (
            "{connectTimeout: 10}",
            "mesh.connectTimeout = 10; must be a duration with a unit, such as 10s, 1m30s or 100ms",
        ),
        ("{connectTimeout: 0s}", "mesh.connectTimeout = 0s; must be at least 1ms, in whole milliseconds"),
        ("{conectTimeout: 1s}", "mesh.conectTimeout = 1s; unknown field of MeshConfig; did you mean connectTimeout?"),
        ("{enableTracing: true}", "mesh.enableTracing = true; unknown field of MeshConfig"),
        (
            "{defaultTrafficPolicy: {outlierDetection: {maxEjectionPercent: 101}}}",
            "mesh.defaultTrafficPolicy.outlierDetection.maxEjectionPercent = 101; must be in 0..100",
        ),
        (
            "{defaultHttpRetryPolicy: {attempts: -1}}",
            "mesh.defaultHttpRetryPolicy.attempts = -1; must not be negative",
        ),
        (
            "{localityLbSetting: {failover: [{from: a, to: a}]}}",
            "mesh.localityLbSetting.failover[0] = a -> a; from and to must differ",
        ),
        (
            "{zoneAwareLbSetting: {failover: [{from: a, to: a}]}}",
            "mesh.zoneAwareLbSetting.failover[0] = a -> a; from and to must differ",
        ),
        ("{defaultServiceExportTo: [a_b]}", "mesh.defaultServiceExportTo = a_b; must be ., * or a namespace"),
        ("{tcpKeepalive: {time: 1us}}", "mesh.tcpKeepalive.time = 1us; must be at least 1ms, in whole milliseconds"),
        ("{h2UpgradePolicy: MAYBE}", "mesh.h2UpgradePolicy = MAYBE; must be one of DEFAULT, DO_NOT_UPGRADE, UPGRADE"),
        ("{connectTimeout: !!timestamp 2001-01-01}", "mesh = ...; cannot be read: could not determine a constructor"),
    ],
)
def test_a_refusal_names_file_field_value_and_rule(boot, mesh, message):
    file = boot(f"mesh: {mesh}\n")

    with pytest.raises(ConfigError) as error:
        read(file)

    assert str(error.value).startswith(f"{file}: {message}")


async def test_a_sidecar_runs_by_it(boot, rules):
    server = Server(
        load_bootstrap(boot(MESH + f"config: [{rules}]\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"), {}, {})
    )
    await server.start()
    try:
        cluster = server.snapshot.clusters[CLUSTER]
    finally:
        await server.close()

    assert (cluster.connect_timeout_ms, cluster.outlier_detection.consecutive_5xx) == (3_000, 7)


def test_a_pipeline_without_one_has_istio_s_defaults():
    assert ConfigPipeline(Bootstrap().node).builder.context.mesh == MeshConfig()


def test_commands_that_look_at_files_see_what_the_sidecar_does(boot, rules, capsys):
    options = [str(rules), "--bootstrap", str(boot(MESH))]

    assert main(["explain", *options, "--format", "json"]) == 0
    settings = json.loads(capsys.readouterr().out)[0]["settings"]
    assert main(["envoy", *options]) == 0
    (cluster,) = json.loads(capsys.readouterr().out)["static_resources"]["clusters"]

    assert settings["connect_timeout"] | {"inert": False} == {
        "value": "3s",
        "origin": "mesh",
        "because": "connectTimeout",
        "resource": "",
        "field": "",
        "file": "",
        "line": None,
        "inert": False,
        "applied": True,
    }
    assert cluster["connect_timeout"] == "3s"
    assert cluster["outlier_detection"] == {"consecutive_5xx": 7, "enforcing_success_rate": 0}


def test_check_sees_rules_as_far_as_the_mesh_exports_them(boot, rules, capsys):
    (rules / "rule.yaml").write_text("""\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop, namespace: other}
spec: {host: shop.default.svc.cluster.local, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
""")

    main(["check", str(rules), "--bootstrap", str(boot("mesh: {defaultDestinationRuleExportTo: [.]}\n"))])

    assert "the rule is not visible to a sidecar of namespace default" in capsys.readouterr().out


def test_a_simulation_takes_what_its_rule_leaves_out_from_it(boot, tmp_path, capsys):
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("""
duration: 10s
rate: 10
hosts: [a, b]
behaviours: [b fails with 503]
destination_rule: {host: reviews, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
""")
    policy = "{outlierDetection: {consecutive5xxErrors: 3, maxEjectionPercent: 50}}"

    code = main(["simulate", str(scenario), "--bootstrap", str(boot(f"mesh: {{defaultTrafficPolicy: {policy}}}\n"))])

    assert code == 0
    assert "CONSECUTIVE_5XX (3 in a row, threshold 3)" in capsys.readouterr().out


def test_commands_find_the_file_in_the_environment(boot, rules, capsys, monkeypatch):
    monkeypatch.setenv("OUTLIER_BOOTSTRAP", str(boot(MESH)))

    assert main(["explain", str(rules)]) == 0
    assert "connect_timeout" in (out := capsys.readouterr().out)
    assert " 3s " in out
