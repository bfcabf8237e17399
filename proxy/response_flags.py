"""Why a request ended as it did, in the words of Envoy's access log."""

import enum


class ResponseFlag(enum.Enum):
    """Envoy's `%RESPONSE_FLAGS%`, and one that Envoy does not have."""

    NO_HEALTHY_UPSTREAM = "UH"
    UPSTREAM_CONNECTION_FAILURE = "UF"
    UPSTREAM_OVERFLOW = "UO"
    NO_ROUTE_FOUND = "NR"
    UPSTREAM_RETRY_LIMIT_EXCEEDED = "URX"
    NO_CLUSTER_FOUND = "NC"
    UPSTREAM_REQUEST_TIMEOUT = "UT"
    UPSTREAM_CONNECTION_TERMINATION = "UC"
    UPSTREAM_REMOTE_RESET = "UR"
    UPSTREAM_PROTOCOL_ERROR = "UPE"
    DOWNSTREAM_CONNECTION_TERMINATION = "DC"
    DOWNSTREAM_PROTOCOL_ERROR = "DPE"
    DOWNSTREAM_REMOTE_RESET = "DR"
    DELAY_INJECTED = "DI"
    FAULT_INJECTED = "FI"
    STREAM_IDLE_TIMEOUT = "SI"
    OVERLOAD_MANAGER = "OM"
    EJECTED_UPSTREAM = "EJ"  # ours: the last host asked was ejected, and panic sent the request to it


def flags_text(flags: tuple[ResponseFlag, ...]) -> str:
    """Return the flags joined by commas in the order in which they were set, as Envoy does; `-` when there are none."""
    return ",".join(flag.value for flag in flags) or "-"
