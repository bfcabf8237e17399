"""One ejection or unejection as a record, and its line in Envoy's event log.

The record keeps exact numbers and the host; the line shows what Envoy shows, in the release's format, whole percents
and all.
Ports `EventLoggerImpl` (Envoy, source/common/upstream/outlier_detection_impl.cc) and `OutlierDetectionEvent`
(api/envoy/data/cluster/v3/outlier_detection_event.proto).
"""

import datetime as dt
import enum
import json
from collections.abc import Callable
from typing import Any

import attrs

from outlier.detection import Detection, FailurePercentageEvidence, Outcome, SuccessRateEvidence, Unejection
from outlier.ejection import EJECTION_RULES, EjectionType
from outlier.host_monitor import HostMonitor
from outlier.releases import EventLogFormat
from outlier.sources import TimeSource


class Action(enum.Enum):
    """What the line says happened."""

    EJECT = "EJECT"
    UNEJECT = "UNEJECT"


@attrs.frozen(kw_only=True)
class EjectionEvent:
    """A line of the event log before it is a line.

    Attributes:
        action: EJECT is logged for detections that were not enforced too.
        type: What the host was ejected for. On UNEJECT this is the type that ended; Envoy's line says CONSECUTIVE_5XX
            there.
        system_ms: Wall clock, milliseconds since 1970.
        secs_since_last_action: Whole seconds since the host's last action of the other kind; None if there was none.
        cluster_name: The cluster.
        upstream_url: The host's address, `ip:port`.
        num_ejections: Of this host, this one included if enforced.
        enforced: Whether the host is out now; False on UNEJECT.
        log_format: How `to_json` writes.
        monitor: The host's monitor.
        detection: Why, on EJECT.
        unejection: Why, on UNEJECT.
    """

    action: Action
    type: EjectionType
    system_ms: int
    secs_since_last_action: int | None
    cluster_name: str
    upstream_url: str
    num_ejections: int
    enforced: bool
    log_format: EventLogFormat
    monitor: HostMonitor = attrs.field(eq=False, repr=False)
    detection: Detection | None = None
    unejection: Unejection | None = None

    def to_json(self) -> str:
        """Return Envoy's line, without the newline."""
        if self.log_format is EventLogFormat.HAND_MADE:
            return self._hand_made()
        timing: dict[str, Any] = {"timestamp": timestamp(self.system_ms)}
        if self.secs_since_last_action is not None:
            timing["secs_since_last_action"] = str(self.secs_since_last_action)
        ejected = self.action is Action.EJECT
        # Unset in Envoy's message on UNEJECT, so the JSON shows the enum's zero: a bug that readers of the log know.
        line: dict[str, Any] = {"type": (self.type if ejected else EjectionType.CONSECUTIVE_5XX).value}
        if self.log_format is EventLogFormat.FIELD_ORDER:
            line |= timing
        line |= {
            "cluster_name": self.cluster_name,
            "upstream_url": self.upstream_url,
            "action": self.action.value,
            "num_ejections": self.num_ejections,
            "enforced": self.enforced,
        }
        if ejected:
            line |= self._evidence_message()
        if self.log_format is EventLogFormat.TIMESTAMP_LAST:
            line |= timing
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False)

    def _evidence_message(self) -> dict[str, dict[str, int]]:
        """Return the one `eject_*_event` of the line; rates are cut to whole percents, as in Envoy."""
        match self.detection.evidence if self.detection else None:
            case SuccessRateEvidence() as found:
                return {
                    "eject_success_rate_event": {
                        "host_success_rate": int(found.success_rate),
                        "cluster_average_success_rate": int(found.average),
                        "cluster_success_rate_ejection_threshold": int(found.threshold),
                    }
                }
            case FailurePercentageEvidence() as found:
                return {"eject_failure_percentage_event": {"host_success_rate": int(100.0 - found.failure_percentage)}}
            case _:
                return {"eject_consecutive_event": {}}

    def _hand_made(self) -> str:
        """Return the line of 1.6-1.9: `num_ejections` is quoted on "eject" only, -1 means never."""
        seconds = -1 if self.secs_since_last_action is None else self.secs_since_last_action
        head = (
            f'{{"time": "{timestamp(self.system_ms, always_ms=True)}", "secs_since_last_action": "{seconds}", '
            f'"cluster": "{self.cluster_name}", "upstream_url": "{self.upstream_url}", '
        )
        if self.action is Action.UNEJECT:
            return f'{head}"action": "uneject", "num_ejections": {self.num_ejections}}}'
        line = (
            f'{head}"action": "eject", "type": "{EJECTION_RULES[self.type].hand_made_name}", '
            f'"num_ejections": "{self.num_ejections}", "enforced": "{str(self.enforced).lower()}"'
        )
        found = self.detection.evidence if self.detection else None
        if isinstance(found, SuccessRateEvidence):
            line += (
                f', "host_success_rate": "{found.success_rate:g}", '
                f'"cluster_average_success_rate": "{found.average:g}", '
                f'"cluster_success_rate_ejection_threshold": "{found.threshold:g}"'
            )
        return line + "}"


