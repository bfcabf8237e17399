"""The server's side of xDS: which requests are answered, and with what.

Pure. Ports `ShouldRespond` and its delta counterpart (Istio, pkg/xds/server.go). Unlike istiod, a stream has at most
one unanswered response of a type: what changes meanwhile goes out with the answer to it.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from proxy.mcp.messages import (
    Code,
    DeltaRequest,
    DeltaResource,
    DeltaResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Packed,
    StreamRefusedError,
)

_ENVOY = "type.googleapis.com/envoy."
CLUSTER_TYPE = _ENVOY + "config.cluster.v3.Cluster"
ENDPOINT_TYPE = _ENVOY + "config.endpoint.v3.ClusterLoadAssignment"
# A request for these without names is none: the client wants nothing (any more).
_BY_NAME_ONLY = frozenset(
    {
        ENDPOINT_TYPE,
        _ENVOY + "config.route.v3.RouteConfiguration",
        _ENVOY + "extensions.transport_sockets.tls.v3.Secret",
        _ENVOY + "config.core.v3.TypedExtensionConfig",
    }
)


@attrs.frozen
class VersionedResource:
    """A resource, and a version that changes with it."""

    version: str
    resource: Packed


class XdsContent(Protocol):
    """What a server has."""

    def version(self, type_url: str) -> str:
        """Return the version of all resources of a type."""
        ...

    def resources(self, type_url: str, names: frozenset[str]) -> Mapping[str, VersionedResource]:
        """Return the resources of a type by name: those of `names`, or all where the type is not asked by name.

        A type that is not known has none.
        """
        ...


@attrs.define
class XdsServerStats:
    """Counts over all streams of a server, with Istio's names."""

    pilot_xds_pushes: Counter[str] = attrs.field(factory=Counter)
    pilot_xds_expired_nonce: Counter[str] = attrs.field(factory=Counter)
    pilot_total_xds_rejects: Counter[tuple[str, int]] = attrs.field(factory=Counter)


@attrs.define
class _Subscription:
    names: frozenset[str] = frozenset()
    sent_nonce: str = ""
    sent_version: str | None = None
    acked_nonce: str = ""
    outstanding: bool = False
    known: dict[str, str] = attrs.field(factory=dict)  # delta: versions the client has been sent


class _Streams:
    """What the two kinds of stream share: node, nonces, and judging an answer."""

    def __init__(self, content: XdsContent, stats: XdsServerStats) -> None:
        self._content = content
        self._stats = stats
        self._subscriptions: dict[str, _Subscription] = {}
        self._nonces = itertools.count(1)
        self._has_node = False

    @property
    def subscribed(self) -> Iterable[str]:
        """The types subscribed to."""
        return self._subscriptions.keys()

    def acked_nonce(self, type_url: str) -> str:
        """Return the last nonce of a type that was acknowledged; empty before."""
        subscription = self._subscriptions.get(type_url)
        return subscription.acked_nonce if subscription is not None else ""

    def names(self, type_url: str) -> frozenset[str] | None:
        """Return the names asked for of a type; None when it is not subscribed to."""
        subscription = self._subscriptions.get(type_url)
        return subscription.names if subscription is not None else None

    def _check_node(self, node_id: str | None) -> None:
        self._has_node = self._has_node or bool(node_id)
        if not self._has_node:
            raise StreamRefusedError(Code.INVALID_ARGUMENT, "the first request must carry a node with an id")

    def _reject(self, type_url: str, code: int, nonce: str) -> None:
        self._stats.pilot_total_xds_rejects[type_url, code] += 1
        subscription = self._subscriptions.get(type_url)
        if subscription is not None and nonce == subscription.sent_nonce:
            subscription.outstanding = False

    def _nonce(self, version: str) -> str:
        return f"{version}-{next(self._nonces)}"


