"""`/stats`: every statistic as text or JSON, in Envoy 1.40's order and form.

Counters and gauges come first, by name; histograms after them. Histograms are kept since the start only, so the value
of the last interval, which Envoy prints first, is always absent (`nan`, in JSON `null`), as it is in an Envoy without
traffic in that interval.
Ports `StatsHandler`, `StatsTextRender` and `StatsJsonRender` (Envoy, source/server/admin/).
"""

import json
import re
from collections.abc import Iterable, Iterator

from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.prometheus import prometheus_text
from proxy.admin.streaming import JSON, stream, text
from proxy.stats import Histogram, Metric, MetricKind
from proxy.turns import Turns

PERCENTILES = (0, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 100)
_KINDS = {
    "All": frozenset(MetricKind),
    "Counters": frozenset({MetricKind.COUNTER}),
    "Gauges": frozenset({MetricKind.GAUGE}),
    "Histograms": frozenset({MetricKind.HISTOGRAM}),
    "TextReadouts": frozenset(),
}


class BadQueryError(Exception):
    """Raised when a parameter of a statistics page cannot be understood; the message is the answer's body."""


async def handle_stats(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/stats`: `filter`, `invert_filter`, `usedonly`, `type`, `format=text|json|prometheus`."""
    shape = request.query.get("format", "text")
    if shape == "prometheus":
        return await handle_prometheus(context, request)
    if shape not in ("text", "json"):
        return text("usage: /stats?format=(json|prometheus|text)\n\n", 400)
    try:
        metrics = await _select(context, request)
    except BadQueryError as exc:
        return text(str(exc), 400)
    if shape == "json":
        return await stream(request, stats_json(metrics), JSON)
    return await stream(request, stats_text(metrics))


async def handle_prometheus(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/stats/prometheus`: `filter`, `invert_filter`, `usedonly`."""
    try:
        metrics = await _select(context, request)
    except BadQueryError as exc:
        return text(str(exc), 400)
    return await stream(request, prometheus_text(metrics))


async def _select(context: AdminContext, request: web.Request) -> list[Metric]:
    """Return what the query asks for, sorted by name; gives way to requests while it collects."""
    query = request.query
    kinds = _KINDS.get(query.get("type", "All"))
    if kinds is None:
        raise BadQueryError("invalid &type= param")
    try:
        pattern = re.compile(query.get("filter", ""))
    except re.error as exc:
        raise BadQueryError(f"Invalid re2 regex: {exc.msg}: {query['filter']}") from exc
    invert, used_only = "invert_filter" in query, "usedonly" in query
    turns = Turns()
    selected = []
    for metric in context.stats_store.metrics():
        if (
            metric.kind in kinds
            and (pattern.search(metric.name) is None) == invert
            and not (used_only and not is_used(metric))
        ):
            selected.append(metric)
        if turns.over():
            await turns.give()
    selected.sort(key=_by_name)
    return selected


def _by_name(metric: Metric) -> str:
    return metric.name


def is_used(metric: Metric) -> bool:
    """Whether the metric has ever moved, as far as its present value tells."""
    return metric.value.count > 0 if isinstance(metric.value, Histogram) else metric.value != 0


def percentile_text(histogram: Histogram, percentile: float) -> str:
    """Return the value that so many percent of all values do not exceed; `nan` when there are none."""
    value = histogram.quantile(percentile / 100)
    return "nan" if value is None else str(value)


# Text


def stats_text(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield one line for each metric; `metrics` are sorted by name."""
    histograms = []
    for metric in metrics:
        if isinstance(metric.value, Histogram):
            histograms.append(metric)
        else:
            yield f"{metric.name}: {metric.value}\n"
    for metric in histograms:
        assert isinstance(metric.value, Histogram)
        yield f"{metric.name}: {_summary(metric.value)}\n"


def _summary(histogram: Histogram) -> str:
    if not histogram.count:
        return "No recorded values"
    return " ".join(f"P{percentile:g}(nan,{percentile_text(histogram, percentile)})" for percentile in PERCENTILES)


# JSON


def stats_json(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield the members of `{"stats":[...]}`; histograms are one member, the last; `metrics` are sorted by name."""
    histograms = []
    yield '{"stats":['
    separator = ""
    for metric in metrics:
        if isinstance(metric.value, Histogram):
            histograms.append((metric.name, metric.value))
        else:
            yield f'{separator}{{"name":{_quoted(metric.name)},"value":{metric.value}}}'
            separator = ","
    if histograms:
        quantiles = ",".join(f"{percentile:g}" for percentile in PERCENTILES)
        yield f'{separator}{{"histograms":{{"supported_quantiles":[{quantiles}],"computed_quantiles":['
        yield ",".join(f'{{"name":{_quoted(name)},"values":[{_values(found)}]}}' for name, found in histograms)
        yield "]}}"
    yield "]}"


def _values(histogram: Histogram) -> str:
    shown = (percentile_text(histogram, percentile) for percentile in PERCENTILES)
    return ",".join(f'{{"cumulative":{"null" if value == "nan" else value},"interval":null}}' for value in shown)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