class EventLog:
    """Makes the events of one cluster and hands them on; without a receiver it makes none.

    Times since the last action come from the monotonic clock, timestamps from the wall clock.
    """

    __slots__ = ("_cluster_name", "_log_format", "_on_event", "_time_source")

    def __init__(
        self,
        cluster_name: str,
        time_source: TimeSource,
        log_format: EventLogFormat,
        on_event: Callable[[EjectionEvent], None] | None,
    ) -> None:
        self._cluster_name = cluster_name
        self._time_source = time_source
        self._log_format = log_format
        self._on_event = on_event

    def log_eject(self, monitor: HostMonitor, detection: Detection) -> None:
        """Tell of a detection that the limit allowed, enforced or not; the last action is the host's return."""
        if self._on_event is not None:
            self._on_event(
                EjectionEvent(
                    action=Action.EJECT,
                    type=detection.type,
                    system_ms=self._time_source.system_ms(),
                    secs_since_last_action=_seconds_between(monitor.last_unejection_ms, detection.at_ms),
                    cluster_name=self._cluster_name,
                    upstream_url=monitor.address,
                    num_ejections=monitor.num_ejections,
                    enforced=detection.outcome is not Outcome.NOT_ENFORCED,
                    log_format=self._log_format,
                    monitor=monitor,
                    detection=detection,
                )
            )

    def log_uneject(self, monitor: HostMonitor, unejection: Unejection) -> None:
        """Tell of a return; the last action is the host's ejection, also where a degraded mark ends."""
        if self._on_event is not None:
            self._on_event(
                EjectionEvent(
                    action=Action.UNEJECT,
                    type=unejection.type,
                    system_ms=self._time_source.system_ms(),
                    secs_since_last_action=_seconds_between(monitor.last_ejection_ms, unejection.at_ms),
                    cluster_name=self._cluster_name,
                    upstream_url=monitor.address,
                    num_ejections=monitor.num_ejections,
                    enforced=False,
                    log_format=self._log_format,
                    monitor=monitor,
                    unejection=unejection,
                )
            )


def _seconds_between(earlier_ms: int | None, later_ms: int) -> int | None:
    return None if earlier_ms is None else (later_ms - earlier_ms) // 1000


def timestamp(system_ms: int, *, always_ms: bool = False) -> str:
    """Return RFC 3339 UTC with milliseconds; a fraction of .000 is left out unless `always_ms`.

    >>> timestamp(1545123600000), timestamp(1795997541894)
    ('2018-12-18T09:00:00Z', '2026-11-30T00:12:21.894Z')
    """
    seconds, ms = divmod(system_ms, 1000)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    fraction = f".{ms:03d}" if ms or always_ms else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
