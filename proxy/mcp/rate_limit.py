"""How long to hold something back so that it does not come too often.

A token bucket that hands out waits instead of refusals, as Galley limits new streams (Istio 1.4, pkg/mcp/rate).
"""

RATE_PER_S = 1.0
BURST = 100


class RateLimit:
    """At most `burst` at once, and `rate_per_s` in the long run."""

    def __init__(self, now_ms: int, rate_per_s: float = RATE_PER_S, burst: int = BURST) -> None:
        self._rate_per_ms = rate_per_s / 1000
        self._burst = burst
        self._tokens = float(burst)
        self._last_ms = now_ms

    def reserve(self, now_ms: int) -> int:
        """Take a turn; return how many milliseconds away it is."""
        earned = (now_ms - self._last_ms) * self._rate_per_ms
        self._tokens = min(self._tokens + earned, float(self._burst)) - 1
        self._last_ms = now_ms
        return 0 if self._tokens >= 0 else round(-self._tokens / self._rate_per_ms)
