"""One line per request, as JSON: what was asked, what was answered, by whom, and why."""

import json
from datetime import UTC, datetime

from outlier import TimeSource
from proxy.codec.headers import get_header
from proxy.http.client import ClientRequest
from proxy.log_file import LogFile
from proxy.response_flags import ResponseFlag, flags_text
from proxy.router.exchange import Exchange

_encode = json.JSONEncoder(separators=(",", ":")).encode


class AccessLog:
    """Writes the canonical line of each exchange that has ended.

    The keys are Envoy's command operators in snake case; `duration_ms` runs from the request's head to the end,
    `response_code` is 0 when the client was gone before a response.
    """

    def __init__(self, file: LogFile, time_source: TimeSource) -> None:
        self._file = file
        self._time_source = time_source
        self._second: int | None = None
        self._second_text = ""  # formatted once a second

    def __call__(self, request: ClientRequest, exchange: Exchange) -> None:
        """Write the line of `exchange`."""
        head = exchange.head
        now_ms = self._time_source.system_ms()
        duration_ms = request.duration_ms
        started_ms = now_ms - duration_ms
        if started_ms // 1000 != self._second:
            self._second = started_ms // 1000
            self._second_text = datetime.fromtimestamp(self._second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        flags = (*exchange.flags, ResponseFlag.EJECTED_UPSTREAM) if exchange.in_panic else exchange.flags
        request_id = get_header(head.headers, b"x-request-id")
        line = {
            "start_time": f"{self._second_text}.{started_ms % 1000:03}Z",
            "method": head.method.decode("latin-1") or None,
            "path": (get_header(head.headers, b"x-envoy-original-path") or head.path).decode("latin-1") or None,
            "authority": head.authority.decode("latin-1") or None,
            "protocol": request.protocol,
            "response_code": exchange.status,
            "response_flags": flags_text(flags),
            "response_code_details": exchange.details,
            "bytes_received": request.bytes_received,
            "bytes_sent": request.bytes_sent,
            "duration_ms": duration_ms,
            "upstream_cluster": exchange.cluster.name if exchange.cluster is not None else None,
            "upstream_host": exchange.host.address if exchange.host is not None else None,
            "attempt": exchange.attempts,
            "request_id": request_id.decode("latin-1") if request_id is not None else None,
            "downstream_remote_address": request.remote_address,
        }
        self._file.write_line(_encode(line))
