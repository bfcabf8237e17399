"""How long to wait before dialling again."""

import attrs

from outlier import RandomGenerator

_RANDOM_RANGE = 2**64


@attrs.frozen(kw_only=True)
class BackoffSettings:
    """The n-th wait is `initial_ms * factor**(n-1)`, at most `max_ms`, then moved by up to +-`jitter` of itself."""

    initial_ms: int
    factor: float
    max_ms: int
    jitter: float


# Istio's xDS client (pkg/adsc): many clients of one server that comes back must not come at once.
EXPONENTIAL = BackoffSettings(initial_ms=500, factor=1.5, max_ms=60_000, jitter=0.5)
# Istio's MCP sink (pkg/mcp/sink): one second, always.
FIXED = BackoffSettings(initial_ms=1_000, factor=1.0, max_ms=1_000, jitter=0.0)


class Backoff:
    """The waits of one source.

    Args:
        settings: Their lengths.
        random: Chance for the jitter.
    """

    def __init__(self, settings: BackoffSettings, random: RandomGenerator) -> None:
        self._settings = settings
        self._random = random
        self._base_ms = float(settings.initial_ms)

    def reset(self) -> None:
        """Start anew: a stream was up."""
        self._base_ms = float(self._settings.initial_ms)

    def next_ms(self) -> int:
        """Return the next wait in milliseconds."""
        settings = self._settings
        base_ms = self._base_ms
        self._base_ms = min(base_ms * settings.factor, float(settings.max_ms))
        share = 2 * (self._random.random() / _RANDOM_RANGE) - 1
        return round(base_ms * (1 + settings.jitter * share))
