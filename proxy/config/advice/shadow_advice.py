"""Warnings about the annotation that tries out another `outlierDetection`."""

from collections.abc import Iterator

from proxy.config.issue import Issue, Report, Severity
from proxy.config.resource import Resource
from proxy.config.shadow import SHADOW_ANNOTATION, read_shadow
from proxy.config.static_config import StaticConfig


def shadow_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what keeps the annotation from being used."""
    report = Report()
    read_shadow(resource, report)
    for issue in report:
        if issue.severity is Severity.ERROR:
            where = ".".join(map(str, issue.path))
            rule = f"annotation {SHADOW_ANNOTATION}, ignored: {where + ' ' if where else ''}{issue.rule}"
            yield config.issue(resource, (), rule)
