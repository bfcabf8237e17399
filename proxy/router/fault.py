"""Faults that a route injects: a delay, then an abort, each for its share of the requests.

Pure draws; waiting and replying are the exchange's. Both come before the cluster is looked up: they are counted for no
cluster and reported to no host, and the route's timeout starts after the delay. Ports `FaultFilter` (Envoy,
source/extensions/filters/http/fault/fault_filter.cc).
"""

import attrs

from outlier import RandomGenerator
from proxy.config.route_config import Fault
from proxy.config.validate_http_route import GRPC_STATUSES
from proxy.response_flags import ResponseFlag
from proxy.router.local_reply import LocalReply

DELAY_FLAG = ResponseFlag.DELAY_INJECTED

_MILLION = 1_000_000
_BODY = b"fault filter abort"
_DETAILS = "fault_filter_abort"


@attrs.frozen
class Abort:
    """The answer to an aborted request; `grpc_status` is for a gRPC client, None derives it from the reply's status."""

    reply: LocalReply
    grpc_status: int | None = None


def compile_abort(fault: Fault) -> Abort | None:
    """Return the answer of a fault's abort, None if it aborts nothing."""
    if not fault.abort_per_million:
        return None
    if fault.abort_http_status is not None:
        return Abort(_reply(fault.abort_http_status))
    if fault.abort_grpc_status:
        return Abort(_reply(200), GRPC_STATUSES.index(fault.abort_grpc_status))
    return None


def draw_delay_ms(fault: Fault, random: RandomGenerator) -> int:
    """Return how long this request waits, 0 for not at all."""
    return fault.delay_ms if fault.delay_ms and _hit(fault.delay_per_million, random) else 0


def draw_abort(fault: Fault, random: RandomGenerator) -> bool:
    """Whether this request is aborted; drawn when the delay is over."""
    return _hit(fault.abort_per_million, random)


def _hit(per_million: int, random: RandomGenerator) -> bool:
    return per_million > 0 and random.random() % _MILLION < per_million


def _reply(status: int) -> LocalReply:
    return LocalReply(status, _BODY, ResponseFlag.FAULT_INJECTED, _DETAILS)
