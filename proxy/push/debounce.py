"""When changes that come in quick succession are pushed together.

A calculator: events, a timer that fired and a push that ended come in with the time; what comes out is the push to
start, and the deadline of the timer. Ports `debounce` (Istio, pilot/pkg/xds/discovery.go). Never are two debounced
pushes under way; what comes during one waits for its end. `max_ms` is looked at only when the timer fires or a push
ends, so a batch without a running push can be as old as `max_ms + after_ms`.
"""

import attrs

from proxy.push.request import PushRequest, merge

DEBOUNCE_AFTER_MS = 100  # PILOT_DEBOUNCE_AFTER: quiet this long, and the batch goes
DEBOUNCE_MAX_MS = 10_000  # PILOT_DEBOUNCE_MAX: bounds staleness when changes never pause


@attrs.frozen(kw_only=True)
class DebounceSettings:
    """Istio's settings; `endpoints` False lets changes of endpoints only go out at once."""

    after_ms: int = DEBOUNCE_AFTER_MS
    max_ms: int = DEBOUNCE_MAX_MS
    endpoints: bool = True


@attrs.frozen
class Batch:
    """A push to start: the merged request, and how many events it stands for."""

    request: PushRequest
    events: int


class Debounce:
    """The state between events and pushes."""

    def __init__(self, settings: DebounceSettings = DebounceSettings()) -> None:
        self._settings = settings
        self._request: PushRequest | None = None
        self._events = 0
        self._start_ms = 0
        self._last_ms = 0
        self._pushing = False
        self._deadline_ms: int | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When `on_timer` is due; None without a timer."""
        return self._deadline_ms

    @property
    def idle(self) -> bool:
        """Whether nothing waits and no push runs."""
        return self._request is None and not self._pushing

    def on_event(self, request: PushRequest, now_ms: int) -> PushRequest | None:
        """Take a change; return it if it is to be pushed at once, beside whatever runs."""
        if request.endpoints_only and not self._settings.endpoints:
            return request
        self._last_ms = now_ms
        if not self._events:
            self._start_ms = now_ms
            self._deadline_ms = now_ms + self._settings.after_ms
        self._events += 1
        self._request = merge(self._request, request)
        return None

    def on_timer(self, now_ms: int) -> Batch | None:
        """Note that the timer fired; return the push to start, if one is due."""
        self._deadline_ms = None
        # While a push runs its end does the timer's work, so the timer is not set again.
        return None if self._pushing else self._work(now_ms)

    def on_push_finished(self, now_ms: int) -> Batch | None:
        """Note that the running push ended; return the next one, if one is due."""
        self._pushing = False
        return self._work(now_ms)

    def _work(self, now_ms: int) -> Batch | None:
        if self._request is None:
            return None
        quiet_ms = now_ms - self._last_ms
        if now_ms - self._start_ms < self._settings.max_ms and quiet_ms < self._settings.after_ms:
            self._deadline_ms = now_ms + self._settings.after_ms - quiet_ms
            return None
        batch = Batch(self._request, self._events)
        self._request, self._events = None, 0
        self._deadline_ms = None
        self._pushing = True
        return batch
