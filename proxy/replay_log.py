"""One line of an access log as what happened to a host: which, when, and whose fault.

Reads the sidecar's own lines and Istio's JSON ones. Only the host of the last attempt is in a line, so earlier attempts
of a retried request are unknown here.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from outlier import HostMonitor
from outlier.reporting import report_connected, report_reset, report_response, report_timeout

_CONNECT_FAILURES: Final = frozenset({"UF"})
_RESETS: Final = frozenset({"UC", "UR", "UPE"})
_TIMEOUTS: Final = frozenset({"UT"})
# A reply of the proxy's own, or a client that left: nothing is known of the host (docs/parity-data-plane.md).
_NOT_THE_HOST: Final = frozenset({"UO", "NR", "UH", "NC", "DPE", "FI", "OM", "SI", "RL", "UAEX", "LR", "LH", "DO"})
_NO_FLAGS: Final = frozenset(("-",))


@attrs.define
class LoggedRequest:
    """One request that was sent to a host, or for which there was none.

    Attributes:
        cluster: The cluster's name.
        host: `host:port`; None when no host was chosen.
        start_ms: When it came, since the epoch.
        end_ms: When its line was written.
        status: What the client got; 0 for nothing.
        flags: Envoy's response flags.
    """

    cluster: str
    host: str | None
    start_ms: int
    end_ms: int
    status: int
    flags: frozenset[str]

    @property
    def failed(self) -> bool:
        """Whether the client got an error that is not its own."""
        return self.status >= 500 or not self.flags.isdisjoint(_RESETS)

    def report(self, monitor: HostMonitor, error_codes: frozenset[int]) -> None:
        """Tell a host's monitor what the router told it then."""
        flags = self.flags
        if flags is not _NO_FLAGS:
            if not flags.isdisjoint(_NOT_THE_HOST) or ("DC" in flags and not self.status):
                return
            if not flags.isdisjoint(_CONNECT_FAILURES):
                report_reset(monitor)
                return
            if not flags.isdisjoint(_TIMEOUTS):
                report_connected(monitor)
                report_timeout(monitor)
                return
            if not flags.isdisjoint(_RESETS):
                report_connected(monitor)
                report_reset(monitor)
                return
        report_connected(monitor)
        report_response(monitor, self.status, matched=self.status in error_codes if error_codes else None)


@attrs.define
class LogReader:
    """Reads a log line by line, in constant memory.

    Attributes:
        path: The file.
        lines: Lines read so far.
        unreadable: Lines that are no JSON object, or lack the time.
        unrouted: Requests for which there was no cluster.
        bytes_read: For progress.
    """

    path: Path
    lines: int = 0
    unreadable: int = 0
    unrouted: int = 0
    bytes_read: int = 0

    def requests(self) -> Iterator[LoggedRequest]:
        """Yield the requests that had a cluster, in the order of the file.

        Raises:
            OSError: The file cannot be read.
        """
        with self.path.open("rb") as file:
            yield from self._requests(file)

    def _requests(self, file: BinaryIO) -> Iterator[LoggedRequest]:
        for line in file:
            self.lines += 1
            self.bytes_read += len(line)
            try:
                data = json.loads(line)
                cluster = data["upstream_cluster"]
                if not cluster or cluster == "-":
                    self.unrouted += 1
                    continue
                yield _request(cluster, data)
            except (ValueError, KeyError, TypeError, AttributeError):
                self.unreadable += 1


def _request(cluster: str, data: Mapping[str, Any]) -> LoggedRequest:
    start_ms = round(datetime.fromisoformat(data["start_time"]).timestamp() * 1000)
    duration_ms = data["duration_ms"] if "duration_ms" in data else data["duration"]
    flags = data["response_flags"]
    host = data["upstream_host"]
    return LoggedRequest(
        cluster.rstrip(";"),  # Istio since 1.24 ends the name so
        host if host and host != "-" else None,
        start_ms,
        start_ms + int(duration_ms),
        int(data["response_code"]),
        _NO_FLAGS if flags in ("-", None, "") else frozenset(flags.split(",")),
    )
