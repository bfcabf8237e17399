"""Where the detectors' events go: Envoy's event log file, and the sidecar's own log."""

import structlog

from outlier import Action, EjectionEvent
from proxy.log_file import LogFile

log = structlog.get_logger()


class OutlierEvents:
    """Takes every event of every cluster; `file` is None without `--event-log`."""

    def __init__(self, file: LogFile | None) -> None:
        self._file = file

    def __call__(self, event: EjectionEvent) -> None:
        """Write one event."""
        if self._file is not None:
            self._file.write_line(event.to_json())
        if event.action is Action.EJECT:
            log.warning(
                "outlier.host_ejected",
                cluster_name=event.cluster_name,
                upstream_url=event.upstream_url,
                type=event.type.name,
                enforced=event.enforced,
                num_ejections=event.num_ejections,
            )
        else:
            log.info(
                "outlier.host_unejected",
                cluster_name=event.cluster_name,
                upstream_url=event.upstream_url,
                num_ejections=event.num_ejections,
            )
