"""A real Envoy that gets its clusters and endpoints from `outlier source --envoy-xds`.

Its listener and routes stand in its bootstrap; what detects outliers comes over the wire, made of the same
Kubernetes-shaped files that the sidecar reads.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import START_DEADLINE_S, resources
from tests.oracle.subject import STOP_DEADLINE_S

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_SOURCE_CLUSTER = "source"


class FedEnvoy(Envoy):
    """An ADS client of our source, state of the world."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__(services)
        self._source: asyncio.subprocess.Process | None = None
        self._source_address = ""

    def write(self, services: Sequence[Service]) -> None:
        """Write the files of some services, anew if they are there."""
        for service in services:
            file = self.directory / "config" / f"{service.host}.yaml"
            file.write_text(yaml.safe_dump_all(resources(service), sort_keys=False))

    async def start(self) -> None:
        config = self.directory / "config"
        config.mkdir()
        self.write(self._services)
        self._source = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proxy.cli", "source", str(config), "--envoy-xds", "--listen", "127.0.0.1:0"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._source.stdout is not None
        async with asyncio.timeout(START_DEADLINE_S):
            self._source_address = json.loads(await self._source.stdout.readline())["listen"]
        await super().start()

    async def __aexit__(self, *details: object) -> None:
        await super().__aexit__(*details)
        if self._source is not None and self._source.returncode is None:
            self._source.terminate()
            await asyncio.wait_for(self._source.communicate(), STOP_DEADLINE_S)

    def bootstrap(self) -> dict[str, Any]:
        message = super().bootstrap()
        host, _, port = self._source_address.rpartition(":")
        address = {"socket_address": {"address": host, "port_value": int(port)}}
        message["node"] = {"id": "oracle", "cluster": "oracle"}
        message["dynamic_resources"] = {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": _SOURCE_CLUSTER}}],
            },
            "cds_config": {"ads": {}, "resource_api_version": "V3"},
        }
        static = message["static_resources"]
        static["clusters"] = [
            {
                "name": _SOURCE_CLUSTER,
                "connect_timeout": "1s",
                "load_assignment": {
                    "cluster_name": _SOURCE_CLUSTER,
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                },
                "typed_extension_protocol_options": {
                    _HTTP_OPTIONS: {
                        "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
                        "explicit_http_config": {"http2_protocol_options": {}},
                    }
                },
            }
        ]
        manager = static["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        manager["route_config"]["validate_clusters"] = False  # they come later
        return message
