"""Bodies of resources: bytes to the typed resources that the sidecar uses, and back.

What comes in is read as proto JSON, so that a resource from a server meets the same reader and the same rules as one
from a file.
"""

import base64
import enum
import json
from collections.abc import Mapping
from typing import Any

import attrs
from google.protobuf import duration_pb2, json_format
from google.protobuf.message import DecodeError, Message

from proxy.config.feed_mode import FeedMode
from proxy.config.issue import ABSENT, Issue, Severity
from proxy.config.message import Message as ConfigMessage
from proxy.config.resource import Body, Contents, Kind, read_resources
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


def encode_body(kind: Kind, body: Body) -> Packed:
    """Return a body as bytes."""
    message = _MESSAGES[kind.name]()
    _fill(message, body)
    return Packed(kind.type_url, message.SerializeToString(deterministic=True))


def _fill(message: Any, body: ConfigMessage) -> None:
    """Set the fields of a protobuf message to those of a typed one; field names are the same in both."""
    fields = message.DESCRIPTOR.fields_by_name
    for attribute in attrs.fields(type(body)):
        value = getattr(body, attribute.name)
        if value is None:
            continue
        name = attribute.name.rstrip("_")
        field = fields[name]
        if isinstance(value, tuple):
            _extend(getattr(message, name), value)
        elif isinstance(value, Mapping):
            _fill_map(getattr(message, name), value)
        elif field.message_type is not None:
            _set(getattr(message, name), value)
        elif field.enum_type is not None:
            number = value.value if isinstance(value, enum.Enum) else field.enum_type.values_by_name[value].number
            setattr(message, name, number)
        else:
            setattr(message, name, base64.b64decode(value) if field.type == field.TYPE_BYTES else value)


def _extend(repeated: Any, values: tuple[Any, ...]) -> None:
    for value in values:
        if value is None or isinstance(value, ConfigMessage):
            _set(repeated.add(), value)
        else:
            repeated.append(value)


def _fill_map(target: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if value is None or isinstance(value, ConfigMessage):
            _set(target[key], value)
        else:
            target[key] = value


def _set(message: Any, value: Any) -> None:
    """Set a nested message: one of ours, a duration in nanoseconds, or a wrapper; it is there even if it is empty."""
    message.SetInParent()
    if isinstance(value, ConfigMessage):
        _fill(message, value)
    elif isinstance(message, duration_pb2.Duration):
        message.FromNanoseconds(value)
    elif value is not None:
        message.value = value
