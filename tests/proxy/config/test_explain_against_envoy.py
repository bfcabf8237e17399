"""What `outlier explain` claims, a running Envoy with the bootstrap that `outlier envoy` prints confirms."""

import contextlib
import json
import random
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from proxy.cli import main
from proxy.testing.strategies import destination_rules
from tests.oracle.envoy import START_DEADLINE_S
from tests.proxy.certificates import write_ca, write_crl, write_pair
from tests.proxy.config.envoy_claims import NOT_IN_ENVOY, SETTINGS, differences

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(300)]

_EXAMPLES = Path(__file__).parents[3] / "examples"
_EVERY_SETTING = Path(__file__).parent / "every_setting.yaml"
_LOCALITIES = ("eu/eu-1/a", "eu/eu-1/b", "eu/eu-2/a", "us/us-1/a", "")


@contextlib.contextmanager
def running(envoy, bootstrap, folder):
    """Validate a bootstrap, start an Envoy with it and yield the base URL of its admin interface."""
    config, address, log = folder / "envoy.json", folder / "admin", folder / "envoy.log"
    config.write_text(bootstrap)
    checked = subprocess.run(
        [envoy, "--mode", "validate", "-c", str(config), "-l", "error"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr[-2000:]
    arguments = ("--concurrency", "1", "--use-dynamic-base-id", "--admin-address-path", str(address), "-l", "error")
    with log.open("wb") as log_file:
        process = subprocess.Popen([envoy, "-c", str(config), *arguments], stdout=log_file, stderr=log_file)
    try:
        deadline = time.monotonic() + START_DEADLINE_S
        while not (address.exists() and address.read_text()):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, "envoy did not start"
            time.sleep(0.02)
        yield f"http://{address.read_text()}"
    finally:
        process.terminate()
        process.wait()


def get(url):
    with urllib.request.urlopen(url, timeout=START_DEADLINE_S) as response:
        return json.load(response)


def compare(envoy, folder, capsys, tmp_path, *options):
    """Return explain's clusters, and what differs between them and a running Envoy's."""
    code = main(["envoy", str(folder), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options])
    bootstrap, errors = capsys.readouterr()
    assert code == 0, errors
    main(["explain", str(folder), "--format", "json", *options])
    explained = json.loads(capsys.readouterr().out)
    with running(envoy, bootstrap, tmp_path) as admin:
        configs = get(f"{admin}/config_dump")["configs"]
        statuses = get(f"{admin}/clusters?format=json").get("cluster_statuses", ())
    messages = [entry["cluster"] for dump in configs for entry in dump.get("static_clusters", ())]
    by_name = {message["name"]: message for message in messages}
    status_by_name = {status["name"]: status for status in statuses}
    assert by_name.keys() == status_by_name.keys() == {cluster["cluster"] for cluster in explained}
    found = [
        difference
        for cluster in explained
        for difference in differences(cluster, by_name[cluster["cluster"]], status_by_name[cluster["cluster"]])
    ]
    return explained, found


@pytest.mark.parametrize("example", sorted(path.name for path in _EXAMPLES.iterdir() if path.is_dir()))
def test_every_example(envoy, capsys, tmp_path, example):
    explained, found = compare(envoy, _EXAMPLES / example, capsys, tmp_path)

    assert found == []
    assert explained or not list((_EXAMPLES / example).glob("*rule*"))


def test_every_setting(envoy, capsys, tmp_path):
    """Some rules are there for one setting each, so that no row of the tables is for nothing."""
    rules, pair = tmp_path / "rules", write_pair(tmp_path, "client.test")
    rules.mkdir()
    files = {"CA": write_ca(tmp_path), "CRL": write_crl(tmp_path), "CERTIFICATE": pair.certificate, "KEY": pair.key}
    text = _EVERY_SETTING.read_text()
    for name, path in files.items():
        text = text.replace(f"${name}", str(path))
    (rules / "rules.yaml").write_text(text)

    explained, found = compare(envoy, rules, capsys, tmp_path, "--locality", "eu/eu-1/a")

    assert found == []
    assert {name for cluster in explained for name in cluster["settings"]} == SETTINGS.keys() | NOT_IN_ENVOY.keys()


def test_two_hundred_random_rules(envoy, capsys, tmp_path):
    """Each rule has a service of its own, with endpoints here and there, in one Envoy."""
    drawn = []

    @settings(
        max_examples=200,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(destination_rules(ports=(80, 81)))
    def draw(spec):
        drawn.append(spec)

    draw()
    assert len(drawn) == 200
    chance = random.Random("endpoints")
    rules = tmp_path / "rules"
    rules.mkdir()
    for number, spec in enumerate(drawn):
        documents = [_service(f"s{number}", chance), _document("DestinationRule", spec | {"host": f"s{number}"})]
        for document in documents:
            document["metadata"] = {"name": f"s{number}"}
        (rules / f"{number}.json").write_text("\n".join(json.dumps(document) for document in documents))

    explained, found = compare(envoy, rules, capsys, tmp_path, "--locality", _LOCALITIES[0])

    assert found == []
    assert len(explained) > 2 * len(drawn)


def _service(name, chance):
    endpoints = [
        {
            "address": f"10.0.0.{number}",
            "labels": {"version": f"v{chance.randint(1, 3)}"},
            "weight": chance.randint(0, 3),
            "locality": chance.choice(_LOCALITIES),
        }
        for number in range(1, chance.randint(2, 6))
    ]
    ports = [{"name": "http", "number": 80, "protocol": "HTTP"}, {"name": "web", "number": 81, "protocol": "HTTP"}]
    hosts = [f"{name}.default.svc.cluster.local"]
    return _document("ServiceEntry", {"hosts": hosts, "resolution": "STATIC", "ports": ports, "endpoints": endpoints})


def _document(kind, spec):
    return {"apiVersion": "networking.istio.io/v1", "kind": kind, "spec": spec}


def test_what_differs_is_found():
    """The comparison itself: it must not pass what it does not know."""
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests", "max_retries"), 9)
    claims = {f"circuit_breakers.{name}": limit for name, limit in limits.items()} | {"lb_policy": "RANDOM", "new": 1}
    explained = {
        "cluster": "c",
        "endpoints": [],
        "locality_weights": [],
        "settings": {name: {"value": value, "applied": True} for name, value in claims.items()},
        "fresh": 1,
    }
    message = {"name": "c", "circuit_breakers": {"thresholds": [limits]}, "eds_cluster_config": {"x": 1}}
    status = {"circuit_breakers": {"thresholds": [limits | {"max_retries": 3}]}}

    assert sorted(differences(explained, message, status)) == [
        "c: Envoy has eds_cluster_config/x, of which explain says nothing",
        "c: circuit_breakers.max_retries = 9; Envoy goes by 3",
        "c: lb_policy = RANDOM; Envoy has ROUND_ROBIN at lb_policy",
        "c: nobody knows where Envoy shows fresh",
        "c: nobody knows where Envoy shows new",
    ]
