"""What changed, and since when: the unit that is debounced, merged and queued.

Ports `PushRequest` and its merge (Istio, pilot/pkg/model/push_context.go).
"""

from collections import Counter
from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class PushRequest:
    """A change that waits to be pushed.

    `start_ms` is when the first event that it stands for arrived. `configs` names what changed; None means everything.
    `reasons` counts what triggered it. `forced` asks for a push whatever changed. `endpoints_only` says that nothing
    but endpoints did.
    """

    start_ms: int
    configs: frozenset[str] | None = None
    reasons: Mapping[str, int] = attrs.field(factory=dict)
    forced: bool = False
    endpoints_only: bool = False


def merge(older: PushRequest | None, newer: PushRequest | None) -> PushRequest | None:
    """Return one request for both; with nothing, the other one itself.

    >>> merge(PushRequest(start_ms=1), PushRequest(start_ms=2)).start_ms
    1
    """
    if older is None or newer is None:
        return older or newer
    both = older.configs is not None and newer.configs is not None
    return PushRequest(
        start_ms=older.start_ms,
        configs=(older.configs or frozenset()) | (newer.configs or frozenset()) if both else None,
        reasons=Counter(older.reasons) + Counter(newer.reasons),
        forced=older.forced or newer.forced,
        endpoints_only=older.endpoints_only and newer.endpoints_only,
    )
