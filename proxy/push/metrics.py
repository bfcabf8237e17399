"""What the way of configuration measures: Istio's metrics where Istio has one, and from the first event to live.

Istio's start after the slow part and end before the receiver has applied anything; `outlier_config_convergence_seconds`
runs from the arrival of the first event of a batch to the data plane running it, in stages that add up to `total`:
`decode` until the store has it, `debounce` until its push starts, `build` and `apply`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from proxy.stats import Histogram, Metric, MetricKind

_CONVERGENCE = "outlier_config_convergence_seconds"
_CONVERGENCE_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_STAGES = ("decode", "debounce", "build", "apply", "total")
QUEUE_BOUNDS_S = (0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_ISTIO_BOUNDS_S: Mapping[str, tuple[float, ...]] = {
    "pilot_debounce_time": (0.01, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0),
    "pilot_pushcontext_init_seconds": (0.01, 0.1, 0.5, 1.0, 3.0, 5.0),
    "pilot_proxy_convergence_time": QUEUE_BOUNDS_S,
}


class PushMetrics:
    """Counts and times of one pipeline."""

    def __init__(self) -> None:
        self._inbound_updates = 0
        self._triggers: Counter[str] = Counter()
        self._istio = {name: Histogram() for name in _ISTIO_BOUNDS_S}
        self._stages = {stage: Histogram() for stage in _STAGES}

    def convergence(self, stage: str = "total") -> Histogram:
        """Return the times of a stage, in milliseconds."""
        return self._stages[stage]

    def stored(self, changes: int, decode_ms: int) -> None:
        """Note that changes reached the store."""
        self._inbound_updates += changes
        self._stages["decode"].record(decode_ms)

    def debounced(self, wait_ms: int) -> None:
        """Note that the push of a batch starts, that long after its first event arrived."""
        self._stages["debounce"].record(wait_ms)

    def pushed(self, since_first_event_ms: int) -> None:
        """Note that a debounced push ended."""
        self._istio["pilot_debounce_time"].record(since_first_event_ms)

    def applied(self, *, build_ms: int, apply_ms: int, total_ms: int, reasons: Mapping[str, int]) -> None:
        """Note that the data plane runs a new snapshot."""
        self._triggers.update(reasons)
        self._istio["pilot_pushcontext_init_seconds"].record(build_ms)
        self._istio["pilot_proxy_convergence_time"].record(build_ms + apply_ms)
        for stage, took_ms in (("build", build_ms), ("apply", apply_ms), ("total", total_ms)):
            self._stages[stage].record(took_ms)

    def metrics(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield plain_metric("pilot_inbound_updates", self._inbound_updates, (("type", "config"),))
        for source, count in self._triggers.items():
            yield plain_metric("pilot_push_triggers", count, (("type", source),))
        for name, histogram in self._istio.items():
            yield plain_metric(name, histogram, bounds_s=_ISTIO_BOUNDS_S[name])
        for stage, histogram in self._stages.items():
            yield plain_metric(_CONVERGENCE, histogram, (("stage", stage),), _CONVERGENCE_BOUNDS_S)


def plain_metric(
    name: str,
    value: int | Histogram,
    tags: tuple[tuple[str, str], ...] = (),
    bounds_s: tuple[float, ...] = (),
) -> Metric:
    """Return a metric that is not Envoy's: a counter, or a histogram of milliseconds that is shown in seconds."""
    kind = MetricKind.HISTOGRAM if isinstance(value, Histogram) else MetricKind.COUNTER
    full_name = ".".join([name, *(text for _, text in tags)])
    return Metric(full_name, value, kind, name, tags, bounds_s=bounds_s, is_envoys=False)
