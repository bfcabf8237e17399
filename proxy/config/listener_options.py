"""What the listeners of a sidecar allow their clients, and how they are secured."""

from pathlib import Path

import attrs

from proxy.config.option import described, integer, read_path, seconds

_DAY_S = 86_400
_MOST_CONNECTIONS = 10_000_000


@attrs.frozen(kw_only=True)
class ListenerOptions:
    """Options of every listener; 0 is no limit. The defaults are those of Envoy's connection manager."""

    idle_timeout_ms: int = attrs.field(
        default=3_600_000,
        metadata=described(
            seconds(_DAY_S), "SECONDS", "a client's connection without requests is ended; 0 never", name="idle_timeout"
        ),
    )
    stream_idle_timeout_ms: int = attrs.field(
        default=300_000,
        metadata=described(
            seconds(_DAY_S),
            "SECONDS",
            "a request on which neither side sends is ended, with 504 or 408; 0 never",
            name="stream_idle_timeout",
        ),
    )
    max_connection_duration_ms: int = attrs.field(
        default=0,
        metadata=described(
            seconds(_DAY_S),
            "SECONDS",
            "a client's connection ends once it is as old as that; 0 never",
            name="max_connection_duration",
        ),
    )
    max_requests_per_connection: int = attrs.field(
        default=0,
        metadata=described(
            integer(0, 2**31 - 1), "COUNT", "a client's connection ends after so many requests; 0 is no limit"
        ),
    )
    max_connections: int = attrs.field(
        default=0,
        metadata=described(
            integer(0, _MOST_CONNECTIONS),
            "COUNT",
            "clients that each listener serves at once; further ones are closed; 0 is no limit",
        ),
    )
    tls_certificate: Path | None = attrs.field(
        default=None,
        metadata=described(read_path, "FILE", "listeners speak TLS, with this certificate (PEM)", is_path=True),
    )
    tls_key: Path | None = attrs.field(
        default=None, metadata=described(read_path, "FILE", "key of that certificate (PEM)", is_path=True)
    )
    tls_client_ca: Path | None = attrs.field(
        default=None,
        metadata=described(read_path, "FILE", "clients must show a certificate of this authority (PEM)", is_path=True),
    )

    @property
    def tls_problem(self) -> tuple[str, str] | None:
        """Which TLS option stands without the one it needs, and the rule; None when they go together."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            given = "tls_certificate" if self.tls_key is None else "tls_key"
            return given, "needs tls_certificate and tls_key, both"
        if self.tls_client_ca is not None and self.tls_certificate is None:
            return "tls_client_ca", "needs tls_certificate and tls_key"
        return None
