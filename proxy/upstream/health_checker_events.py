"""One event of active health checking as a record, and its line in Envoy's event log.

Ports `HealthCheckEventLoggerImpl` (Envoy, source/common/upstream/health_check_event_logger) and `HealthCheckEvent`
(api/envoy/data/core/v3/health_check_event.proto).
"""

import json
from typing import Any

import attrs

from outlier.events import timestamp
from proxy.config.address import Address
from proxy.config.cluster_config import Locality
from proxy.upstream.health_checker_session import EventKind, Incident

# Of fields with lower numbers than `timestamp` in Envoy's message; the others follow it.
_BEFORE_TIMESTAMP = frozenset({EventKind.EJECT_UNHEALTHY, EventKind.ADD_HEALTHY})


@attrs.frozen(kw_only=True)
class HealthCheckEvent:
    """A line of the event log before it is a line.

    Attributes:
        checker_type: `HTTP` or `TCP`.
        address: The host's.
        locality: Where the host is.
        cluster_name: The cluster.
        system_ms: Wall clock, milliseconds since 1970.
        incident: What happened.
    """

    checker_type: str
    address: str
    locality: Locality
    cluster_name: str
    system_ms: int
    incident: Incident

    def to_json(self) -> str:
        """Return Envoy's line, without the newline: fields in the order of their numbers, unset ones included."""
        kind = self.incident.kind
        own = {kind.value: self._details()}
        line: dict[str, Any] = {
            "health_checker_type": self.checker_type,
            "host": _address_message(self.address),
            "cluster_name": self.cluster_name,
        }
        if kind in _BEFORE_TIMESTAMP:
            line |= own
        line["timestamp"] = timestamp(self.system_ms)
        if kind not in _BEFORE_TIMESTAMP and kind is not EventKind.SUCCESS:
            line |= own
        line["locality"] = attrs.asdict(self.locality)
        if kind is EventKind.SUCCESS:
            line |= own
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False)

    def _details(self) -> dict[str, Any]:
        incident = self.incident
        details: dict[str, Any] = {}
        if incident.failure is not None:
            details["failure_type"] = incident.failure.value
        if incident.kind in {EventKind.ADD_HEALTHY, EventKind.FAILURE}:
            details["first_check"] = incident.first_check
        if incident.failure is not None:
            details["http_status_code"] = incident.status
        return details


def _address_message(text: str) -> dict[str, Any]:
    address = Address.parse(text)
    if address.path:
        return {"pipe": {"path": address.path, "mode": 0}}
    return {
        "socket_address": {
            "protocol": "TCP",
            "address": address.host,
            "port_value": address.port,
            "resolver_name": "",
            "ipv4_compat": False,
            "network_namespace_filepath": "",
        }
    }
