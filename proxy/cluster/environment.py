"""What every cluster of a sidecar shares."""

import asyncio
from collections.abc import Callable

import attrs

from outlier import Detector, EjectionEvent, EnvoyRelease, RandomGenerator, Runtime, TimeSource
from proxy.cluster.health_check_events import HealthCheckEvents
from proxy.cluster.outlier_driver import OutlierDriver, SweepDriver
from proxy.config.health_check import HealthCheckRules
from proxy.deadlines import Deadlines
from proxy.upstream.dns_resolver import DnsResolver


@attrs.frozen(kw_only=True)
class Environment:
    """What every cluster of a sidecar shares; `drive_sweeps` makes what fires a new detector's sweeps."""

    loop: asyncio.AbstractEventLoop
    deadlines: Deadlines
    time_source: TimeSource
    random: RandomGenerator
    release: EnvoyRelease
    runtime: Runtime
    resolver: DnsResolver
    on_event: Callable[[EjectionEvent], None]
    health_checks: HealthCheckRules = attrs.field(factory=HealthCheckRules)
    health_check_events: HealthCheckEvents = attrs.field(factory=HealthCheckEvents)
    on_shadow_event: Callable[[EjectionEvent], None] = lambda _event: None
    drive_sweeps: Callable[[Detector, asyncio.AbstractEventLoop], SweepDriver] = OutlierDriver
