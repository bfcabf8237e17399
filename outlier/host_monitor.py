"""One host's results and what the detector made of them.

Counts, and says when a run of failures has reached its threshold; what follows is the detector's to decide. The methods
`put_*` run once or twice per request, so a success costs a few attribute writes.
Ports `DetectorHostMonitorImpl` (Envoy, source/common/upstream/outlier_detection_impl.cc).
"""

from collections.abc import Callable
from typing import Final

from outlier.accumulator import SuccessRateAccumulator
from outlier.config import OutlierDetection
from outlier.detection import Detection
from outlier.ejection import EJECTION_RULES, EjectionType
from outlier.releases import Behaviour, EnvoyRelease
from outlier.result import RESULT_TO_HTTP_CODE, Result
from outlier.runtime import Runtime, Settings
from outlier.sources import ListedRandom

_GATEWAY_CODES: Final = frozenset({502, 503, 504})

# An enum member costs a lookup through the class; these are read on every report.
_CONNECT_SUCCESS: Final = Result.LOCAL_ORIGIN_CONNECT_SUCCESS
_CONNECT_SUCCESS_FINAL: Final = Result.LOCAL_ORIGIN_CONNECT_SUCCESS_FINAL
_CONNECT_FAILED: Final = Result.LOCAL_ORIGIN_CONNECT_FAILED
_TIMEOUT: Final = Result.LOCAL_ORIGIN_TIMEOUT
_REQUEST_SUCCESS: Final = Result.EXT_ORIGIN_REQUEST_SUCCESS
_REQUEST_DEGRADED: Final = Result.EXT_ORIGIN_REQUEST_DEGRADED

OnFailure = Callable[["HostMonitor", EjectionType], None]