class XdsServerStream(_Streams):
    """One stream, state of the world.

    Args:
        content: What there is to send; shared by all streams.
        stats: Where to count; shared too.
    """

    def receive(self, request: DiscoveryRequest) -> list[DiscoveryResponse]:
        """Return what to send after a request.

        Raises:
            StreamRefusedError: The first request says not who asks.
        """
        self._check_node(request.node_id)
        type_url, names = request.type_url, frozenset(request.resource_names)
        subscription = self._subscriptions.get(type_url)
        if request.error_detail is not None:
            self._reject(type_url, request.error_detail.code, request.response_nonce)
            return self.publish(type_url)
        if type_url in _BY_NAME_ONLY and not names:
            self._subscriptions.pop(type_url, None)
            return []
        if subscription is None or not request.response_nonce:
            self._subscriptions[type_url] = _Subscription(names)
            return [self._respond(type_url)]
        if request.response_nonce != subscription.sent_nonce:
            self._stats.pilot_xds_expired_nonce[type_url] += 1
            return []
        subscription.acked_nonce = request.response_nonce
        subscription.outstanding = False
        before, subscription.names = subscription.names, names
        if names != before and (type_url not in _BY_NAME_ONLY or names - before):
            return [self._respond(type_url)]
        return self.publish(type_url)

    def publish(self, type_url: str) -> list[DiscoveryResponse]:
        """Return what to send now that the resources of a type may have changed."""
        subscription = self._subscriptions.get(type_url)
        if (
            subscription is None
            or subscription.outstanding
            or subscription.sent_version == self._content.version(type_url)
        ):
            return []
        return [self._respond(type_url)]

    def _respond(self, type_url: str) -> DiscoveryResponse:
        subscription = self._subscriptions[type_url]
        version = self._content.version(type_url)
        subscription.sent_nonce = self._nonce(version)
        subscription.sent_version = version
        subscription.outstanding = True
        self._stats.pilot_xds_pushes[type_url] += 1
        resources = self._content.resources(type_url, subscription.names)
        return DiscoveryResponse(
            type_url=type_url,
            version_info=version,
            nonce=subscription.sent_nonce,
            resources=tuple(entry.resource for entry in resources.values()),
        )


class XdsDeltaServerStream(_Streams):
    """One stream, incremental.

    Args:
        content: What there is to send; shared by all streams.
        stats: Where to count; shared too.
    """

    def receive(self, request: DeltaRequest) -> list[DeltaResponse]:
        """Return what to send after a request.

        Raises:
            StreamRefusedError: The first request says not who asks.
        """
        self._check_node(request.node_id)
        type_url = request.type_url
        if request.error_detail is not None:
            self._reject(type_url, request.error_detail.code, request.response_nonce)
            return self.publish(type_url)
        subscription = self._subscriptions.get(type_url)
        first = subscription is None
        if subscription is None:
            known = dict(request.initial_resource_versions)
            subscription = self._subscriptions[type_url] = _Subscription(known=known)
        if request.response_nonce and not first:
            if request.response_nonce != subscription.sent_nonce:
                self._stats.pilot_xds_expired_nonce[type_url] += 1
                return []
            subscription.acked_nonce = request.response_nonce
            subscription.outstanding = False
        before = subscription.names
        subscription.names = (before | set(request.subscribe)) - set(request.unsubscribe)
        for name in request.unsubscribe:
            subscription.known.pop(name, None)
        if first or subscription.names - before:
            return [self._respond(type_url)]
        return self.publish(type_url)

    def publish(self, type_url: str) -> list[DeltaResponse]:
        """Return what to send now that the resources of a type may have changed; nothing when nothing did."""
        subscription = self._subscriptions.get(type_url)
        if (
            subscription is None
            or subscription.outstanding
            or subscription.sent_version == self._content.version(type_url)
        ):
            return []
        return [self._respond(type_url)]

    def _respond(self, type_url: str) -> DeltaResponse:
        subscription = self._subscriptions[type_url]
        version = self._content.version(type_url)
        subscription.sent_nonce = self._nonce(version)
        subscription.sent_version = version
        subscription.outstanding = True
        self._stats.pilot_xds_pushes[type_url] += 1
        current = self._content.resources(type_url, subscription.names)
        changed = tuple(
            DeltaResource(name=name, version=entry.version, resource=entry.resource)
            for name, entry in current.items()
            if not entry.version or subscription.known.get(name) != entry.version
        )
        removed = tuple(name for name in subscription.known if name not in current)
        subscription.known = {name: entry.version for name, entry in current.items()}
        return DeltaResponse(
            type_url=type_url,
            nonce=subscription.sent_nonce,
            system_version_info=version,
            resources=changed,
            removed_resources=removed,
        )
