"""What a rule means under which Istio release.

One YAML has had three meanings; each switch names the change. `CURRENT` is Istio after 1.30.
"""

import enum

import attrs


class ConsecutiveErrors(enum.Enum):
    """What `consecutiveErrors` sets."""

    CONSECUTIVE_5XX = "consecutive 5xx"
    GATEWAY_FAILURE = "consecutive gateway failures"
    NOTHING = "nothing"


class Panic(enum.Enum):
    """When the block's `minHealthPercent` is sent as panic threshold."""

    NEVER = "never"
    ABOVE_ZERO = "above zero"
    ALWAYS = "always"


@attrs.frozen(order=True)
class IstioRelease:
    """A release by its version; compare with `<`. The properties are the switches."""

    version: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> "IstioRelease":
        """Read `current`, `1.1` or `1.0.0`.

        Raises:
            ValueError: Neither `current` nor a version.
        """
        if text == "current":
            return CURRENT
        major, minor, patch = ([int(part) for part in text.split(".")] + [0, 0])[:3]
        return cls((major, minor, patch))

    def __str__(self) -> str:
        return "current" if self == CURRENT else ".".join(map(str, self.version))

    @property
    def consecutive_errors(self) -> ConsecutiveErrors:
        """1.0.1 (istio #8098, a patch release) moved it to gateway failures, 1.7 dropped it."""
        if self.version < (1, 0, 1):
            return ConsecutiveErrors.CONSECUTIVE_5XX
        return ConsecutiveErrors.GATEWAY_FAILURE if self.version < (1, 7, 0) else ConsecutiveErrors.NOTHING

    @property
    def separate_error_counts(self) -> bool:
        """Whether `consecutive5xxErrors` and `consecutiveGatewayErrors` exist (1.5)."""
        return self.version >= (1, 5, 0)

    @property
    def success_rate_off(self) -> bool:
        """Whether Envoy's success rate ejection is switched off (1.7); before, its default enforces."""
        return self.version >= (1, 7, 0)

    @property
    def panic(self) -> Panic:
        """`minHealthPercent` came with 1.1, and is sent even as 0 since 1.3."""
        if self.version < (1, 1, 0):
            return Panic.NEVER
        return Panic.ABOVE_ZERO if self.version < (1, 3, 0) else Panic.ALWAYS

    @property
    def panic_off_without_block(self) -> bool:
        """Whether panic is off without outlierDetection too (PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS, after 1.30)."""
        return self >= CURRENT

    @property
    def local_origin(self) -> bool:
        """Whether the split of local-origin errors exists (1.11)."""
        return self.version >= (1, 11, 0)

    @property
    def error_codes(self) -> bool:
        """Whether `outlierDetectionHttpErrorCodes` exists (istio #60892, after 1.30)."""
        return self >= CURRENT

    @property
    def max_ejection_time_sent(self) -> bool:
        """Whether a base ejection time above 300 s is sent as maximum as well (1.9 only)."""
        return (1, 9, 0) <= self.version < (1, 10, 0)

    @property
    def least_request_default(self) -> bool:
        """Whether the default load balancer is LEAST_REQUEST (1.14); before, ROUND_ROBIN."""
        return self.version >= (1, 14, 0)

    @property
    def default_retry_on(self) -> str:
        """What a retry policy that names no condition retries on."""
        if self.version < (1, 1, 0):
            return "5xx,connect-failure,refused-stream"
        exhausted = "resource-exhausted," if self.version < (1, 6, 0) else ""
        return f"connect-failure,refused-stream,unavailable,cancelled,{exhausted}retriable-status-codes"

    @property
    def retries_503(self) -> bool:
        """Whether 503 is retried by default (1.1 up to 1.23)."""
        return (1, 1, 0) <= self.version < (1, 24, 0)

    @property
    def host_selection_retry_max_attempts(self) -> int:
        """How often a retry draws again to avoid a host that failed: 3 in 1.1, 5 since 1.2."""
        return 3 if self.version < (1, 2, 0) else 5

    @property
    def default_retries(self) -> bool:
        """Whether a route without `retries` retries twice (1.1)."""
        return self.version >= (1, 1, 0)


CURRENT = IstioRelease((1, 31, 0))
