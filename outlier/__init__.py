"""Envoy's outlier detection as a pure library: which hosts of a cluster are outliers, for how long, and why.

No clock, no sockets, no threads, no logging: time and chance come in, decisions and event records go out. The proxy
around it is `proxy`.

>>> from outlier import Detector, OutlierDetection, SeededRandom, SimulatedTime
>>> detector = Detector(
...     OutlierDetection(max_ejection_percent=50),
...     cluster_name="reviews",
...     time_source=SimulatedTime(),
...     random=SeededRandom(1),
... )
>>> bad, good = detector.add_host("10.0.0.1:80"), detector.add_host("10.0.0.2:80")
>>> for _ in range(5):
...     bad.put_http_response_code(503)
>>> bad.ejected, good.ejected
(True, False)
"""

from outlier.config import OutlierDetection
from outlier.detection import (
    ConsecutiveEvidence,
    Detection,
    FailurePercentageEvidence,
    Outcome,
    SuccessRateEvidence,
    Unejection,
    UnejectionCause,
)
from outlier.detector import Detector
from outlier.ejection import EjectionType, LimitCheck, Origin
from outlier.error_matcher import ErrorMatcher
from outlier.errors import ConfigError, OutlierError, ScenarioError
from outlier.events import Action, EjectionEvent
from outlier.expectations import Unmet
from outlier.host_monitor import NULL_MONITOR, HostMonitor
from outlier.releases import Behaviour, EnvoyRelease, EventLogFormat
from outlier.result import Result, grpc_to_http_status
from outlier.runtime import Enforcement, Runtime
from outlier.scenario import Scenario
from outlier.simulate import Moment, MomentKind, Simulation, Span, simulate, spans
from outlier.sources import ListedRandom, RandomGenerator, SeededRandom, SimulatedTime, TimeSource
from outlier.stats import OutlierStats
from outlier.success_rate import EjectionThreshold
from outlier.verdict import (
    RateState,
    RunState,
    TimeLeft,
    Verdict,
    describe_detection,
    describe_limit,
    describe_unejection,
)

__all__ = [
    "NULL_MONITOR",
    "Action",
    "Behaviour",
    "ConfigError",
    "ConsecutiveEvidence",
    "Detection",
    "Detector",
    "EjectionEvent",
    "EjectionThreshold",
    "EjectionType",
    "Enforcement",
    "EnvoyRelease",
    "ErrorMatcher",
    "EventLogFormat",
    "FailurePercentageEvidence",
    "HostMonitor",
    "LimitCheck",
    "ListedRandom",
    "Moment",
    "MomentKind",
    "Origin",
    "Outcome",
    "OutlierDetection",
    "OutlierError",
    "OutlierStats",
    "RandomGenerator",
    "RateState",
    "Result",
    "RunState",
    "Runtime",
    "Scenario",
    "ScenarioError",
    "SeededRandom",
    "SimulatedTime",
    "Simulation",
    "Span",
    "SuccessRateEvidence",
    "TimeLeft",
    "TimeSource",
    "Unejection",
    "UnejectionCause",
    "Unmet",
    "Verdict",
    "describe_detection",
    "describe_limit",
    "describe_unejection",
    "grpc_to_http_status",
    "simulate",
    "spans",
]
