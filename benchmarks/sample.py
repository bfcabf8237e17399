"""What one round of load has cost a proxy, whoever loaded it."""

import attrs

from benchmarks import wrk

FIGURES = ("cpu_us", "requests_per_second", "p50_ms", "p99_ms")


@attrs.frozen(kw_only=True)
class Sample:
    """One proxy under load for some seconds; `cpu_us` is of one answered request."""

    cpu_us: float
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int

    @classmethod
    def of(cls, report: wrk.Report, cpu_s: float) -> "Sample":
        """Return the sample of a load that took so much of the proxy's CPU."""
        return cls(
            cpu_us=cpu_s / report.requests * 1e6,
            requests_per_second=report.requests_per_second,
            p50_ms=report.p50_ms,
            p99_ms=report.p99_ms,
            errors=report.errors,
        )


Samples = dict[str, dict[str, list[Sample]]]  # by proxy and by what was asked of it, one for each round
