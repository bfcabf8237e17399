"""Messages of protobuf to plain data and back: MCP's, and those of xDS that MCP over xDS uses.

Fields that this version does not know are ignored, as proto3 has it. Each `*_to_bytes` has its `*_from_bytes`, which
raises `WireError` for bytes that are no such message.
"""

from collections.abc import Callable
from typing import TypeVar

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2, timestamp_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2

from proxy.mcp.messages import (
    DeltaRequest,
    DeltaResource,
    DeltaResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Envelope,
    Packed,
    RequestResources,
    Resources,
    Status,
)
from proxy.mcp.protos import mcp_pb2

ENVELOPE_TYPE_URL = "type.googleapis.com/istio.mcp.v1alpha1.Resource"

_Proto = TypeVar("_Proto", bound=Message)


class WireError(ValueError):
    """Raised when bytes are not the message they should be."""


def _parse(kind: Callable[[], _Proto], data: bytes) -> _Proto:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as exc:
        raise WireError(f"not a {message.DESCRIPTOR.full_name}") from exc
    return message


def _status_to_proto(status: Status | None) -> "status_pb2.Status | None":
    return None if status is None else status_pb2.Status(code=status.code, message=status.message)


def _status_from_proto(message: Message) -> Status | None:
    """Return the error of a request, both protocols calling the field `error_detail`."""
    if not message.HasField("error_detail"):
        return None
    detail = message.error_detail  # type: ignore[attr-defined]
    return Status(detail.code, detail.message)


def _packed_to_proto(packed: Packed) -> any_pb2.Any:
    return any_pb2.Any(type_url=packed.type_url, value=packed.value)


def _packed_from_proto(message: any_pb2.Any) -> Packed:
    return Packed(message.type_url, message.value)


# MCP


def _envelope_to_proto(envelope: Envelope) -> mcp_pb2.Resource:
    metadata = mcp_pb2.Metadata(
        name=envelope.name, version=envelope.version, labels=envelope.labels, annotations=envelope.annotations
    )
    if envelope.create_time_ms:
        seconds, milliseconds = divmod(envelope.create_time_ms, 1000)
        metadata.create_time.CopyFrom(timestamp_pb2.Timestamp(seconds=seconds, nanos=milliseconds * 1_000_000))
    return mcp_pb2.Resource(metadata=metadata, body=_packed_to_proto(envelope.body))


def _envelope_from_proto(message: mcp_pb2.Resource) -> Envelope:
    metadata = message.metadata
    created = metadata.create_time
    return Envelope(
        name=metadata.name,
        version=metadata.version,
        create_time_ms=created.seconds * 1000 + created.nanos // 1_000_000,
        labels=dict(metadata.labels),
        annotations=dict(metadata.annotations),
        body=_packed_from_proto(message.body),
    )


def pack_envelope(envelope: Envelope) -> Packed:
    """Return an envelope as a resource of xDS."""
    return Packed(ENVELOPE_TYPE_URL, _envelope_to_proto(envelope).SerializeToString(deterministic=True))


def unpack_envelope(packed: Packed) -> Envelope:
    """Return the envelope that a resource of xDS is.

    Raises:
        WireError: It is something else.
    """
    if packed.type_url != ENVELOPE_TYPE_URL:
        raise WireError(f"{packed.type_url or 'a resource without a type'} is not {ENVELOPE_TYPE_URL}")
    return _envelope_from_proto(_parse(mcp_pb2.Resource, packed.value))


def request_to_bytes(request: RequestResources, node_id: str = "") -> bytes:
    """Return the bytes of a `RequestResources`; `node_id` names the sink, which every request does."""
    return mcp_pb2.RequestResources(
        sink_node=mcp_pb2.SinkNode(id=node_id),
        collection=request.collection,
        initial_resource_versions=request.initial_resource_versions,
        response_nonce=request.response_nonce,
        error_detail=_status_to_proto(request.error_detail),
        incremental=request.incremental,
    ).SerializeToString(deterministic=True)


def request_from_bytes(data: bytes) -> RequestResources:
    """Return the request that the bytes are."""
    message = _parse(mcp_pb2.RequestResources, data)
    return RequestResources(
        collection=message.collection,
        initial_resource_versions=dict(message.initial_resource_versions),
        response_nonce=message.response_nonce,
        error_detail=_status_from_proto(message),
        incremental=message.incremental,
    )


def resources_to_bytes(resources: Resources) -> bytes:
    """Return the bytes of a `Resources`."""
    return mcp_pb2.Resources(
        system_version_info=resources.system_version_info,
        collection=resources.collection,
        resources=map(_envelope_to_proto, resources.resources),
        removed_resources=resources.removed_resources,
        nonce=resources.nonce,
        incremental=resources.incremental,
    ).SerializeToString(deterministic=True)


