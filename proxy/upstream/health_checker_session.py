"""What the results of one host's checks make of it: its flags, and when to check it again.

Pure: time passes outside, chance is passed in. Sending checks belongs to the probes, timers to `health_checker`.
Ports `ActiveHealthCheckSession` and `HealthCheckerImplBase::interval` (Envoy,
source/extensions/health_checkers/common/health_checker_base_impl.cc).
"""

import enum
from collections.abc import Callable, Iterator

import attrs

from outlier.sources import RandomGenerator
from proxy.config.health_check import HealthCheck
from proxy.upstream.host import HealthFlag, Host

_GAUGES = frozenset({"healthy", "degraded"})


@attrs.define
class HealthCheckStats:
    """Envoy's statistics `cluster.<name>.health_check.*`; `healthy` counts hosts.

    `degraded` counts how often hosts became degraded, less those that were so when they left, as in Envoy.
    `verify_cluster` counts comparisons of a service's name, which are not made here, and stays 0.
    """

    attempt: int = 0
    success: int = 0
    failure: int = 0
    passive_failure: int = 0
    network_failure: int = 0
    verify_cluster: int = 0
    healthy: int = 0
    degraded: int = 0

    def items(self) -> Iterator[tuple[str, int, bool]]:
        """Yield `(name, value, is_gauge)`."""
        for field in attrs.fields(HealthCheckStats):
            yield field.name, getattr(self, field.name), field.name in _GAUGES

    def reset_counters(self) -> None:
        """Set every counter to 0; gauges stay."""
        for field in attrs.fields(HealthCheckStats):
            if field.name not in _GAUGES:
                setattr(self, field.name, 0)


class Failure(enum.Enum):
    """Why a host is not well; the value is Envoy's name in the event log."""

    ACTIVE = "ACTIVE"  # its answer says so
    PASSIVE = "PASSIVE"  # its answer to a request, not to a check, says so
    NETWORK = "NETWORK"  # no connection, or one that ended before the answer
    NETWORK_TIMEOUT = "NETWORK_TIMEOUT"

    @property
    def is_network(self) -> bool:
        """Whether nothing was heard from the host: it may have been chance, so the unhealthy threshold applies."""
        return self in {Failure.NETWORK, Failure.NETWORK_TIMEOUT}


class Transition(enum.Enum):
    """What a result has changed in the host's lists."""

    UNCHANGED = "unchanged"
    CHANGE_PENDING = "change pending"  # a threshold is still to be reached
    CHANGED = "changed"


class EventKind(enum.Enum):
    """What happened; the value is the event's field in Envoy's `HealthCheckEvent`."""

    EJECT_UNHEALTHY = "eject_unhealthy_event"
    ADD_HEALTHY = "add_healthy_event"
    FAILURE = "health_check_failure_event"
    DEGRADED = "degraded_healthy_host"
    NO_LONGER_DEGRADED = "no_longer_degraded_host"
    SUCCESS = "successful_health_check_event"


@attrs.frozen
class Incident:
    """An event, before anybody has said when and in which cluster.

    `failure` and `status` (0 without a response) go with EJECT_UNHEALTHY and FAILURE, `first_check` with FAILURE and
    ADD_HEALTHY.
    """

    kind: EventKind
    first_check: bool = False
    failure: Failure | None = None
    status: int = 0


