"""Calls and what their host does with each, frame by frame; both proxies must make the same of it.

There is one host for each case, so what is ejected answers no more. A case has more calls than its rule needs to
eject: when it happened shows in the answers.
"""

from collections.abc import Mapping
from typing import Any

import attrs
from h2.errors import ErrorCodes

from tests.oracle import grpc_upstream as host
from tests.oracle.grpc_upstream import Script

# No sweep comes while a case runs; without panic, nobody answers for an ejected host.
RULE = {
    "consecutive5xxErrors": 3,
    "consecutiveGatewayErrors": 0,
    "interval": "100s",
    "baseEjectionTime": "100s",
    "maxEjectionPercent": 100,
}
GATEWAY_RULE = RULE | {"consecutive5xxErrors": 0, "consecutiveGatewayErrors": 3}
SPLIT_RULE = RULE | {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 2}

HANG_TIMEOUT_MS = 300
LONG_TIMEOUT_MS = 30_000


def status(code: int | str, text: str = "") -> tuple[tuple[str, str], ...]:
    """Return the fields of a gRPC status."""
    fields = (("grpc-status", str(code)),)
    return (*fields, ("grpc-message", text)) if text else fields


def trailers_only(code: int | str, **head: Any) -> Script:
    """A response of headers alone, with its status there."""
    return (host.head(*status(code, "said in the headers"), end=True, **head),)


def in_trailers(code: int | str) -> Script:
    """A response with a message, and its status in the trailers."""
    return (host.head(), host.message(), host.trailers(*status(code, "said in the trailers")))


FINE = in_trailers(0)


@attrs.frozen(kw_only=True)
class GrpcCase:
    """Unary calls one after the other; `scripts` are what the host does, one for each call that reaches it.

    `calls` is how many are made; 0 is as many as there are scripts. `refuse` closes the host's port. `cancel` lets the
    client give up as soon as the host has its request. `deadline_ms` (0: none) is one that only the proxy heeds.
    `retries` are made on Istio's default conditions.
    """

    name: str
    scripts: tuple[Script, ...]
    calls: int = 0
    rule: Mapping[str, Any] | None = attrs.field(default=RULE)
    timeout_ms: int = LONG_TIMEOUT_MS
    retries: int = 0
    refuse: bool = False
    cancel: bool = False
    deadline_ms: int = 0


def repeated(name: str, script: Script, **fields: Any) -> GrpcCase:
    """Five calls that meet the same: two more than the rule needs."""
    return GrpcCase(name=name, scripts=(script,) * 5, **fields)


