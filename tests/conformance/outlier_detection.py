"""The family `outlier-detection`: scenarios, configurations, event lines and router reports, by era of Envoy."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from outlier import (
    NULL_MONITOR,
    Action,
    ConfigError,
    Detection,
    Detector,
    EjectionEvent,
    EjectionType,
    EnvoyRelease,
    HostMonitor,
    Outcome,
    OutlierDetection,
    Result,
    Scenario,
    SeededRandom,
    SimulatedTime,
    simulate,
)
from outlier.detection import FailurePercentageEvidence, SuccessRateEvidence
from outlier.reporting import report_connected, report_reset, report_response, report_timeout
from outlier.scenario import ERAS
from outlier.success_rate import ejection_threshold
from tests.conformance.runner import Case, Family, Mismatch


def _expect(expected: object, actual: object, where: str = "") -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


def _scenario(case: Mapping[str, Any], release: EnvoyRelease) -> None:
    unmet = simulate(Scenario.from_dict(case), release).unmet
    if unmet:
        first = unmet[0]
        raise Mismatch(first.expected, first.actual, f"{first.path} at {first.at_ms} ms ({len(unmet)} unmet)")


def _config(case: Mapping[str, Any], release: EnvoyRelease) -> None:
    try:
        config = OutlierDetection.from_fields(case["config"])
    except ConfigError as exc:
        if case.get("expect_error", "\0") not in str(exc):
            raise Mismatch(case.get("expect_error", "no error"), str(exc)) from exc
        return
    if "expect_error" in case:
        raise Mismatch(case["expect_error"], "no error")
    expected = case["expect_config"]
    _expect(expected, {name: getattr(config, name) for name in expected})
    if "timer_armed_ms" in case:
        _expect(case["timer_armed_ms"], _detector(config, release).interval_ms, "timer")


def _detector(config: OutlierDetection, release: EnvoyRelease) -> Detector:
    return Detector(config, cluster_name="c", time_source=SimulatedTime(), random=SeededRandom(1), release=release)


def _factory(case: Mapping[str, Any], release: EnvoyRelease) -> None:
    detector = _detector(OutlierDetection.from_fields(case["input"]["outlier_detection"]), release)
    _expect(case["expect"]["detector"], isinstance(detector, Detector))


def _null_monitor(case: Mapping[str, Any], _release: EnvoyRelease) -> None:
    actual = {
        "num_ejections": NULL_MONITOR.num_ejections,
        "last_ejection_time": NULL_MONITOR.last_ejection_ms,
        "last_unejection_time": NULL_MONITOR.last_unejection_ms,
        "success_rate": NULL_MONITOR.success_rate,
    }
    _expect(case["expect"], actual)


def _sr_threshold(case: Mapping[str, Any], _release: EnvoyRelease) -> None:
    found = ejection_threshold(case["rates"], round(case["stdev_factor"] * 1000))
    _expect(case["expect"], {"average": found.average, "threshold": found.threshold})


def _event_json(case: Mapping[str, Any], release: EnvoyRelease) -> None:
    given = case["event"]
    ejection_type = EjectionType(given.get("type", "CONSECUTIVE_5XX"))
    evidence: SuccessRateEvidence | FailurePercentageEvidence | None = None
    if "average" in given:
        evidence = SuccessRateEvidence(
            given["host_success_rate"], 0, 1, given["average"], 0.0, given["threshold"], 1900, 1
        )
    elif "host_success_rate" in given:
        evidence = FailurePercentageEvidence(100.0 - given["host_success_rate"], 0, 1, 85)
    monitor = _detector(OutlierDetection(), release).add_host(given["address"])
    event = EjectionEvent(
        action=Action(given["action"]),
        type=ejection_type,
        system_ms=given["system_time_ms"],
        secs_since_last_action=given.get("secs_since_last_action"),
        cluster_name=given["cluster"],
        upstream_url=given["address"],
        num_ejections=given["num_ejections"],
        enforced=given.get("enforced", False),
        log_format=release.behaviour.event_log_format,
        monitor=monitor,
        detection=Detection(ejection_type, 0, Outcome.EJECTED, evidence) if given["action"] == "EJECT" else None,
    )
    _expect(case["line"], event.to_json())


class _RecordingMonitor(HostMonitor):
    """Remembers the reports it gets and counts nothing."""

    __slots__ = ("reports",)

    def __init__(self, release: EnvoyRelease) -> None:
        config = OutlierDetection()
        super().__init__("", _detector(config, release).settings, release.behaviour, None)
        self.reports: list[dict[str, object]] = []

    def put_result(self, result: Result, code: int | None = None) -> None:
        self.reports.append({"result": result.name} | ({} if code is None else {"code": code}))

    def put_http_response_code(self, code: int) -> None:
        self.reports.append({"code": code})


def _respond(monitor: HostMonitor, given: Mapping[str, Any]) -> None:
    report_response(
        monitor,
        given["status"],
        grpc_status=given.get("grpc_status_header") if given.get("grpc_request") else None,
        matched={None: None, "match": True, "no_match": False}[given.get("error_matcher")],
        degraded="x-envoy-degraded" in given.get("headers", {}),
    )


def _attempt(monitor: HostMonitor, given: Mapping[str, Any]) -> None:
    """Report what one attempt with this fate reports."""
    match given["event"]:
        case "circuit_breaker_overflow":
            return  # no host was asked
        case "connect_failure":
            report_reset(monitor)
            return
    report_connected(monitor)
    match given["event"]:
        case "response":
            _respond(monitor, given)
        case "reset_before_headers" | "protocol_error":
            report_reset(monitor)
        case "reset_after_headers":
            _respond(monitor, given)
            report_reset(monitor)
        case "global_timeout" | "per_try_timeout":
            report_timeout(monitor, alt_response=given.get("alt_response", False))
        case "global_timeout_after_headers":
            _respond(monitor, given)
            report_timeout(monitor, responding=True)
        case "downstream_disconnect" | "max_stream_duration":
            pass
        case event:
            raise ValueError(f"unknown event {event}")


def _router_report(case: Mapping[str, Any], release: EnvoyRelease) -> None:
    monitor = _RecordingMonitor(release)
    for _ in range(case["input"].get("attempts", 1)):
        _attempt(monitor, case["input"])
    _expect(case["reports"], monitor.reports)


_KINDS: Mapping[str, Callable[[Mapping[str, Any], EnvoyRelease], None]] = {
    "scenario": _scenario,
    "config": _config,
    "factory": _factory,
    "null_monitor": _null_monitor,
    "sr_threshold": _sr_threshold,
    "event_json": _event_json,
    "router_report": _router_report,
}


def _recognises(document: Any) -> bool:
    cases = document.get("cases") if isinstance(document, dict) else None
    return bool(cases) and all("eras" in case for case in cases)


def _cases(_path: Path, document: Any) -> Iterator[Case]:
    for case in document["cases"]:
        run = _KINDS[case.get("kind", "scenario")]
        for era in case["eras"]:
            yield Case(f"{case['id']}[{era}]", partial(run, case, ERAS[era]))


FAMILY = Family(name="outlier-detection", recognises=_recognises, cases=_cases)