class HealthCheckSession:
    """The health of one host.

    Args:
        host: Its flags are set and cleared here. It starts as failed: a host is out until a check has passed.
        settings: The cluster's health check.
        stats: The cluster's statistics.
        random: Draws jitter.
        on_incident: Called for each event, in Envoy's order.
    """

    __slots__ = (
        "_first_check",
        "_num_healthy",
        "_num_unhealthy",
        "_on_incident",
        "_random",
        "_settings",
        "_stats",
        "host",
    )

    def __init__(
        self,
        host: Host,
        settings: HealthCheck,
        stats: HealthCheckStats,
        random: RandomGenerator,
        on_incident: Callable[[Incident], None],
    ) -> None:
        self.host = host
        self._settings = settings
        self._stats = stats
        self._random = random
        self._on_incident = on_incident
        self._first_check = True
        self._num_healthy = 0
        self._num_unhealthy = 0
        host.set_flag(HealthFlag.FAILED_ACTIVE_HC)
        host.put_flag(HealthFlag.PENDING_ACTIVE_HC, on=settings.ignore_new_hosts_until_first_hc)

    @property
    def first_check(self) -> bool:
        """Whether no check has ended yet."""
        return self._first_check

    def on_success(self, *, degraded: bool) -> Transition:
        """Take a passed check.

        Args:
            degraded: The host has asked to be used after the others.
        """
        host, settings = self.host, self._settings
        self._num_unhealthy = 0
        transition = Transition.UNCHANGED
        if host.has_flag(HealthFlag.FAILED_ACTIVE_HC):
            self._num_healthy += 1
            # The first check ever decides alone, so that a start does not take several intervals.
            if self._first_check or self._num_healthy == settings.healthy_threshold:
                host.clear_flag(
                    HealthFlag.FAILED_ACTIVE_HC
                    | HealthFlag.ACTIVE_HC_TIMEOUT
                    | HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL
                )
                self._stats.healthy += 1
                transition = Transition.CHANGED
                self._on_incident(Incident(EventKind.ADD_HEALTHY, self._first_check))
            else:
                transition = Transition.CHANGE_PENDING
        if transition is not Transition.CHANGED and settings.always_log_health_check_success:
            self._on_incident(Incident(EventKind.SUCCESS))
        transition = self._end_pending(transition)
        if degraded != host.has_flag(HealthFlag.DEGRADED_ACTIVE_HC):
            host.put_flag(HealthFlag.DEGRADED_ACTIVE_HC, on=degraded)
            # Envoy's gauge does not come down again while the host stays in the cluster.
            self._stats.degraded += degraded
            self._on_incident(Incident(EventKind.DEGRADED if degraded else EventKind.NO_LONGER_DEGRADED))
            if transition is Transition.UNCHANGED:
                transition = Transition.CHANGED
        self._stats.success += 1
        self._first_check = False
        return transition

    def on_failure(self, failure: Failure, *, retriable: bool = False, status: int = 0) -> Transition:
        """Take a failed check, or bad news of the host from elsewhere (PASSIVE).

        Args:
            failure: Why.
            retriable: The unhealthy threshold applies although the host has answered.
            status: Of the response, 0 without one.
        """
        host, settings = self.host, self._settings
        self._num_healthy = 0
        transition = Transition.UNCHANGED
        if not host.has_flag(HealthFlag.FAILED_ACTIVE_HC):
            at_once = not failure.is_network and not retriable
            if not at_once:
                self._num_unhealthy += 1
            if at_once or self._num_unhealthy == settings.unhealthy_threshold:
                host.set_flag(HealthFlag.FAILED_ACTIVE_HC)
                self._stats.healthy -= 1
                transition = Transition.CHANGED
                self._on_incident(Incident(EventKind.EJECT_UNHEALTHY, failure=failure, status=status))
            else:
                transition = Transition.CHANGE_PENDING
        timed_out = failure is Failure.NETWORK_TIMEOUT and host.has_flag(HealthFlag.FAILED_ACTIVE_HC)
        host.put_flag(HealthFlag.ACTIVE_HC_TIMEOUT, on=timed_out)
        transition = self._end_pending(transition)
        if self._first_check or settings.always_log_health_check_failures:
            self._on_incident(Incident(EventKind.FAILURE, self._first_check, failure, status))
        self._stats.failure += 1
        if failure.is_network:
            self._stats.network_failure += 1
        elif failure is Failure.PASSIVE:
            self._stats.passive_failure += 1
        self._first_check = False
        return transition

    def end(self) -> None:
        """The host leaves the cluster, or checking ends: it no longer counts."""
        if not self.host.has_flag(HealthFlag.FAILED_ACTIVE_HC):
            self._stats.healthy -= 1
        if self.host.has_flag(HealthFlag.DEGRADED_ACTIVE_HC):
            self._stats.degraded -= 1

    def initial_delay_ms(self) -> int:
        """Return how long the first check waits; 0 without jitter."""
        bound_ms = self._settings.initial_jitter_ms
        return self._with_jitter(0, bound_ms) if bound_ms else 0

    def interval_ms(self, transition: Transition, *, passed: bool, traffic: bool) -> int:
        """Return how long the next check waits, at least 1 ms.

        Args:
            transition: What the last check has changed.
            passed: Whether it passed.
            traffic: Whether the cluster has ever had a connection.
        """
        settings = self._settings
        pending = transition is Transition.CHANGE_PENDING
        if not traffic:
            settled = passed and not pending
            base_ms = settings.no_traffic_healthy_interval_ms if settled else settings.no_traffic_interval_ms
        elif passed:
            base_ms = settings.healthy_edge_interval_ms if pending else settings.interval_ms
        else:
            base_ms = settings.unhealthy_edge_interval_ms if pending else settings.unhealthy_interval_ms
        return self._with_jitter(base_ms, settings.interval_jitter_ms)

    def _with_jitter(self, base_ms: int, jitter_ms: int) -> int:
        share_ms = self._settings.interval_jitter_percent * base_ms // 100
        if share_ms:
            base_ms += self._random.random() % share_ms
        if jitter_ms:
            base_ms += self._random.random() % jitter_ms
        return max(1, base_ms)

    def _end_pending(self, transition: Transition) -> Transition:
        """The first result is there: a host that counted for nothing counts from now on."""
        if not self.host.has_flag(HealthFlag.PENDING_ACTIVE_HC):
            return transition
        self.host.clear_flag(HealthFlag.PENDING_ACTIVE_HC)
        return Transition.CHANGED
