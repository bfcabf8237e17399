"""Test your service, or your rule, behind a real sidecar: upstreams that misbehave, virtual time, a pytest plugin.

Start at `sidecar`. Names are imported when they are first used, so that the pytest plugin costs nothing to load.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.testing.app_upstream import Upstream
    from proxy.testing.faulty_upstream import FaultyUpstream
    from proxy.testing.properties import longest_ejection_ms, most_ejected, simulated
    from proxy.testing.reply import End, Fault, Framing, Reply
    from proxy.testing.request import RecordedRequest
    from proxy.testing.sidecar import Sidecar
    from proxy.testing.simulated_clock import SimulatedClock
    from proxy.testing.threaded import ThreadedFaultyUpstream, ThreadedResponse, ThreadedSidecar

__all__ = [
    "End",
    "Fault",
    "FaultyUpstream",
    "Framing",
    "RecordedRequest",
    "Reply",
    "Sidecar",
    "SimulatedClock",
    "ThreadedFaultyUpstream",
    "ThreadedResponse",
    "ThreadedSidecar",
    "Upstream",
    "longest_ejection_ms",
    "most_ejected",
    "simulated",
]

_MODULES = {
    "End": "reply",
    "Fault": "reply",
    "FaultyUpstream": "faulty_upstream",
    "Framing": "reply",
    "RecordedRequest": "request",
    "Reply": "reply",
    "Sidecar": "sidecar",
    "SimulatedClock": "simulated_clock",
    "ThreadedFaultyUpstream": "threaded",
    "ThreadedResponse": "threaded",
    "ThreadedSidecar": "threaded",
    "Upstream": "app_upstream",
    "longest_ejection_ms": "properties",
    "most_ejected": "properties",
    "simulated": "properties",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