class HostMonitor:
    """What is known of one host.

    Attributes:
        address: The host's address, `ip:port`.
        ejected: Whether it carries FAILED_OUTLIER_CHECK.
        degraded: Whether it carries DEGRADED_OUTLIER_DETECTION.
        num_ejections: Enforced ejections so far; lost with the host.
        last_ejection_ms: Monotonic time of the last ejection, None before the first.
        last_unejection_ms: Monotonic time of the last return, None before the first.
        num_degradations: Degraded marks so far; `last_degraded_ms` and `last_undegraded_ms` are the times of the last
            mark and of its end.
        consecutive_5xx: Running count; `consecutive_gateway_failure` and `consecutive_local_origin_failure` likewise.
        backoff: Ejection-time multiplier; `degrade_backoff` is that of the degraded mark.
        jitter_ms: Drawn at the last ejection or degraded mark; Envoy keeps both in one field too.
        external: Results of external origin; `local` those of local origin, filled in split mode only.
        last_detection: The newest detection on this host, whatever its outcome.
        last_ejection: The detection that ejected it last.
    """

    __slots__ = (
        "_behaviour",
        "_on_failure",
        "_settings",
        "_split",
        "address",
        "backoff",
        "consecutive_5xx",
        "consecutive_gateway_failure",
        "consecutive_local_origin_failure",
        "degrade_backoff",
        "degraded",
        "ejected",
        "external",
        "jitter_ms",
        "last_degraded_ms",
        "last_detection",
        "last_ejection",
        "last_ejection_ms",
        "last_undegraded_ms",
        "last_unejection_ms",
        "local",
        "num_degradations",
        "num_ejections",
    )

    def __init__(self, address: str, settings: Settings, behaviour: Behaviour, on_failure: OnFailure | None) -> None:
        self.address = address
        self._settings = settings
        self._behaviour = behaviour
        self._on_failure = on_failure
        self._split = self._splits_local_origin
        self.external = SuccessRateAccumulator()
        self.local = SuccessRateAccumulator()
        self.consecutive_5xx = 0
        self.consecutive_gateway_failure = 0
        self.consecutive_local_origin_failure = 0
        self.ejected = False
        self.num_ejections = 0
        self.backoff = 0
        self.jitter_ms = 0
        self.last_ejection_ms: int | None = None
        self.last_unejection_ms: int | None = None
        self.degraded = False
        self.num_degradations = 0
        self.degrade_backoff = 0
        self.last_degraded_ms: int | None = None
        self.last_undegraded_ms: int | None = None
        self.last_detection: Detection | None = None
        self.last_ejection: Detection | None = None

    def __repr__(self) -> str:
        state = "ejected" if self.ejected else "in"
        return f"HostMonitor({self.address}, {state}, 5xx={self.consecutive_5xx}, ejections={self.num_ejections})"

    @property
    def behaviour(self) -> Behaviour:
        """The release's switches that this host is judged by."""
        return self._behaviour

    @property
    def _splits_local_origin(self) -> bool:
        return self._behaviour.split_local_origin and self._settings.config.split_external_local_origin_errors

    @property
    def success_rate(self) -> float:
        """External-origin success rate of the last complete interval, 0-100; -1 when the volume was too small."""
        return self.external.success_rate

    @property
    def local_origin_success_rate(self) -> float:
        """Local-origin success rate of the last complete interval, 0-100; -1 when the volume was too small."""
        return self.local.success_rate

    def put_http_response_code(self, code: int) -> None:
        """Count one answer by its HTTP status; 500-599 are failures, everything else a success."""
        external = self.external
        external.total += 1
        if 500 <= code <= 599:
            self._put_5xx(code)
        else:
            external.success += 1
            self.consecutive_5xx = 0
            self.consecutive_gateway_failure = 0

    def put_result(self, result: Result, code: int | None = None) -> None:
        """Count one outcome.

        Args:
            result: What happened.
            code: The HTTP status that goes with it. Without split mode it replaces the one `result` stands for, so
                that a timeout reported with 204 is a success.
        """
        if self._split:
            self._put_split(result, code)
            return
        if code is None:
            code = RESULT_TO_HTTP_CODE[result]
            if code is None:
                return
        if result is _REQUEST_DEGRADED:
            self._put_degraded()
        external = self.external
        external.total += 1
        if 500 <= code <= 599:
            self._put_5xx(code)
        else:
            external.success += 1
            self.consecutive_5xx = 0
            self.consecutive_gateway_failure = 0

    def put_response_time(self, ms: int) -> None:
        """Accept a response time and do nothing with it, as Envoy does."""

    def reset_consecutive(self) -> None:
        """Start all runs of failures afresh, as a return from ejection does."""
        self.consecutive_5xx = 0
        self.consecutive_gateway_failure = 0
        self.consecutive_local_origin_failure = 0

    def on_config_update(self) -> None:
        """Follow the detector's new settings; what was counted stays, unless split mode has ended.

        A threshold is met by equality, so a run that is as long as a lowered one would pass it for ever: it is cut to
        one short of it.
        """
        self._split = self._splits_local_origin
        if not self._split:
            self.local = SuccessRateAccumulator()
            self.consecutive_local_origin_failure = 0
        for rule in EJECTION_RULES.values():
            if rule.run is not None:
                threshold = self._settings.value(rule.threshold)
                if 0 < threshold <= getattr(self, rule.run):
                    setattr(self, rule.run, threshold - 1)

    def detach(self) -> None:
        """Forget the detector: from now on reports are counted, but lead to nothing."""
        self._on_failure = None

    def _put_5xx(self, code: int) -> None:
        """Lengthen the runs; the gateway run is examined first, and a threshold is met by equality."""
        on_failure = self._on_failure
        if on_failure is None:
            return
        if code in _GATEWAY_CODES:
            self.consecutive_gateway_failure += 1
            if self.consecutive_gateway_failure == self._settings.value("consecutive_gateway_failure"):
                on_failure(self, EjectionType.CONSECUTIVE_GATEWAY_FAILURE)
        else:
            self.consecutive_gateway_failure = 0
        self.consecutive_5xx += 1
        if self.consecutive_5xx == self._settings.value("consecutive_5xx"):
            on_failure(self, EjectionType.CONSECUTIVE_5XX)

    def _put_split(self, result: Result, code: int | None) -> None:
        """Count a result where local and external origin are kept apart (`putResultWithLocalExternalSplit`)."""
        if result is _CONNECT_SUCCESS or result is _CONNECT_SUCCESS_FINAL:
            self._put_local_success()
        elif result is _CONNECT_FAILED or result is _TIMEOUT:
            self._put_local_failure()
        elif result is _REQUEST_DEGRADED:
            self._put_degraded()
            self.put_http_response_code(200 if code is None else code)
        else:
            # A bare failure is 503 here and 500 when not split: it counts as a gateway's.
            implied = 200 if result is _REQUEST_SUCCESS else 503
            if not self._behaviour.split_keeps_code:
                code = implied
                if result is _REQUEST_SUCCESS:
                    self._put_local_success()
            self.put_http_response_code(implied if code is None else code)

    def _put_local_success(self) -> None:
        self.local.total += 1
        self.local.success += 1
        self.consecutive_local_origin_failure = 0

    def _put_local_failure(self) -> None:
        self.local.total += 1
        if self._on_failure is None:
            return
        self.consecutive_local_origin_failure += 1
        if self.consecutive_local_origin_failure == self._settings.value("consecutive_local_origin_failure"):
            self._on_failure(self, EjectionType.CONSECUTIVE_LOCAL_ORIGIN_FAILURE)

    def _put_degraded(self) -> None:
        if self._on_failure is not None and not self.degraded:
            self._on_failure(self, EjectionType.DEGRADED)


class _NullMonitor(HostMonitor):
    """The monitor of a host without a detector: never ejected, no rate, deaf."""

    __slots__ = ()

    def put_http_response_code(self, code: int) -> None:
        """Do nothing."""

    def put_result(self, result: Result, code: int | None = None) -> None:
        """Do nothing."""


NULL_MONITOR: Final[HostMonitor] = _NullMonitor(
    "", Settings(OutlierDetection(), Runtime(), ListedRandom()), EnvoyRelease.V1_40.behaviour, None
)
