"""Surprises of a text that its values no longer show: keys that stand twice."""

from collections.abc import Iterator

from proxy.config.issue import Issue
from proxy.config.resource import Resource
from proxy.config.static_config import StaticConfig


def text_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield the keys of which only the last one counts."""
    for path, lines in config.repeated_keys(resource):
        places = " and ".join(map(str, lines))
        yield config.issue(resource, path, f"stands in lines {places}; only the last one counts, the others are lost")
