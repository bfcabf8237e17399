"""What `outlier envoy` prints of TLS and of the listeners' limits, also in the eyes of a real Envoy."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from outlier import ConfigError
from proxy.config.bootstrap import Bootstrap
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.config.cluster_config import ClusterConfig, TlsMode, UpstreamTls
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.envoy_cluster import envoy_cluster
from proxy.config.envoy_tls import SYSTEM_AUTHORITIES, envoy_listener_socket
from proxy.config.route_config import RouteConfiguration
from proxy.config.snapshot import ConfigSnapshot
from proxy.http.protocol_choice import ALPN_PROTOCOLS
from tests.proxy.certificates import write_ca, write_pair


def cluster(tls: UpstreamTls) -> ClusterConfig:
    return ClusterConfig(name="c", service_host="c", port=443, tls=tls)


def context(tls: UpstreamTls) -> dict[str, Any]:
    return envoy_cluster(cluster(tls))["transport_socket"]["typed_config"]


def validation(**fields: Any) -> dict[str, Any]:
    return context(UpstreamTls(mode=TlsMode.SIMPLE, **fields))["common_tls_context"]["validation_context"]


def auto(**fields: Any) -> dict[str, Any] | None:
    message = envoy_cluster(cluster(UpstreamTls(mode=TlsMode.SIMPLE, **fields)))
    (options,) = message["typed_extension_protocol_options"].values()
    return options.get("upstream_http_protocol_options")


def test_sni_names_and_authority_are_sent():
    tls = {"sni": "s.test", "ca_certificates": "/ca.pem", "ca_crl": "/crl.pem", "subject_alt_names": ("a", "b")}

    assert context(UpstreamTls(mode=TlsMode.SIMPLE, **tls))["sni"] == "s.test"
    assert validation(**tls) == {
        "trusted_ca": {"filename": "/ca.pem"},
        "crl": {"filename": "/crl.pem"},
        "match_subject_alt_names": [{"exact": "a"}, {"exact": "b"}],
    }
    assert auto(**tls) is None


def test_system_s_authorities_are_named():
    assert validation() == {"trusted_ca": {"filename": SYSTEM_AUTHORITIES}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"auto_sni": True, "auto_san_validation": True}),
        ({"subject_alt_names": ("a",)}, {"auto_sni": True}),
        ({"verify": False}, {"auto_sni": True}),
    ],
    ids=["host", "names", "unverified"],
)
def test_without_sni_the_host_is_asked_for(fields, expected):
    assert auto(**fields) == expected


def test_without_verification_there_is_nothing_to_verify_with():
    assert "validation_context" not in context(UpstreamTls(mode=TlsMode.SIMPLE, verify=False))["common_tls_context"]


@pytest.mark.parametrize(
    "tls",
    [UpstreamTls(mode=TlsMode.ISTIO_MUTUAL), UpstreamTls(mode=TlsMode.SIMPLE, credential_name="c")],
    ids=["mesh", "credential"],
)
def test_certificates_of_a_mesh_are_left_out(tls):
    assert "transport_socket" not in envoy_cluster(cluster(tls))


def test_envoy_accepts_all_of_it(envoy, tmp_path):
    pair, ca = write_pair(tmp_path, "a.test"), str(write_ca(tmp_path, "ours"))
    files = {"client_certificate": str(pair.certificate), "private_key": str(pair.key), "ca_certificates": ca}
    clusters = [
        UpstreamTls(mode=TlsMode.SIMPLE, ca_certificates=ca),
        UpstreamTls(mode=TlsMode.SIMPLE, verify=False, sni="a.test"),
        UpstreamTls(mode=TlsMode.MUTUAL, subject_alt_names=("a.test", "spiffe://a"), **files),
    ]
    configs = {
        str(number): ClusterConfig(name=str(number), service_host="c", port=443, tls=tls)
        for number, tls in enumerate(clusters)
    }
    options = Bootstrap(
        tls_certificate=pair.certificate,
        tls_key=pair.key,
        tls_client_ca=Path(ca),
        idle_timeout_ms=0,
        stream_idle_timeout_ms=0,
        max_connection_duration_ms=1_500,
        max_requests_per_connection=7,
        max_connections=9,
    )
    snapshot = ConfigSnapshot(version="1", clusters=configs, routes=RouteConfiguration())
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(envoy_bootstrap(snapshot, options)))

    result = subprocess.run([envoy, "--mode", "validate", "-c", path], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr[-2000:]


def test_listener_offers_what_the_sidecar_offers():
    options = Bootstrap(tls_certificate=Path("c"), tls_key=Path("k"))
    socket = envoy_listener_socket(options)

    assert socket is not None
    assert socket["typed_config"]["common_tls_context"]["alpn_protocols"] == ALPN_PROTOCOLS


def test_limits_at_their_defaults_are_left_out():
    snapshot = ConfigSnapshot(version="1", clusters={}, routes=RouteConfiguration())
    message = envoy_bootstrap(snapshot, Bootstrap())
    (chain,) = message["static_resources"]["listeners"][0]["filter_chains"]
    manager = chain["filters"][0]["typed_config"]

    assert "transport_socket" not in chain
    assert not {"common_http_protocol_options", "stream_idle_timeout"} & manager.keys()
    assert "layered_runtime" not in message


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tls_certificate": "c"}, "tls_certificate"),
        ({"tls_key": "k"}, "tls_key"),
        ({"tls_client_ca": "a"}, "tls_client_ca"),
    ],
)
def test_tls_options_that_miss_another_are_refused(options, name):
    with pytest.raises(ConfigError) as caught:
        load_bootstrap(None, {}, options)

    assert caught.value.path == name
