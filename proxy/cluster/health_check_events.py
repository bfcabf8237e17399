"""Where the events of active health checks go: Envoy's event log files, and the sidecar's own log."""

from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from proxy.config.health_check import HealthCheckRule
from proxy.log_file import LogFile
from proxy.upstream.health_checker_events import HealthCheckEvent
from proxy.upstream.health_checker_session import EventKind

log = structlog.get_logger()

_HOST_FAILED = "health.host_failed"
_MESSAGES = {
    EventKind.EJECT_UNHEALTHY: _HOST_FAILED,
    EventKind.ADD_HEALTHY: "health.host_passed",
    EventKind.FAILURE: "health.check_failed",
    EventKind.DEGRADED: "health.host_degraded",
    EventKind.NO_LONGER_DEGRADED: "health.host_undegraded",
    EventKind.SUCCESS: "health.check_passed",
}
_SINGLE_CHECKS = frozenset({EventKind.FAILURE, EventKind.SUCCESS})


class HealthCheckEvents:
    """Takes the events of all clusters.

    Args:
        rules: Whose health checks name files; each file is opened once.
        publish: Takes `kind` and facts of each change of a host's health, for those who watch.

    Raises:
        LogFileError: A file cannot be opened.
    """

    def __init__(self, rules: Iterable[HealthCheckRule] = (), publish: Callable[..., object] | None = None) -> None:
        self._publish = publish
        paths = {rule.health_check.event_log_path for rule in rules}
        self._files = {path: LogFile(path) for path in sorted(path for path in paths if path is not None)}

    @property
    def files(self) -> tuple[LogFile, ...]:
        """The files, to be closed or opened again with the others."""
        return tuple(self._files.values())

    def write(self, path: Path | None, event: HealthCheckEvent) -> None:
        """Write one event; `path` is the file that its health check names."""
        if path is not None:
            self._files[path].write_line(event.to_json())
        incident = event.incident
        facts = {"cluster_name": event.cluster_name, "upstream_url": event.address}
        if incident.failure is not None:
            facts["failure_type"] = incident.failure.value
        message = _MESSAGES[incident.kind]
        if incident.kind is EventKind.FAILURE and incident.first_check:
            message = _HOST_FAILED  # in Envoy's words a failed check, but it is why the host is out
        elif incident.kind in _SINGLE_CHECKS:
            log.debug(message, **facts)
            return
        if message == _HOST_FAILED:
            log.warning(message, **facts)
        else:
            log.info(message, **facts)
        if self._publish is not None:
            self._publish("health", event=incident.kind.value, **facts)
