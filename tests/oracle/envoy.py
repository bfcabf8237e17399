"""The real Envoy, configured as Istio would configure it for a DestinationRule.

The conversion is written out here once more, on purpose: sharing the sidecar's would hide its mistakes.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.service import AIM_HEADER, Service
from tests.oracle.subject import Subject

ENVOY_RELEASE = "1.40."
START_DEADLINE_S = 120.0
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
# The fields of the sidecar's own access log.
_ACCESS_LOG_FIELDS = {
    "start_time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(:PATH)%",
    "authority": "%REQ(:AUTHORITY)%",
    "protocol": "%PROTOCOL%",
    "response_code": "%RESPONSE_CODE%",
    "response_flags": "%RESPONSE_FLAGS%",
    "response_code_details": "%RESPONSE_CODE_DETAILS%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "duration_ms": "%DURATION%",
    "upstream_cluster": "%UPSTREAM_CLUSTER%",
    "upstream_host": "%UPSTREAM_HOST%",
    "attempt": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
}


def find_envoy() -> str | None:
    """Return the path of this environment's `envoy` command, or of PATH's; None when there is none of release 1.40."""
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    command = shutil.which("envoy", path=search)
    if command is None:
        return None
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    return command if f"/{ENVOY_RELEASE}" in version else None


class Envoy(Subject):
    """Envoy with one worker, so that one counter picks hosts, and without its delay between ejection and balancing."""

    def __init__(self, services: Sequence[Service], *, access_log: bool = False) -> None:
        super().__init__()
        self._services = services
        self._access_log = access_log

    def bootstrap(self) -> dict[str, Any]:
        """Return the message that Envoy is started with."""
        return bootstrap(self._services, str(self.event_log))

    async def start(self) -> None:
        command = find_envoy()
        assert command is not None, "no envoy command"
        config = self.directory / "envoy.json"
        message = self.bootstrap()
        if self._access_log:
            log_requests(message, str(self.directory / "access.jsonl"))
        config.write_text(json.dumps(message))
        admin_path = self.directory / "admin"
        log = self.directory / "envoy.log"
        with log.open("wb") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                command,
                *("-c", str(config), "--concurrency", "1", "--use-dynamic-base-id"),
                *("--admin-address-path", str(admin_path), "--log-level", "error"),
                # The event log is read while Envoy runs; an access log is written as Envoy likes best.
                *(() if self._access_log else ("--file-flush-interval-msec", "5")),
                stdout=log_file,
                stderr=log_file,
            )
        async with asyncio.timeout(START_DEADLINE_S):
            while not (admin_path.exists() and admin_path.read_text()):
                if self._process.returncode is not None:
                    raise RuntimeError(f"envoy did not start: {log.read_text()[-2000:]}")
                await asyncio.sleep(0.02)
            self.admin = admin_path.read_text()
            listeners: dict[str, Any] = {}
            while not listeners or '"state": "LIVE"' not in await self.get("/server_info"):
                await asyncio.sleep(0.02)
                listeners = json.loads(await self.get("/listeners?format=json"))
        address = listeners["listener_statuses"][0]["local_address"]["socket_address"]
        self.listen = (address["address"], address["port_value"])


def bootstrap(services: Sequence[Service], event_log: str) -> dict[str, Any]:
    """Return a static bootstrap: one listener, one cluster and one virtual host for each service."""
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "oracle",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": {"virtual_hosts": [_virtual_host(service) for service in services]},
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router"},
            }
        ],
    }
    listener = {
        "name": "oracle",
        "address": _address("127.0.0.1:0"),
        "filter_chains": [{"filters": [{"name": "http_connection_manager", "typed_config": manager}]}],
    }
    return {
        "admin": {"address": _address("127.0.0.1:0")},
        "cluster_manager": {"outlier_detection": {"event_log_path": event_log}},
        "static_resources": {"listeners": [listener], "clusters": [_cluster(service) for service in services]},
    }


def log_requests(message: dict[str, Any], path: str) -> None:
    """Add an access log to the listener of a bootstrap."""
    manager = message["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    file_log = {
        "@type": f"{_EXTENSIONS}.access_loggers.file.v3.FileAccessLog",
        "path": path,
        "log_format": {"json_format": _ACCESS_LOG_FIELDS},
    }
    manager["access_log"] = [{"name": "file", "typed_config": file_log}]


def outlier_detection(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Envoy message that Istio sends for a DestinationRule's `outlierDetection` block."""
    converted: dict[str, Any] = {"enforcing_success_rate": 0}
    for field, threshold, enforcing in (
        ("consecutive5xxErrors", "consecutive_5xx", "enforcing_consecutive_5xx"),
        ("consecutiveGatewayErrors", "consecutive_gateway_failure", "enforcing_consecutive_gateway_failure"),
    ):
        if field in rule:
            converted |= {threshold: rule[field], enforcing: 100 if rule[field] > 0 else 0}
    for field, name in (("interval", "interval"), ("baseEjectionTime", "base_ejection_time")):
        if field in rule:
            converted[name] = _duration(rule[field])
    if rule.get("maxEjectionPercent", 0) > 0:
        converted["max_ejection_percent"] = rule["maxEjectionPercent"]
    if rule.get("splitExternalLocalOriginErrors"):
        converted |= {"split_external_local_origin_errors": True, "enforcing_local_origin_success_rate": 0}
        failures = rule.get("consecutiveLocalOriginFailures", 0)
        if failures > 0:
            converted |= {
                "consecutive_local_origin_failure": failures,
                "enforcing_consecutive_local_origin_failure": 100,
            }
    return converted


