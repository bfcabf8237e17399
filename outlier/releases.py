"""Which rules applied in which Envoy release: one table of named switches.

The engine never compares versions. It asks a switch, and each switch names the Envoy change that turned it. A release
between two columns is `attrs.evolve(EnvoyRelease.V1_27.behaviour, jitter=False)`.
From Envoy's changelogs and the editions of source/common/upstream/outlier_detection_impl.cc of 2018, 2023 and 2026.
"""

import enum

import attrs


class EventLogFormat(enum.Enum):
    """Shape of one line of the outlier event log."""

    HAND_MADE = "hand-made"  # until 1.9: written with a format string, most numbers quoted
    TIMESTAMP_LAST = "timestamp last"  # 1.10.0 on: proto JSON, wrapper and timestamp fields printed at the end
    FIELD_ORDER = "field order"  # since about 1.29: proto JSON in order of field numbers


@attrs.frozen(kw_only=True)
class Behaviour:
    """The switches; each comment names the release that changed it and what was before."""

    # 1.28.0: `100 * (ejected + 1) / hosts <= max`. Before: `100 * ejected / hosts < max`, so the first host always
    # went.
    limit_counts_this_ejection: bool
    # Before about 1.17 the limit read the exported gauge, so whoever moved the gauge moved the limit.
    limit_reads_gauge: bool
    # 1.31.0: the field `always_eject_one_host`.
    always_eject_one_host: bool

    # 1.17.0: ejection lasts `min(base * multiplier, max)`. Before: base times all ejections ever, without a cap.
    capped_backoff: bool
    # 1.28.0: the multiplier falls once a host has been back for a whole interval, after the sweep's detectors.
    # Before: at every sweep and ahead of the detectors, so that a host which the sweep ejects never backs off.
    decay_needs_full_interval: bool
    # 1.22.0: `max_ejection_time_jitter`.
    jitter: bool

    # 1.11.0: `split_external_local_origin_errors`.
    split_local_origin: bool
    # 1.36.0: split mode uses the status that comes with a result. Before: 503 or 200 whatever the status, and a
    # successful request counted as a local-origin success too.
    split_keeps_code: bool
    # 1.12.0: failure-percentage ejection, and success rates shown from the smaller of the two request volumes.
    failure_percentage: bool
    # Before 1.12.0 a host without traffic passed a request volume of 0; its rate was 0/0 and nobody was judged.
    idle_hosts_have_rate: bool

    # 1.26.0: a finished active health check unejects a host that has not failed active health checking.
    active_hc_unejects: bool
    # 1.28.0: the field `successful_active_health_check_uneject_host` turns that off.
    active_hc_uneject_configurable: bool
    # 1.31.0: only a healthy check unejects. Before: any finished check, a failing one too.
    active_hc_must_be_healthy: bool
    # 1.38.0: `detect_degraded_hosts`.
    degraded_hosts: bool

    # 1.11.0: the HTTP router reports a ready connection and tells resets and timeouts apart from answers. Before:
    # status codes only.
    router_reports_results: bool
    # 1.36.0: the HTTP router reports a response as result and status. Before: as a status.
    router_reports_response_result: bool
    # 1.36.0: `error_matcher`.
    error_matcher: bool
    # 1.26.0 stopped charging the host for a circuit breaker's overflow.
    overflow_is_failure: bool
    # The router of 2018 charged a route timeout with 504 even when the response had begun.
    late_timeout_is_failure: bool

    event_log_format: EventLogFormat


_V1_8 = Behaviour(
    limit_counts_this_ejection=False,
    limit_reads_gauge=True,
    always_eject_one_host=False,
    capped_backoff=False,
    decay_needs_full_interval=False,
    jitter=False,
    split_local_origin=False,
    split_keeps_code=False,
    failure_percentage=False,
    idle_hosts_have_rate=True,
    active_hc_unejects=False,
    active_hc_uneject_configurable=False,
    active_hc_must_be_healthy=False,
    degraded_hosts=False,
    router_reports_results=False,
    router_reports_response_result=False,
    error_matcher=False,
    overflow_is_failure=True,
    late_timeout_is_failure=True,
    event_log_format=EventLogFormat.HAND_MADE,
)

_V1_27 = attrs.evolve(
    _V1_8,
    limit_reads_gauge=False,
    capped_backoff=True,
    jitter=True,
    split_local_origin=True,
    failure_percentage=True,
    idle_hosts_have_rate=False,
    active_hc_unejects=True,
    router_reports_results=True,
    overflow_is_failure=False,
    late_timeout_is_failure=False,
    event_log_format=EventLogFormat.TIMESTAMP_LAST,
)

_V1_40 = attrs.evolve(
    _V1_27,
    limit_counts_this_ejection=True,
    always_eject_one_host=True,
    decay_needs_full_interval=True,
    split_keeps_code=True,
    active_hc_uneject_configurable=True,
    active_hc_must_be_healthy=True,
    degraded_hosts=True,
    router_reports_response_result=True,
    error_matcher=True,
    event_log_format=EventLogFormat.FIELD_ORDER,
)


class EnvoyRelease(enum.Enum):
    """An Envoy release whose detection can be asked for; the value is its version.

    1.8 stands for 1.6-1.10 (Istio 1.0), 1.27 for 1.26-1.27, 1.40 for 1.38-1.40.
    """

    V1_8 = "1.8"
    V1_27 = "1.27"
    V1_40 = "1.40"

    @property
    def behaviour(self) -> Behaviour:
        """The release's column of the table."""
        return _BEHAVIOURS[self]


_BEHAVIOURS = {EnvoyRelease.V1_8: _V1_8, EnvoyRelease.V1_27: _V1_27, EnvoyRelease.V1_40: _V1_40}
