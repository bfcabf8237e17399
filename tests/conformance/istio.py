"""The family `istio`: what Istio accepts, how it converts and what it selects."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.istio_conversion import run_cluster, run_outlier, run_outlier_history
from tests.conformance.istio_locality import run_locality
from tests.conformance.istio_route import run_route
from tests.conformance.istio_select import run_duration, run_merge, run_select
from tests.conformance.istio_validation import run_validation
from tests.conformance.runner import Case, Family, Skipped

Run = Callable[[Mapping[str, Any], Mapping[str, Any]], None]

_KINDS: Mapping[str, Run] = {
    "cluster": run_cluster,
    "duration": run_duration,
    "locality": run_locality,
    "merge": run_merge,
    "outlier": run_outlier,
    "outlier_history": run_outlier_history,
    "route": run_route,
    "select": run_select,
    "validation": run_validation,
}
_OTHER_KINDS = frozenset({"mcp", "mcp_xds", "propagation"})


def _skip(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    raise Skipped(f"{case['id']}: the feed is not conformance-tested here")


def _kind(document: Any) -> str:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return kind.split()[0] if isinstance(kind, str) else ""


def _cases(_path: Path, document: Any) -> Iterator[Case]:
    run = _KINDS.get(_kind(document), _skip)
    for case in document["cases"]:
        yield Case(case["id"], partial(run, case, document))


FAMILY = Family(
    name="istio",
    recognises=lambda document: _kind(document) in _KINDS.keys() | _OTHER_KINDS,
    cases=_cases,
)