CASES = (
    repeated("fine", FINE),
    # The status in the headers counts as the HTTP status that it stands for.
    repeated("unavailable in the headers", trailers_only(14)),
    repeated("unavailable in the headers of a longer response", (host.head(*status(14)), *FINE[1:])),
    repeated("not found in the headers", trailers_only(5)),
    repeated("unauthenticated in the headers", trailers_only(16)),
    repeated("internal in the headers", trailers_only(13)),
    repeated("unknown status 99", trailers_only(99)),
    repeated("status 17", trailers_only(17)),
    repeated("status with zeros", trailers_only("0014")),
    repeated("headers say 0, HTTP says 503", trailers_only(0, status=503)),
    repeated("headers say 14, HTTP says 503", trailers_only(14, status=503)),
    repeated("503 without gRPC", (host.head(status=503, content_type="text/plain", end=True),)),
    # In the trailers it does not.
    repeated("unavailable in the trailers", in_trailers(14)),
    repeated("headers say 0, trailers say 14", (host.head(*status(0)), *in_trailers(14)[1:])),
    repeated("no status at all", (host.head(), host.message(), host.trailers(("x-other", "1")))),
    GrpcCase(
        name="headers and trailers in turns",
        scripts=(trailers_only(14), in_trailers(14), trailers_only(14), trailers_only(14), trailers_only(14), FINE),
    ),
    GrpcCase(
        name="a success in between",
        scripts=(trailers_only(14), trailers_only(14), FINE, trailers_only(14), trailers_only(14), trailers_only(14)),
        calls=7,
    ),
    # Gateway errors.
    repeated("gateway rule, unavailable", trailers_only(14), rule=GATEWAY_RULE),
    repeated("gateway rule, deadline exceeded", trailers_only(4), rule=GATEWAY_RULE),
    repeated("gateway rule, internal", trailers_only(13), rule=GATEWAY_RULE),
    repeated("gateway rule, unknown status", trailers_only(99), rule=GATEWAY_RULE),
    repeated("gateway rule, reset", (host.reset(ErrorCodes.INTERNAL_ERROR),), rule=GATEWAY_RULE),
    # Resets of a stream.
    repeated("reset before headers", (host.reset(ErrorCodes.INTERNAL_ERROR),)),
    repeated("reset without an error", (host.reset(ErrorCodes.NO_ERROR),)),
    repeated("reset as cancelled", (host.reset(ErrorCodes.CANCEL),)),
    repeated("reset for a protocol error", (host.reset(ErrorCodes.PROTOCOL_ERROR),)),
    repeated("reset after headers", (host.head(), host.reset(ErrorCodes.INTERNAL_ERROR))),
    repeated("reset after a message", (host.head(), host.message(), host.reset(ErrorCodes.INTERNAL_ERROR))),
    repeated("refused stream", (host.reset(ErrorCodes.REFUSED_STREAM),)),
    # The connection.
    repeated("going away before the request", (host.go_away(0), host.hang_up)),
    repeated("closed before headers", (host.hang_up,)),
    repeated("closed after headers", (host.head(), host.message(), host.hang_up)),
    repeated("connection reset before headers", (host.drop,)),
    repeated("not HTTP/2", (host.garble,)),
    repeated("connection refused", FINE, refuse=True),
    # Time.
    repeated("timeout before headers", (), timeout_ms=HANG_TIMEOUT_MS),
    repeated("timeout after headers", (host.head(), host.message()), timeout_ms=HANG_TIMEOUT_MS),
    repeated("deadline of the client", (), deadline_ms=HANG_TIMEOUT_MS),
    repeated("deadline of the client, in the middle", (host.head(), host.message()), deadline_ms=HANG_TIMEOUT_MS),
    repeated("split, deadline of the client", (), deadline_ms=HANG_TIMEOUT_MS, rule=SPLIT_RULE),
    GrpcCase(name="client cancels", scripts=((),) * 5, cancel=True),
    # Failures that no host has answered stand for themselves.
    repeated("split, unavailable in the headers", trailers_only(14), rule=SPLIT_RULE),
    repeated("split, unavailable in the trailers", in_trailers(14), rule=SPLIT_RULE),
    repeated("split, reset before headers", (host.reset(ErrorCodes.INTERNAL_ERROR),), rule=SPLIT_RULE),
    repeated("split, reset after headers", (host.head(), host.reset(ErrorCodes.INTERNAL_ERROR)), rule=SPLIT_RULE),
    repeated("split, refused stream", (host.reset(ErrorCodes.REFUSED_STREAM),), rule=SPLIT_RULE),
    repeated("split, going away", (host.go_away(0), host.hang_up), rule=SPLIT_RULE),
    repeated("split, connection refused", FINE, refuse=True, rule=SPLIT_RULE),
    repeated("split, timeout", (), timeout_ms=HANG_TIMEOUT_MS, rule=SPLIT_RULE),
    # Retries.
    GrpcCase(name="retried, headers", scripts=(trailers_only(14), FINE), calls=1, retries=2),
    GrpcCase(name="retried, cancelled in headers", scripts=(trailers_only(1), FINE), calls=1, retries=2),
    GrpcCase(name="retried to the end", scripts=(trailers_only(14),) * 3, calls=1, retries=2, rule=None),
    GrpcCase(name="not retried, trailers", scripts=(in_trailers(14), FINE), calls=1, retries=2),
    GrpcCase(name="not retried, internal", scripts=(trailers_only(13), FINE), calls=1, retries=2),
    GrpcCase(
        name="retried, refused stream", scripts=((host.reset(ErrorCodes.REFUSED_STREAM),), FINE), calls=1, retries=2
    ),
    GrpcCase(name="not retried, reset", scripts=((host.reset(ErrorCodes.CANCEL),), FINE), calls=1, retries=2),
    GrpcCase(name="retried, going away", scripts=((host.go_away(0), host.hang_up), FINE), calls=1, retries=2),
)
