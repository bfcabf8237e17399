"""The files of examples/deploy name options, endpoints and ports that exist."""

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml

from proxy.admin.application import ENDPOINTS
from proxy.cli import make_parser
from proxy.config.bootstrap import Bootstrap
from proxy.run_options import bootstrap_from_args
from tests.docs.session import ROOT

DEPLOY = ROOT / "examples" / "deploy"


@pytest.fixture
def sidecar():
    """The sidecar's container of the Kubernetes manifest."""
    manifest = yaml.safe_load((DEPLOY / "sidecar.yaml").read_text(encoding="utf-8"))
    (container,) = manifest["spec"]["template"]["spec"]["initContainers"]
    return container


def options(argv):
    return bootstrap_from_args(make_parser().parse_args(argv))


def test_container_has_options_of_outlier_run(sidecar):
    given = options([argument.replace("$(", "").replace(")", "") for argument in sidecar["args"]])

    mounted = {mount["mountPath"] for mount in sidecar["volumeMounts"]}
    assert {str(path) for path in given.config_paths} <= mounted
    assert str(given.access_log) == "-"


def test_probe_asks_the_admin_interface(sidecar):
    program = sidecar["readinessProbe"]["exec"]["command"][-1]
    address, path = re.search(r"http://([^/]+)(/\w+)", program).groups()

    assert address == str(Bootstrap().admin)
    assert path in {endpoint.path for endpoint in ENDPOINTS}
    compile(program, "probe", "exec")


def test_unit_starts_outlier_run():
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    unit.read(DEPLOY / "outlier.service", encoding="utf-8")
    service = unit["Service"]

    program, *argv = shlex.split(service["ExecStart"])
    given = options(argv)
    assert program.endswith("/bin/outlier")
    assert {given.event_log.parent, given.access_log.parent} == {Path("/var/log") / service["LogsDirectory"]}
    assert float(service["TimeoutStopSec"]) * 1000 > given.drain_time_ms
    assert service["ExecReload"].endswith("-HUP $MAINPID")
