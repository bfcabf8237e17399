"""The statistics of one cluster, by Envoy's names and with Envoy's tags."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from proxy.stats import Histogram, Metric, MetricKind

if TYPE_CHECKING:
    from proxy.cluster.cluster import Cluster

_COUNTER = MetricKind.COUNTER
_GAUGE = MetricKind.GAUGE
_HISTOGRAM = MetricKind.HISTOGRAM


def cluster_metrics(cluster: "Cluster") -> Iterator[Metric]:
    """Yield every metric of a cluster; the cost is paid by whoever asks, nothing is kept."""
    stats = cluster.stats
    priority_set = cluster.priority_set
    prefix = f"cluster.{cluster.name}."
    tags = (("envoy.cluster_name", cluster.name),)

    def metric(name: str, value: int | Histogram, kind: MetricKind) -> Metric:
        return Metric(prefix + name, value, kind, "cluster." + name, tags)

    for name, value, is_gauge in stats.items():
        yield metric(name, value, _GAUGE if is_gauge else _COUNTER)
    if stats.http2 is not None:
        for name, value, is_gauge in stats.http2.items():
            yield metric(f"http2.{name}", value, _GAUGE if is_gauge else _COUNTER)
    if cluster.tls is not None:
        for name, value in cluster.tls.stats.items():
            yield metric(f"ssl.{name}", value, _COUNTER)
    yield metric("membership_change", priority_set.membership_change, _COUNTER)
    yield metric("membership_total", priority_set.membership_total, _GAUGE)
    yield metric("membership_healthy", priority_set.membership_healthy, _GAUGE)
    yield metric("membership_degraded", priority_set.membership_degraded, _GAUGE)
    yield metric("membership_excluded", priority_set.membership_excluded, _GAUGE)
    for name, is_open in _breakers(cluster):
        yield metric(f"circuit_breakers.default.{name}", int(is_open), _GAUGE)
        yield metric(f"circuit_breakers.high.{name}", 0, _GAUGE)  # every request has the default priority
    for name, value in cluster.load_balancer.gauges.items():
        yield metric(name, value, _GAUGE)
    yield from _responses(stats.responses, "", prefix, tags)
    yield from _responses(stats.responses, "external.", prefix, tags)  # all of our callers are external
    if stats.retried_responses:
        yield from _responses(stats.retried_responses, "retry.", prefix, tags)
    if cluster.detector is not None:
        for name, value, is_gauge in cluster.detector.stats.items():
            yield metric(f"outlier_detection.{name}", value, _GAUGE if is_gauge else _COUNTER)
    if cluster.health_checker is not None:
        for name, value, is_gauge in cluster.health_checker.stats.items():
            yield metric(f"health_check.{name}", value, _GAUGE if is_gauge else _COUNTER)
    if cluster.discovery is not None:
        for name, value in cluster.discovery.stats.items():
            yield metric(name, value, _COUNTER)
    if cluster.shadow is not None:
        trial = cluster.shadow.trial
        for name, value, is_gauge in trial.detector.stats.items():
            yield metric(f"outlier_detection_shadow.{name}", value, _GAUGE if is_gauge else _COUNTER)
        for name, value in attrs.asdict(trial.counts).items():
            kind = _GAUGE if name == "most_ejected" else _COUNTER
            yield metric(f"outlier_detection_shadow.{name}", value, kind)
    yield metric("upstream_cx_connect_ms", stats.connect_time_ms, _HISTOGRAM)
    yield metric("upstream_rq_time", stats.request_time_ms, _HISTOGRAM)


def _breakers(cluster: "Cluster") -> Iterator[tuple[str, bool]]:
    """Yield which limits are reached. Envoy looks when a count moves: a limit of 0 that nothing got past is not."""
    resources = cluster.resources
    limits = resources.limits
    used = limits.max_connections > 0 or cluster.stats.upstream_cx_total > 0
    yield "cx_open", used and not resources.can_connect()
    yield "cx_pool_open", False
    yield "rq_open", resources.requests >= limits.max_requests > 0
    yield "rq_pending_open", resources.pending_requests >= limits.max_pending_requests > 0
    yield "rq_retry_open", resources.retries >= limits.max_retries > 0


def _responses(
    responses: Mapping[int, int], infix: str, prefix: str, tags: tuple[tuple[str, str], ...]
) -> Iterator[Metric]:
    """Yield counters of replies, given by status: in total, by class and by code."""
    classes: dict[int, int] = {}
    for status, count in responses.items():
        classes[status // 100] = classes.get(status // 100, 0) + count
    yield Metric(
        f"{prefix}{infix}upstream_rq_completed",
        sum(responses.values()),
        _COUNTER,
        f"cluster.{infix}upstream_rq_completed",
        tags,
    )
    for status_class, count in sorted(classes.items()):
        yield Metric(
            f"{prefix}{infix}upstream_rq_{status_class}xx",
            count,
            _COUNTER,
            f"cluster.{infix}upstream_rq_xx",
            (("envoy.response_code_class", str(status_class)), *tags),
        )
    for status, count in sorted(responses.items()):
        yield Metric(
            f"{prefix}{infix}upstream_rq_{status}",
            count,
            _COUNTER,
            f"cluster.{infix}upstream_rq",
            (("envoy.response_code", str(status)), *tags),
        )
