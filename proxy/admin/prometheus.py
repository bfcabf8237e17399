"""`/stats/prometheus`: the text exposition format with Envoy 1.40's names, tags, types and order.

Ports `PrometheusStatsFormatter` (Envoy, source/server/admin/prometheus_stats.cc).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from proxy.stats import Histogram, Metric, MetricKind

# Envoy's default bounds, in the unit of the histogram (milliseconds).
BUCKET_BOUNDS = (
    *(0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 600_000, 1_800_000, 3_600_000),
)
_MS_PER_S = 1000
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ORDER_OF_KINDS = (MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM)


def prometheus_text(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a `# TYPE` line and the samples for each family: counters, gauges, histograms, each by name.

    `metrics` are sorted by name, which is the order of the samples within a family.
    """
    families: dict[tuple[MetricKind, str], list[Metric]] = {}
    for metric in metrics:
        families.setdefault((metric.kind, metric.tag_extracted_name), []).append(metric)
    for kind in _ORDER_OF_KINDS:
        # Envoy compares names element by element: `cluster.retry.x` comes before `cluster.retry_or_shadow`.
        names = sorted((name for of_kind, name in families if of_kind is kind), key=lambda name: name.split("."))
        for extracted_name in names:
            is_envoys = families[kind, extracted_name][0].is_envoys
            name = metric_name(extracted_name) if is_envoys else _NOT_IN_A_NAME.sub("_", extracted_name)
            yield f"# TYPE {name} {kind.value}\n"
            for metric in families[kind, extracted_name]:
                yield _samples(name, metric)


def metric_name(extracted_name: str) -> str:
    """Return the Prometheus name of a dotted one.

    >>> metric_name("cluster.upstream_rq_total")
    'envoy_cluster_upstream_rq_total'
    """
    return "envoy_" + _NOT_IN_A_NAME.sub("_", extracted_name)


def _samples(name: str, metric: Metric) -> str:
    labels = ",".join(f'{_NOT_IN_A_NAME.sub("_", tag)}="{value.translate(_ESCAPES)}"' for tag, value in metric.tags)
    if not isinstance(metric.value, Histogram):
        return f"{name}{{{labels}}} {metric.value}\n"
    histogram = metric.value
    before_le = labels + "," if labels else ""
    bounds, per_unit = (BUCKET_BOUNDS, 1) if metric.is_envoys else (metric.bounds_s, _MS_PER_S)
    counts = cumulative_counts(histogram, [bound * per_unit for bound in bounds])
    buckets = "".join(
        f'{name}_bucket{{{before_le}le="{bound:.12g}"}} {count}\n' for bound, count in zip(bounds, counts, strict=True)
    )
    total = histogram.sum if metric.is_envoys else histogram.sum / _MS_PER_S
    return (
        f'{buckets}{name}_bucket{{{before_le}le="+Inf"}} {histogram.count}\n'
        f"{name}_sum{{{labels}}} {total}\n{name}_count{{{labels}}} {histogram.count}\n"
    )


def cumulative_counts(histogram: Histogram, bounds: Iterable[float] = BUCKET_BOUNDS) -> list[int]:
    """Return for each bound how many values do not exceed it."""
    values = sorted(histogram.buckets)
    sums = [0, *accumulate(histogram.buckets[value] for value in values)]
    return [sums[bisect_right(values, bound)] for bound in bounds]
