"""Headers of which Envoy keeps one line, joining further ones by commas; of any other each line stays for itself.

What arrives is forwarded line by line here, which means the same to a reader; the difference shows where a value is
compared, quoted or appended to. Found out by sending each of them twice through Envoy 1.40: its inline headers
(source/common/http/header_map_impl.cc) with the filters of a sidecar.
"""

from proxy.codec.headers import HeaderList

JOINED_REQUEST_HEADERS = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"access-control-request-headers",
        b"access-control-request-method",
        b"access-control-request-private-network",
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-type",
        b"grpc-accept-encoding",
        b"grpc-timeout",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"origin",
        b"pragma",
        b"proxy-status",
        b"referer",
        b"user-agent",
        b"via",
        b"x-client-trace-id",
        b"x-envoy-attempt-count",
        b"x-envoy-decorator-operation",
        b"x-envoy-downstream-service-cluster",
        b"x-envoy-downstream-service-node",
        b"x-envoy-external-address",
        b"x-envoy-is-timeout-retry",
        b"x-envoy-original-host",
        b"x-envoy-original-path",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-request-id",
    )
)

JOINED_RESPONSE_HEADERS = frozenset(
    (
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"access-control-allow-private-network",
        b"access-control-expose-headers",
        b"access-control-max-age",
        b"age",
        b"cache-control",
        b"content-encoding",
        b"content-type",
        b"date",
        b"etag",
        b"expires",
        b"grpc-message",
        b"grpc-status",
        b"last-modified",
        b"location",
        b"proxy-status",
        b"server",
        b"vary",
        b"via",
        b"x-envoy-attempt-count",
        b"x-envoy-decorator-operation",
        b"x-envoy-degraded",
        b"x-envoy-immediate-health-check-fail",
        b"x-envoy-ratelimited",
        b"x-envoy-upstream-canary",
        b"x-envoy-upstream-healthchecked-cluster",
        b"x-envoy-upstream-service-time",
        b"x-request-id",
    )
)


def header_values(headers: HeaderList, name: bytes, joined: frozenset[bytes]) -> list[bytes]:
    """Return the values of `name` (lower case), one for each line, or the only one of a joined header."""
    values = [value for key, value in headers if key == name]
    return [b",".join(values)] if len(values) > 1 and name in joined else values


def append_header(headers: HeaderList, name: bytes, value: bytes, joined: frozenset[bytes]) -> None:
    """Add a line, or the value behind that of a joined header."""
    if name in joined:
        for index, (key, present) in enumerate(headers):
            if key == name:
                headers[index] = (name, b"%b,%b" % (present, value))
                return
    headers.append((name, value))
