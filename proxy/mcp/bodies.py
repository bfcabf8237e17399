"""Bodies of resources: bytes to the typed resources that the sidecar uses, and typed text to bytes.

Both ways lead over proto JSON, so that a resource from a server meets the same reader and the same rules as one from a
file.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from proxy.config.durations import parse_duration_ns
from proxy.config.feed_mode import FeedMode
from proxy.config.issue import ABSENT, Issue, Severity
from proxy.config.resource import KINDS, Contents, Kind, read_resources
from proxy.mcp.messages import Envelope, Packed
from proxy.mcp.protos import destination_rule_pb2, service_entry_pb2, virtual_service_pb2

_MESSAGES: Mapping[str, type[Message]] = {
    "DestinationRule": destination_rule_pb2.DestinationRule,
    "ServiceEntry": service_entry_pb2.ServiceEntry,
    "VirtualService": virtual_service_pb2.VirtualService,
    "WorkloadEntry": service_entry_pb2.WorkloadEntry,
}


class UndecodableError(ValueError):
    """Raised when a body is not a message of its collection's type.

    Attributes:
        name: The resource.
        reason: What is wrong with its body.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason

    @property
    def issue(self) -> Issue:
        """The same as a finding."""
        return Issue(severity=Severity.ERROR, path=(), value=ABSENT, rule=self.reason, resource=self.name)


def split_name(name: str, mode: FeedMode = FeedMode.SPEC) -> tuple[str, str]:
    """Return namespace and name of a metadata name.

    The last segment is the name and everything before it the namespace; for Pilot a name without exactly two segments
    is its first one that is not empty, in no namespace.

    >>> split_name("shop/reviews")
    ('shop', 'reviews')
    """
    segments = name.split("/")
    if mode is not FeedMode.PILOT or len(segments) == 2:
        namespace, _, last = name.rpartition("/")
        return namespace, last
    return "", segments[0]


def decode_resource(envelope: Envelope, kind: Kind, source: str, mode: FeedMode = FeedMode.SPEC) -> Contents:
    """Return what one resource comes to: itself if it is valid, and every finding.

    Args:
        envelope: As received.
        kind: What its collection holds.
        source: The peer, for findings.
        mode: Whose reading of names.

    Raises:
        UndecodableError: The body is of another type, or not a message at all.
    """
    body = envelope.body
    if body.type_url != kind.type_url:
        raise UndecodableError(envelope.name, f"body is {body.type_url or 'without a type'}, not {kind.type_url}")
    message = _MESSAGES[kind.name]()
    try:
        message.ParseFromString(body.value)
        fields = json_format.MessageToDict(message)
    except (DecodeError, json_format.Error) as exc:
        raise UndecodableError(envelope.name, f"body cannot be decoded as {kind.name}") from exc
    metadata: dict[str, Any] = {
        "name": "/".join(split_name(envelope.name, mode)),
        "version": envelope.version,
        "labels": dict(envelope.labels),
        "annotations": dict(envelope.annotations),
    }
    text = json.dumps({"metadata": metadata, "body": {"@type": kind.type_url, **fields}})
    contents = read_resources(text, source)
    return attrs.evolve(
        contents,
        # A line of a text that nobody wrote tells nothing.
        resources={
            key: attrs.evolve(resource, line=None, created_ms=envelope.create_time_ms)
            for key, resource in contents.resources.items()
        },
        issues=tuple(attrs.evolve(issue, line=None) for issue in contents.issues),
    )


def encode_body(kind_name: str, fields: Mapping[str, Any]) -> Packed:
    """Return a body from the JSON that a file holds; fields that the message does not have are left out.

    Raises:
        UndecodableError: A field has the wrong type.
    """
    kind = KINDS[kind_name]
    message = _MESSAGES[kind_name]()
    try:
        json_format.ParseDict(_plain(fields, message.DESCRIPTOR), message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError) as exc:
        raise UndecodableError(kind_name, " ".join(str(exc).split())) from exc
    return Packed(kind.type_url, message.SerializeToString(deterministic=True))


def _plain(fields: Mapping[str, Any], descriptor: Any) -> dict[str, Any]:
    """Return the fields of a message of that descriptor with durations as proto JSON has them: `90s` for `1m30s`."""
    known = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    return {name: _plain_value(value, known[name]) if name in known else value for name, value in fields.items()}


def _plain_value(value: Any, field: Any) -> Any:
    descriptor = field.message_type
    if descriptor is None or value is None:
        return value
    if isinstance(value, list):
        return [_plain_value(member, field) for member in value]
    if descriptor.GetOptions().map_entry and isinstance(value, Mapping):
        member_field = descriptor.fields_by_name["value"]
        return {key: _plain_value(member, member_field) for key, member in value.items()}
    if descriptor.full_name == "google.protobuf.Duration" and isinstance(value, str):
        seconds, nanoseconds = divmod(abs(duration_ns := parse_duration_ns(value)), 1_000_000_000)
        return f"{'-' if duration_ns < 0 else ''}{seconds}.{nanoseconds:09}s"
    return _plain(value, descriptor) if isinstance(value, Mapping) else value
