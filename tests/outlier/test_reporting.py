"""The table of router events against reports is in the vectors (31_router_reporting); here are the releases."""

import pytest

from outlier import NULL_MONITOR, EnvoyRelease, HostMonitor
from outlier.reporting import report_connected, report_overflow, report_reset, report_response, report_timeout


@pytest.fixture
def reports(make_cluster, monkeypatch):
    """Report events to a host of a release and return what reached its monitor, results by name."""

    def run(release, report):
        seen = []
        monkeypatch.setattr(HostMonitor, "put_result", lambda self, result, code=None: seen.append((result.name, code)))
        monkeypatch.setattr(HostMonitor, "put_http_response_code", lambda self, code: seen.append(code))
        report(make_cluster(hosts=1, release=release).hosts[0])
        return seen

    return run


EVENTS = {
    "connected": report_connected,
    "200": lambda host: report_response(host, 200),
    "503": lambda host: report_response(host, 503),
    "600": lambda host: report_response(host, 600),
    "499": lambda host: report_response(host, 499),
    "500": lambda host: report_response(host, 500),
    "grpc 14": lambda host: report_response(host, 200, grpc_status=14),
    "matched 404": lambda host: report_response(host, 404, matched=True),
    "matched 503": lambda host: report_response(host, 503, matched=True),
    "unmatched 503": lambda host: report_response(host, 503, matched=False),
    "degraded": lambda host: report_response(host, 200, degraded=True),
    "degraded 500": lambda host: report_response(host, 500, degraded=True),
    "reset": report_reset,
    "timeout": report_timeout,
    "late timeout": lambda host: report_timeout(host, responding=True),
    "alt timeout": lambda host: report_timeout(host, alt_response=True),
    "overflow": report_overflow,
}
S, F, D = "EXT_ORIGIN_REQUEST_SUCCESS", "EXT_ORIGIN_REQUEST_FAILED", "EXT_ORIGIN_REQUEST_DEGRADED"
C, X, T = "LOCAL_ORIGIN_CONNECT_SUCCESS", "LOCAL_ORIGIN_CONNECT_FAILED", "LOCAL_ORIGIN_TIMEOUT"
EXPECTED = {
    #                 1.8     1.27              1.40
    "connected":     ([],    [(C, None)],      [(C, None)]),
    "200":           ([200], [200],            [(S, 200)]),
    "503":           ([503], [503],            [(F, 503)]),
    "600":           ([600], [600],            [(F, 600)]),
    "499":           ([499], [499],            [(S, 499)]),
    "500":           ([500], [500],            [(F, 500)]),
    "grpc 14":       ([503], [503],            [(F, 503)]),
    "matched 404":   ([404], [404],            [(F, 500)]),
    "matched 503":   ([503], [503],            [(F, 503)]),
    "unmatched 503": ([503], [503],            [(S, 200)]),
    "degraded":      ([200], [200],            [(D, 200)]),
    "degraded 500":  ([500], [500],            [(F, 500)]),
    "reset":         ([503], [(X, None)],      [(X, None)]),
    "timeout":       ([504], [(T, 504)],       [(T, 504)]),
    "late timeout":  ([504], [],               []),
    "alt timeout":   ([204], [(T, 204)],       [(T, 204)]),
    "overflow":      ([503], [],               []),
}  # fmt: skip


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("column", range(3), ids=["1.8", "1.27", "1.40"])
def test_event_is_reported_as_its_release_does(reports, event, column):
    assert reports(list(EnvoyRelease)[column], EVENTS[event]) == EXPECTED[event][column]


@pytest.mark.parametrize("event", EVENTS)
def test_host_without_detector_takes_every_report(event):
    EVENTS[event](NULL_MONITOR)

    assert NULL_MONITOR.external.total == 0
