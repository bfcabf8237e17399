"""The family `istio`: what Istio accepts, how it converts, what it selects and how it is fed."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.istio_conversion import run_cluster, run_outlier, run_outlier_history
from tests.conformance.istio_locality import run_locality
from tests.conformance.istio_route import run_route
from tests.conformance.istio_select import run_duration, run_merge, run_select
from tests.conformance.istio_validation import run_validation
from tests.conformance.mcp import run_mcp
from tests.conformance.mcp_xds import run_mcp_xds
from tests.conformance.propagation import run_propagation
from tests.conformance.runner import Case, Family

Run = Callable[[Mapping[str, Any], Mapping[str, Any]], None]

_KINDS: Mapping[str, Run] = {
    "cluster": run_cluster,
    "duration": run_duration,
    "locality": run_locality,
    "mcp": run_mcp,
    "mcp_xds": run_mcp_xds,
    "merge": run_merge,
    "outlier": run_outlier,
    "outlier_history": run_outlier_history,
    "propagation": run_propagation,
    "route": run_route,
    "select": run_select,
    "validation": run_validation,
}


def _kind(document: Any) -> str:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return kind.split()[0] if isinstance(kind, str) else ""


def _cases(_path: Path, document: Any) -> Iterator[Case]:
    run = _KINDS[_kind(document)]
    for case in document["cases"]:
        yield Case(case["id"], partial(run, case, document))


FAMILY = Family(
    name="istio",
    recognises=lambda document: _kind(document) in _KINDS,
    cases=_cases,
)