def _cluster(service: Service) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(address)}} for address in service.addresses]
    cluster: dict[str, Any] = {
        "name": service.cluster_name,
        "connect_timeout": _milliseconds(service.connect_timeout_ms),
        "lb_policy": service.balancer,
        "load_assignment": {"cluster_name": service.cluster_name, "endpoints": [{"lb_endpoints": endpoints}]},
        "common_lb_config": {"update_merge_window": "0s"},
        "circuit_breakers": {"thresholds": [_limits(service)]},
    }
    rule = service.outlier_detection or {}
    if service.outlier_detection is not None:
        cluster["outlier_detection"] = outlier_detection(rule) | dict(service.overrides)
        cluster["common_lb_config"]["healthy_panic_threshold"] = {"value": rule.get("minHealthPercent", 0)}
    if service.http2 or rule.get("outlierDetectionHttpErrorCodes"):
        http = service.connection_pool.get("http", {})
        options: dict[str, Any] = {
            "@type": f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": (
                {"http2_protocol_options": _http2_options(http)} if service.http2 else {"http_protocol_options": {}}
            ),
        }
        if "maxRequestsPerConnection" in http:
            options["common_http_protocol_options"] = {"max_requests_per_connection": http["maxRequestsPerConnection"]}
        if rule.get("outlierDetectionHttpErrorCodes"):
            options["outlier_detection"] = {"error_matcher": _error_matcher(rule["outlierDetectionHttpErrorCodes"])}
        name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        cluster["typed_extension_protocol_options"] = {name: options}
    return cluster


def _limits(service: Service) -> dict[str, int]:
    """Istio has no limits but those that a rule sets."""
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), 4_294_967_295)
    for section, field, name in (
        ("tcp", "maxConnections", "max_connections"),
        ("http", "http1MaxPendingRequests", "max_pending_requests"),
        ("http", "http2MaxRequests", "max_requests"),
    ):
        limits[name] = service.connection_pool.get(section, {}).get(field, limits[name])
    return limits


def _http2_options(http: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "maxConcurrentStreams" in http:
        options["max_concurrent_streams"] = http["maxConcurrentStreams"]
    if "http2KeepAlive" in http:
        options["connection_keepalive"] = {name: _duration(text) for name, text in http["http2KeepAlive"].items()}
    return options


def _error_matcher(codes: Sequence[int]) -> dict[str, Any]:
    rules = [
        {"http_response_headers_match": {"headers": [{"name": ":status", "string_match": {"exact": str(code)}}]}}
        for code in codes
    ]
    return rules[0] if len(rules) == 1 else {"or_match": {"rules": rules}}


def _virtual_host(service: Service) -> dict[str, Any]:
    timeout = _milliseconds(service.timeout_ms)
    action: dict[str, Any] = {"cluster": service.cluster_name, "timeout": timeout, "max_grpc_timeout": timeout}
    if service.retries:
        action["retry_policy"] = {"retry_on": service.retry_on, "num_retries": service.retries}
        if service.per_try_timeout_ms:
            action["retry_policy"]["per_try_timeout"] = _milliseconds(service.per_try_timeout_ms)
    if service.hedged:
        action["hedge_policy"] = {"hedge_on_per_try_timeout": True}
    if service.balancer == "RING_HASH":
        action["hash_policy"] = [{"header": {"header_name": AIM_HEADER}}]
    return {
        "name": f"{service.host}:80",
        "domains": [service.host, f"{service.host}:80"],
        "routes": [{"match": {"prefix": "/"}, "route": action}],
    }


def _address(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _milliseconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g}s"


def _duration(text: str) -> str:
    # The comparison writes its rules with one unit, so the whole of Go's duration grammar is not needed.
    return _milliseconds(int(text.removesuffix("ms"))) if text.endswith("ms") else text
