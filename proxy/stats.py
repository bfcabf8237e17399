"""What a statistic is, and where all of them are gathered.

The data plane counts in plain integers on its own objects; nothing is looked up by name on a request. Each owner
registers a provider that lists its metrics when somebody asks (`/stats`, Prometheus, tests).
"""

import enum
from collections.abc import Callable, Iterable, Iterator

import attrs


class MetricKind(enum.Enum):
    """How a metric moves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """Counts integer values (milliseconds); exact up to 10 s, then by 1 %.

    `buckets` maps a value to how often it was seen, so memory is bounded by the number of distinct rounded values.
    """

    __slots__ = ("buckets", "count", "sum")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.sum = 0

    def record(self, value: int) -> None:
        """Count one value, 0 or more."""
        if value > 10_000:
            step = 10 ** (len(str(value)) - 3)
            value -= value % step
        buckets = self.buckets
        buckets[value] = buckets.get(value, 0) + 1
        self.count += 1
        self.sum += value

    def quantile(self, q: float) -> int | None:
        """Return the least value that at least the share `q` (0..1) of all values does not exceed; None when empty."""
        if not self.count:
            return None
        rank = q * self.count
        seen = 0
        for value in sorted(self.buckets):
            seen += self.buckets[value]
            if seen >= rank:
                return value
        return max(self.buckets)


@attrs.frozen
class Metric:
    """One statistic at one moment.

    `name` is Envoy's full dotted name (`cluster.outbound|80||a.upstream_rq_total`). `tags` are `(tag, value)` pairs
    in Envoy's order and `tag_extracted_name` is the name without their values (`cluster.upstream_rq_total`): what
    Prometheus shows. A metric that is not Envoy's (`is_envoys` false) is shown under its own name, without `envoy_`,
    and its histogram in seconds with the bucket bounds `bounds_s`.
    """

    name: str
    value: "int | Histogram"
    kind: MetricKind
    tag_extracted_name: str
    tags: tuple[tuple[str, str], ...] = ()
    bounds_s: tuple[float, ...] = ()
    is_envoys: bool = True


Provider = Callable[[], Iterable[Metric]]


class StatsStore:
    """All providers of metrics of one sidecar."""

    def __init__(self) -> None:
        self._providers: dict[Provider, None] = {}

    def register(self, provider: Provider) -> None:
        """Add a provider; asked once for each scrape."""
        self._providers[provider] = None

    def metrics(self) -> Iterator[Metric]:
        """Yield every metric of every provider, in order of registration."""
        for provider in tuple(self._providers):
            yield from provider()

    def value(self, name: str) -> int:
        """Return the counter or gauge of that full name; for tests and people, not for the hot path.

        Raises:
            KeyError: No such counter or gauge.
        """
        for metric in self.metrics():
            if metric.name == name and isinstance(metric.value, int):
                return metric.value
        raise KeyError(name)
