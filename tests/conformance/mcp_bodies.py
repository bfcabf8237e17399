"""Resources of the feed vectors as real messages: bodies that are valid, cannot be decoded, or are not valid."""

from collections.abc import Mapping
from typing import Any

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.config.issue import Report
from proxy.config.resource import KINDS, Contents, Kind
from proxy.config.store import Store
from proxy.mcp.bodies import UndecodableError, decode_resource, encode_body
from proxy.mcp.holdings import Changes
from proxy.mcp.messages import Envelope, Packed, Status
from tests.conformance.runner import Mismatch

PEER = "peer"
_MARK_SUFFIX = ".test"


def modes(case: Mapping[str, Any]) -> list[FeedMode]:
    """Return the modes that a case is to be run in."""
    return [FeedMode(case["mode"])] if "mode" in case else [FeedMode.SPEC, FeedMode.PILOT]


def kind_named(letters: str) -> Kind:
    """Return the kind that the vectors call DR, T or SE."""
    return KINDS["ServiceEntry"] if letters == "SE" else KINDS["DestinationRule"]


def envelope(resource: Mapping[str, Any], kind: Kind) -> Envelope:
    """Return a vector's resource with a body of its kind."""
    host = resource.get("v", "a").lower() + _MARK_SUFFIX
    fields: dict[str, Any] = {"host": host}
    if kind.name == "ServiceEntry":
        fields = {"hosts": [host], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}
    state = resource.get("body", "ok")
    body = encode_body(kind, kind.message.read({} if state == "invalid" else fields, (), Report()))
    if state == "bad":
        body = Packed(body.type_url, b"\xff")
    labels = {"istio.io/rev": resource["rev"]} if "rev" in resource else {}
    return Envelope(name=resource["name"], version=resource.get("version", ""), labels=labels, body=body)


def mark(contents: Any) -> str:
    """Return the mark of a resource in the store."""
    host = contents.body.host if hasattr(contents.body, "host") else contents.body.hosts[0]
    return str(host.removesuffix(_MARK_SUFFIX).upper())


def outcomes(fresh: list[Envelope], kind: Kind, mode: FeedMode) -> dict[str, Contents | UndecodableError]:
    """Return what each resource comes to."""
    found: dict[str, Contents | UndecodableError] = {}
    for one in fresh:
        try:
            found[one.name] = decode_resource(one, kind, PEER, mode)
        except UndecodableError as exc:
            found[one.name] = exc
    return found


def put(store: Store, changes: Changes) -> None:
    """Let the store take over changes, as the pipeline does."""
    for name in changes.removed:
        store.remove(PEER, name)
    for name, contents in changes.parts.items():
        store.put(PEER, name, contents)


def in_store(store: Store, kind: Kind) -> dict[str, Any]:
    """Return the resources of a kind by name."""
    return {resource.full_name: resource for key, resource in store.resources.items() if key[0] == kind.collection}


def as_vector(message: Any, *, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return a message as a vector states it: what is not empty; errors by code, resources by name and version."""
    found: dict[str, Any] = {}
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if field.name == "collection":
            found["c"] = kinds.get(value, value)
        elif isinstance(value, Status):
            found[field.name] = {"code": value.code}
        elif value and field.name == "resources":
            found[field.name] = sorted((one.name, one.version) for one in value)
        elif value and field.name == "removed_resources":
            found[field.name] = sorted(value)
        elif value:
            found[field.name] = dict(value) if isinstance(value, Mapping) else value
    return found


def from_vector(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a vector's message in the same form."""
    found: dict[str, Any] = {}
    for name, value in message.items():
        if not value:
            continue
        if name == "error_detail":
            found[name] = {"code": value["code"]}
        elif name == "resources":
            found[name] = sorted((one["name"], one.get("version", "")) for one in value)
        else:
            found[name] = sorted(value) if name == "removed_resources" else value
    return found


def expect_same(expected: object, actual: object, where: str) -> None:
    """Fail the case when two values differ."""
    if expected != actual:
        raise Mismatch(expected, actual, where)


BY_LETTERS: Mapping[str, Kind] = {"DR": KINDS["DestinationRule"], "SE": KINDS["ServiceEntry"]}
COLLECTIONS: Mapping[str, str] = {kind.collection: letters for letters, kind in BY_LETTERS.items()}
