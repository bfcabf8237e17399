"""What happened lately, numbered, for whoever wants to watch: the newest events, and listeners for those to come.

Ejections with their reasons, configuration pushes, overrides by hand, warnings. The event log file and the log lines
are not made here; this is what `/events` and the dashboard read.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from outlier import EjectionEvent, TimeSource, describe_detection, describe_unejection

Listener = Callable[["StreamEvent"], None]


@attrs.frozen
class StreamEvent:
    """One event. `id` counts from 1; `system_ms` is wall clock; `data` is made of JSON's types."""

    id: int
    system_ms: int
    kind: str
    data: Mapping[str, Any]


class EventStream:
    """The newest `keep` events and the listeners.

    >>> from outlier import SimulatedTime
    >>> stream = EventStream(SimulatedTime())
    >>> stream.publish("config", version="7").id
    1
    """

    def __init__(self, time_source: TimeSource, *, keep: int = 2_000) -> None:
        self._time_source = time_source
        self._events: deque[StreamEvent] = deque(maxlen=keep)
        self._listeners: dict[Listener, None] = {}
        self._last_id = 0

    @property
    def last_id(self) -> int:
        """The id of the newest event; 0 before the first."""
        return self._last_id

    def publish(self, kind: str, **data: Any) -> StreamEvent:
        """Number an event, keep it and hand it to the listeners."""
        self._last_id += 1
        event = StreamEvent(self._last_id, self._time_source.system_ms(), kind, data)
        self._events.append(event)
        for listener in tuple(self._listeners):
            listener(event)
        return event

    def publish_shadow(self, event: EjectionEvent) -> None:
        """Publish what a detector on trial would have decided; the kinds begin with `shadow_`."""
        self.publish_ejection(event, prefix="shadow_")

    def publish_ejection(self, event: EjectionEvent, *, prefix: str = "") -> None:
        """Publish what a detector decided: `ejection`, `unejection`, or `detection` when it was not enforced."""
        if event.detection is not None:
            kind = "ejection" if event.enforced else "detection"
            reason = describe_detection(event.detection)
            lasts_ms = event.detection.ejection_time_ms
        else:
            assert event.unejection is not None
            kind, reason, lasts_ms = "unejection", describe_unejection(event.unejection), None
        self.publish(
            prefix + kind,
            cluster_name=event.cluster_name,
            upstream_url=event.upstream_url,
            type=event.type.value,
            action=event.action.value,
            enforced=event.enforced,
            num_ejections=event.num_ejections,
            ejection_time_ms=lasts_ms,
            reason=reason,
        )

    def since(self, event_id: int) -> tuple[StreamEvent, ...]:
        """Return the kept events after `event_id`, oldest first; all of them if that id is yet to come.

        A reader whose last id is above ours has been watching an earlier process.
        """
        if event_id > self._last_id:
            event_id = 0
        return tuple(event for event in self._events if event.id > event_id)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every event from now on."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling `listener`; an unknown one is ignored."""
        self._listeners.pop(listener, None)
