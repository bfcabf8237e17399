"""What happens in `outlier demo`: the service, its rule, and how its four hosts misbehave, again and again.

The rule is an ordinary configuration with short times, so that a minute shows what a night would; nothing in the
sidecar knows that this is a demo.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

SERVICE = "shop.default.svc.cluster.local"
HOST_NAMES = ("shop-1", "shop-2", "shop-3", "shop-4")
CYCLE_MS = 12_000

_RULES = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: shop, namespace: default}}
spec:
  hosts: [{service}]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP}}
  endpoints:
{endpoints}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: shop, namespace: default}}
spec:
  host: {service}
  trafficPolicy:
    loadBalancer: {{simple: ROUND_ROBIN}}
    connectionPool:
      tcp: {{connectTimeout: 250ms}}
    outlierDetection:
      consecutive5xxErrors: 3
      interval: 500ms
      baseEjectionTime: 1500ms
      maxEjectionPercent: 50
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: shop, namespace: default}}
spec:
  hosts: [{service}]
  http:
  - timeout: 400ms
    route:
    - destination: {{host: {service}}}
"""


def rules(ports: Sequence[int]) -> str:
    """Return the configuration of the demo for hosts on these ports of the loopback address."""
    endpoints = "\n".join(f"  - {{address: 127.0.0.1, ports: {{http: {port}}}}}" for port in ports)
    return _RULES.format(service=SERVICE, endpoints=endpoints)


@attrs.frozen(kw_only=True)
class Act:
    """One host misbehaves for a while.

    Attributes:
        host: Which of `HOST_NAMES`.
        at_ms: When in the cycle, 0..`CYCLE_MS`.
        for_ms: How long.
        label: What to call it.
        reply: Fields of the `Reply` it answers with; None means that it refuses connections.
    """

    host: str
    at_ms: int
    for_ms: int
    label: str
    reply: Mapping[str, Any] | None


ACTS = (
    Act(host="shop-1", at_ms=1_000, for_ms=2_500, label="answers 503", reply={"status": 503, "body": "out of stock"}),
    Act(host="shop-2", at_ms=4_000, for_ms=2_500, label="resets connections", reply={"fault": "reset"}),
    Act(host="shop-3", at_ms=7_000, for_ms=2_500, label="refuses connections", reply=None),
    Act(host="shop-4", at_ms=9_500, for_ms=2_000, label="hangs", reply={"fault": "hang"}),
)
GOOD = "answers 200"


@attrs.frozen
class Change:
    """At `at_ms` of the cycle the host starts the act, or (None) behaves again."""

    at_ms: int
    host: str
    act: Act | None


def changes() -> list[Change]:
    """Return the beginnings and ends of all acts in order of time."""
    starts = [Change(act.at_ms, act.host, act) for act in ACTS]
    ends = [Change(act.at_ms + act.for_ms, act.host, None) for act in ACTS]
    return sorted(starts + ends, key=lambda change: change.at_ms)
