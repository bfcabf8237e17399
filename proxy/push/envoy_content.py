"""Clusters and endpoints for a real Envoy, made of the same snapshot that a sidecar runs.

Serves CDS and EDS. Endpoints of a cluster that Istio feeds over EDS come over EDS here too, so that a change of
endpoints leaves the cluster, and with it its detector, as it is.
"""

from collections.abc import Mapping
from typing import Any

import xxhash
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from google.protobuf import json_format

from proxy.config.cluster_config import ClusterConfig, ClusterType
from proxy.config.envoy_cluster import envoy_cluster
from proxy.config.snapshot import ConfigSnapshot
from proxy.mcp.messages import Packed
from proxy.mcp.xds_server import CLUSTER_TYPE, ENDPOINT_TYPE, VersionedResource

# proto JSON finds the types inside an Any only when their modules are loaded.
_LOADED_FOR_ANY = (http_protocol_options_pb2,)
_ADS = {"ads": {}, "resource_api_version": "V3"}


class EnvoyContent:
    """Implements `XdsContent` for CDS and EDS; `apply` takes each new snapshot."""

    def __init__(self) -> None:
        self._clusters: dict[str, VersionedResource] = {}
        self._endpoints: dict[str, VersionedResource] = {}
        self._cluster_changes = 0
        self._endpoint_changes = 0

    def apply(self, snapshot: ConfigSnapshot) -> None:
        """Serve the clusters of a snapshot from now on."""
        clusters, endpoints = dict(self._clusters), dict(self._endpoints)
        for name in snapshot.changed:
            clusters.pop(name, None)
            endpoints.pop(name, None)
            config = snapshot.clusters.get(name)
            if config is not None:
                cluster, assignment = _messages(config)
                clusters[name] = cluster
                if assignment is not None:
                    endpoints[name] = assignment
        self._cluster_changes += clusters != self._clusters
        self._endpoint_changes += endpoints != self._endpoints
        self._clusters, self._endpoints = clusters, endpoints

    def version(self, type_url: str) -> str:
        """Return the version of a type.

        An Envoy that gets a cluster anew waits for its endpoints, so they count as changed whenever a cluster is.
        """
        if type_url == CLUSTER_TYPE:
            return str(self._cluster_changes)
        return f"{self._cluster_changes}.{self._endpoint_changes}" if type_url == ENDPOINT_TYPE else ""

    def resources(self, type_url: str, names: frozenset[str]) -> Mapping[str, VersionedResource]:
        """Return all clusters, or the endpoints of the clusters asked for."""
        if type_url == CLUSTER_TYPE:
            return self._clusters
        if type_url == ENDPOINT_TYPE:
            return {name: self._endpoints[name] for name in sorted(names) if name in self._endpoints}
        return {}


def _messages(config: ClusterConfig) -> tuple[VersionedResource, VersionedResource | None]:
    fields = envoy_cluster(config)
    assignment = None
    if config.type is ClusterType.EDS:
        load_assignment = fields.pop("load_assignment")
        assignment = _resource(ENDPOINT_TYPE, endpoint_pb2.ClusterLoadAssignment(), load_assignment)
        fields |= {"type": "EDS", "eds_cluster_config": {"eds_config": _ADS}}
    return _resource(CLUSTER_TYPE, cluster_pb2.Cluster(), fields), assignment


def _resource(type_url: str, message: Any, fields: dict[str, Any]) -> VersionedResource:
    json_format.ParseDict(fields, message)
    value = message.SerializeToString(deterministic=True)
    return VersionedResource(xxhash.xxh3_64_hexdigest(value), Packed(type_url, value))