def resources_from_bytes(data: bytes) -> Resources:
    """Return the response that the bytes are."""
    message = _parse(mcp_pb2.Resources, data)
    return Resources(
        collection=message.collection,
        nonce=message.nonce,
        system_version_info=message.system_version_info,
        resources=tuple(map(_envelope_from_proto, message.resources)),
        removed_resources=tuple(message.removed_resources),
        incremental=message.incremental,
    )


# xDS, state of the world


def discovery_request_to_bytes(request: DiscoveryRequest) -> bytes:
    """Return the bytes of a `DiscoveryRequest`."""
    message = discovery_pb2.DiscoveryRequest(
        version_info=request.version_info,
        resource_names=request.resource_names,
        type_url=request.type_url,
        response_nonce=request.response_nonce,
        error_detail=_status_to_proto(request.error_detail),
    )
    if request.node_id is not None:
        message.node.id = request.node_id
    return bytes(message.SerializeToString(deterministic=True))


def discovery_request_from_bytes(data: bytes) -> DiscoveryRequest:
    """Return the request that the bytes are."""
    message = _parse(discovery_pb2.DiscoveryRequest, data)
    return DiscoveryRequest(
        type_url=message.type_url,
        version_info=message.version_info,
        response_nonce=message.response_nonce,
        resource_names=tuple(message.resource_names),
        node_id=message.node.id if message.HasField("node") else None,
        error_detail=_status_from_proto(message),
    )


def discovery_response_to_bytes(response: DiscoveryResponse) -> bytes:
    """Return the bytes of a `DiscoveryResponse`."""
    message = discovery_pb2.DiscoveryResponse(
        version_info=response.version_info,
        resources=map(_packed_to_proto, response.resources),
        type_url=response.type_url,
        nonce=response.nonce,
    )
    return bytes(message.SerializeToString(deterministic=True))


def discovery_response_from_bytes(data: bytes) -> DiscoveryResponse:
    """Return the response that the bytes are."""
    message = _parse(discovery_pb2.DiscoveryResponse, data)
    return DiscoveryResponse(
        type_url=message.type_url,
        version_info=message.version_info,
        nonce=message.nonce,
        resources=tuple(map(_packed_from_proto, message.resources)),
    )


# xDS, incremental


def delta_request_to_bytes(request: DeltaRequest) -> bytes:
    """Return the bytes of a `DeltaDiscoveryRequest`."""
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=request.type_url,
        resource_names_subscribe=request.subscribe,
        resource_names_unsubscribe=request.unsubscribe,
        initial_resource_versions=request.initial_resource_versions,
        response_nonce=request.response_nonce,
        error_detail=_status_to_proto(request.error_detail),
    )
    if request.node_id is not None:
        message.node.id = request.node_id
    return bytes(message.SerializeToString(deterministic=True))


def delta_request_from_bytes(data: bytes) -> DeltaRequest:
    """Return the request that the bytes are."""
    message = _parse(discovery_pb2.DeltaDiscoveryRequest, data)
    return DeltaRequest(
        type_url=message.type_url,
        response_nonce=message.response_nonce,
        subscribe=tuple(message.resource_names_subscribe),
        unsubscribe=tuple(message.resource_names_unsubscribe),
        initial_resource_versions=dict(message.initial_resource_versions),
        node_id=message.node.id if message.HasField("node") else None,
        error_detail=_status_from_proto(message),
    )


def delta_response_to_bytes(response: DeltaResponse) -> bytes:
    """Return the bytes of a `DeltaDiscoveryResponse`."""
    message = discovery_pb2.DeltaDiscoveryResponse(
        system_version_info=response.system_version_info,
        resources=[
            discovery_pb2.Resource(
                name=resource.name, version=resource.version, resource=_packed_to_proto(resource.resource)
            )
            for resource in response.resources
        ],
        type_url=response.type_url,
        removed_resources=response.removed_resources,
        nonce=response.nonce,
    )
    return bytes(message.SerializeToString(deterministic=True))


def delta_response_from_bytes(data: bytes) -> DeltaResponse:
    """Return the response that the bytes are."""
    message = _parse(discovery_pb2.DeltaDiscoveryResponse, data)
    return DeltaResponse(
        type_url=message.type_url,
        nonce=message.nonce,
        system_version_info=message.system_version_info,
        resources=tuple(
            DeltaResource(name=entry.name, version=entry.version, resource=_packed_from_proto(entry.resource))
            for entry in message.resources
        ),
        removed_resources=tuple(message.removed_resources),
    )
