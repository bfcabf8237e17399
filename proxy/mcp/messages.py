"""What travels over MCP, and over xDS as MCP uses it, as plain data; bodies stay the bytes they came as.

Field names are those of the protocols. `wire` turns the objects into messages of protobuf and back.
"""

import enum
from collections.abc import Mapping

import attrs


class Code(enum.IntEnum):
    """The gRPC status codes that the protocols use."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    UNIMPLEMENTED = 12
    UNAVAILABLE = 14


@attrs.frozen
class Status:
    """Why something was refused: a gRPC status code, and words for a person."""

    code: int
    message: str = ""


class StreamRefusedError(Exception):
    """Raised when a request must end the stream.

    Attributes:
        status: What the peer is told.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.status = Status(code, message)


@attrs.frozen
class Packed:
    """A message as `google.protobuf.Any` has it: the URL of its type, and its bytes."""

    type_url: str
    value: bytes


@attrs.frozen(kw_only=True)
class Envelope:
    """MCP's `Resource`: metadata, and a body nobody has looked into yet.

    `name` is `namespace/name`; `version` is opaque; `create_time_ms` counts from the epoch, 0 when absent.
    """

    name: str
    version: str = ""
    create_time_ms: int = 0
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    body: Packed


@attrs.frozen(kw_only=True)
class RequestResources:
    """Sink to source: a request (no nonce), an ACK (a nonce) or a NACK (a nonce and an error)."""

    collection: str
    initial_resource_versions: Mapping[str, str] = attrs.field(factory=dict)
    response_nonce: str = ""
    error_detail: Status | None = None
    incremental: bool = False


@attrs.frozen(kw_only=True)
class Resources:
    """Source to sink: a whole collection, or, when `incremental`, what changed in it."""

    collection: str
    nonce: str = ""
    system_version_info: str = ""
    resources: tuple[Envelope, ...] = ()
    removed_resources: tuple[str, ...] = ()
    incremental: bool = False


@attrs.frozen(kw_only=True)
class DiscoveryRequest:
    """Client to server, state of the world. `node_id` is None where the message carries no node."""

    type_url: str
    version_info: str = ""
    response_nonce: str = ""
    resource_names: tuple[str, ...] = ()
    node_id: str | None = None
    error_detail: Status | None = None


@attrs.frozen(kw_only=True)
class DiscoveryResponse:
    """Server to client, state of the world: every resource of the type."""

    type_url: str
    version_info: str = ""
    nonce: str = ""
    resources: tuple[Packed, ...] = ()


@attrs.frozen(kw_only=True)
class DeltaRequest:
    """Client to server, incremental: `DeltaDiscoveryRequest`."""

    type_url: str
    response_nonce: str = ""
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial_resource_versions: Mapping[str, str] = attrs.field(factory=dict)
    node_id: str | None = None
    error_detail: Status | None = None


@attrs.frozen(kw_only=True)
class DeltaResource:
    """One resource of a delta, with the version that the server knows it by."""

    name: str
    version: str
    resource: Packed


@attrs.frozen(kw_only=True)
class DeltaResponse:
    """Server to client, incremental: `DeltaDiscoveryResponse`."""

    type_url: str
    nonce: str = ""
    system_version_info: str = ""
    resources: tuple[DeltaResource, ...] = ()
    removed_resources: tuple[str, ...] = ()
