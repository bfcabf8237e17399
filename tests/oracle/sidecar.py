"""The sidecar as its users run it: a process started by its command line, configured by Kubernetes-shaped files."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from tests.oracle.service import AIM_HEADER, RETRY_ON, Service
from tests.oracle.subject import Subject

START_DEADLINE_S = 120.0


class Sidecar(Subject):
    """`outlier run` on a folder with a ServiceEntry, a DestinationRule and a VirtualService for each service."""

    def __init__(self, services: Sequence[Service], *, access_log: bool = False) -> None:
        super().__init__()
        self._services = services
        self._access_log = access_log

    async def start(self) -> None:
        config = self.directory / "config"
        config.mkdir()
        for service in self._services:
            (config / f"{service.host}.yaml").write_text(yaml.safe_dump_all(resources(service), sort_keys=False))
        # No DestinationRule reaches Envoy's own fields: then the same sidecar is started with them laid over.
        program = ["-m", "proxy.cli", "run"]
        overrides = {service.cluster_name: dict(service.overrides) for service in self._services if service.overrides}
        if overrides:
            fields = self.directory / "overrides.json"
            fields.write_text(json.dumps(overrides))
            program = ["-m", "tests.oracle.overriding_sidecar", str(fields)]
        log = self.directory / "sidecar.log"
        with log.open("wb") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *program, "--config", str(config)),
                *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--event-log", str(self.event_log)),
                *(("--access-log", str(self.directory / "access.jsonl")) if self._access_log else ()),
                stdout=asyncio.subprocess.PIPE,
                stderr=log_file,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_DEADLINE_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sidecar did not start: {log.read_text()[-2000:]}")
        ready = json.loads(line)
        host, _, port = ready["listen"].rpartition(":")
        self.listen = (host, int(port))
        self.admin = ready["admin"]


def resources(service: Service) -> list[dict[str, Any]]:
    """Return the Kubernetes objects that configure one service."""
    endpoints = []
    for address in service.addresses:
        host, _, port = address.rpartition(":")
        endpoints.append({"address": host, "ports": {"main": int(port)}})
    balancer: dict[str, Any] = (
        {"consistentHash": {"httpHeaderName": AIM_HEADER}}
        if service.balancer == "RING_HASH"
        else {"simple": service.balancer}
    )
    policy: dict[str, Any] = {
        "loadBalancer": balancer,
        "connectionPool": {
            "tcp": {"connectTimeout": f"{service.connect_timeout_ms}ms", **service.connection_pool.get("tcp", {})},
            "http": dict(service.connection_pool.get("http", {})),
        },
    }
    if service.outlier_detection is not None:
        policy["outlierDetection"] = dict(service.outlier_detection)
    retries: dict[str, Any] = {"attempts": service.retries}
    if service.retry_on != RETRY_ON:
        retries["retryOn"] = service.retry_on
    if service.per_try_timeout_ms:
        retries["perTryTimeout"] = f"{service.per_try_timeout_ms}ms"
    route = {
        "route": [{"destination": {"host": service.host, "port": {"number": 80}}}],
        "timeout": f"{service.timeout_ms}ms",
        "retries": retries,
    }
    annotations = {"outlier-proxy/hedge-on-per-try-timeout": "true"} if service.hedged else None
    return [
        _resource(
            "ServiceEntry",
            service,
            {
                "hosts": [service.host],
                "ports": [{"number": 80, "name": "main", "protocol": "GRPC" if service.http2 else "HTTP"}],
                "resolution": "STATIC",
                "endpoints": endpoints,
            },
        ),
        _resource("DestinationRule", service, {"host": service.host, "trafficPolicy": policy}),
        _resource("VirtualService", service, {"hosts": [service.host], "http": [route]}, annotations),
    ]


def _resource(
    kind: str, service: Service, spec: dict[str, Any], annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": service.host.replace(".", "-"), "namespace": "default"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"apiVersion": "networking.istio.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
