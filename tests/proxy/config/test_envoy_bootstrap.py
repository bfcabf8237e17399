"""What `outlier envoy` prints, also in the eyes of a real Envoy."""

import json
import subprocess

import pytest

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, ServiceListener
from proxy.config.cluster_config import Locality
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.envoy_cluster import envoy_address, envoy_duration
from proxy.config.node import NodeConfig
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from tests.proxy.config.resources import routes, rule, service


def bootstrap(*resources, node=None, **options):
    builder = SnapshotBuilder(ConversionContext(node=node or NodeConfig()))
    builder.update([(None, resource) for resource in resources])
    return envoy_bootstrap(builder.snapshot, Bootstrap(**options))


def clusters(message):
    return {cluster["name"]: cluster for cluster in message["static_resources"]["clusters"]}


def virtual_hosts(message, listener=0):
    filters = message["static_resources"]["listeners"][listener]["filter_chains"][0]["filters"]
    return filters[0]["typed_config"]["route_config"]["virtual_hosts"]


def validate(envoy, message, folder):
    path = folder / "envoy.json"
    path.write_text(json.dumps(message))
    result = subprocess.run([envoy, "--mode", "validate", "-c", str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.parametrize(("ms", "text"), [(0, "0s"), (1, "0.001s"), (1500, "1.5s"), (60_000, "60s")])
def test_durations(ms, text):
    assert envoy_duration(ms) == text


def test_addresses():
    assert envoy_address("[::1]:80") == {"socket_address": {"address": "::1", "port_value": 80}}
    assert envoy_address("unix:///run/a") == {"pipe": {"path": "/run/a"}}


def test_an_empty_block_is_a_detector_with_what_istio_sends():
    message = bootstrap(service("a", "10.0.0.1"), rule("a", "{host: a, trafficPolicy: {outlierDetection: {}}}"))

    cluster = clusters(message)["outbound|80||a.default.svc.cluster.local"]

    assert cluster["outlier_detection"] == {"enforcing_success_rate": 0}
    assert cluster["common_lb_config"] == {"update_merge_window": "0s", "healthy_panic_threshold": {"value": 0.0}}


def test_a_domain_claimed_twice_goes_to_the_first():
    message = bootstrap(
        service("a", "10.0.0.1", created_ms=1),
        routes("b", "{hosts: [a.default.svc], http: [{route: [{destination: {host: a}}]}]}", created_ms=2),
    )

    names = [domain for host in virtual_hosts(message) for domain in host["domains"]]

    assert len(names) == len(set(names))


def test_priorities_and_localities_are_groups():
    endpoints = [{"address": "10.0.0.1", "locality": "w/b"}, {"address": "10.0.0.2", "locality": "w/a", "weight": 3}]
    message = bootstrap(
        service("a", endpoints=endpoints),
        rule("a", "{host: a, trafficPolicy: {outlierDetection: {}}}"),
        node=NodeConfig(locality=Locality("w", "a")),
    )

    groups = clusters(message)["outbound|80||a.default.svc.cluster.local"]["load_assignment"]["endpoints"]

    assert [(group.get("priority", 0), group["locality"]["zone"]) for group in groups] == [(0, "a"), (1, "b")]
    assert groups[0]["lb_endpoints"][0]["load_balancing_weight"] == 3


def test_a_listener_for_one_service_takes_any_authority():
    listener = ServiceListener("a", 80, Address("127.0.0.1", 9080))
    message = bootstrap(service("a", "10.0.0.1"), services=(listener,))

    assert [host["domains"] for host in virtual_hosts(message, 1)] == [["*"]]


def test_every_listener_lets_websockets_through(envoy, tmp_path):
    listener = ServiceListener("a", 80, Address("127.0.0.1", 9080))
    message = bootstrap(service("a", "10.0.0.1"), services=(listener,))

    for configured in message["static_resources"]["listeners"]:
        (manager,) = configured["filter_chains"][0]["filters"]
        assert manager["typed_config"]["upgrade_configs"] == [{"upgrade_type": "websocket"}]
    validate(envoy, message, tmp_path)


ROUTES = """\
hosts: [a]
http:
- name: everything
  match:
  - uri: {prefix: /api}
    ignoreUriCase: true
    headers: {x-user: {exact: jo}, x-any: {}, x-re: {regex: 'a.*'}}
    withoutHeaders: {x-not: {prefix: b}}
    queryParams: {q: {exact: '1'}, p: {}}
    method: {exact: GET}
  route:
  - destination: {host: a, subset: v1}
    weight: 30
    headers: {request: {add: {x-a: '1'}, remove: [x-b]}}
  - destination: {host: b}
    weight: 70
  timeout: 1500ms
  retries: {attempts: 3, perTryTimeout: 1s, retryOn: '5xx,429', backoff: 50ms, retryRemoteLocalities: true}
  fault: {delay: {fixedDelay: 1s, percentage: {value: 0.1}}, abort: {grpcStatus: UNAVAILABLE, percentage: {value: 1}}}
  mirrors: [{destination: {host: b}, percentage: {value: 5}}]
  corsPolicy: {allowOrigins: [{exact: 'http://x'}], allowMethods: [GET], maxAge: 24h, allowCredentials: true}
  headers: {request: {set: {x-c: '2', host: other}}, response: {remove: [server]}}
  rewrite: {uri: /v2}
- match: [{uri: {exact: /old}}]
  redirect: {uri: /new, authority: x.example, redirectCode: 308}
- match: [{uri: {regex: '/r/[0-9]+'}}]
  directResponse: {status: 418, body: {string: short}}
- match: [{uri: {prefix: /re}}]
  rewrite: {uriRegexRewrite: {match: '^/re/(.*)$', rewrite: '/\\1'}}
  route: [{destination: {host: b}}]
- route: [{destination: {host: nobody}}]
"""


@pytest.mark.oracle
@pytest.mark.slow
def test_envoy_accepts_every_kind_of_route(envoy, tmp_path):
    hashed = "{host: b, trafficPolicy: {loadBalancer: {consistentHash: {httpCookie: {name: c, ttl: 1h}, maglev: {}}}}}"
    message = bootstrap(service("a", "10.0.0.1"), service("b", "unix:///run/b"), rule("b", hashed), routes("a", ROUTES))

    validate(envoy, message, tmp_path)
