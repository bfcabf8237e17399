"""A rule's second opinion: an `outlierDetection` block that is tried out beside the live one, in an annotation.

An annotation, since it travels with the rule from every source, changes with it, and means nothing to anybody else.
"""

from collections.abc import Iterable

import yaml

from proxy.config.cluster_config import ShadowSettings
from proxy.config.destination_rule import OutlierDetection as Block
from proxy.config.issue import Report
from proxy.config.outlier_conversion import convert_outlier_detection
from proxy.config.releases import IstioRelease
from proxy.config.resource import Resource
from proxy.config.validate_destination_rule import check_outlier_detection

SHADOW_ANNOTATION = "outlier-proxy/shadow"
_ENVOY_PANIC_THRESHOLD = 50.0  # percent; applies when none is sent


def read_shadow(resource: Resource, report: Report) -> Block | None:
    """Return the block in a rule's annotation, YAML or JSON; None without one, or with errors, which are reported."""
    text = resource.annotations.get(SHADOW_ANNOTATION)
    if text is None:
        return None
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        report.error((), text, f"cannot be parsed: {' '.join(str(exc).split())}")
        return None
    block = Block.read(value, (), report)
    if not report.has_errors:
        check_outlier_detection(block, (), report)
    return None if report.has_errors else block


def shadow_settings(resources: Iterable[Resource], release: IstioRelease) -> ShadowSettings | None:
    """Return what the first of a merged rule's resources with a good annotation tries out; None without one.

    It stands for every `outlierDetection` of the rule: of the whole, of its ports and of its subsets.
    """
    for resource in resources:
        block = read_shadow(resource, Report())
        if block is not None:
            conversion = convert_outlier_detection(block, release)
            detection = conversion.detection()
            assert detection is not None
            panic = _ENVOY_PANIC_THRESHOLD if conversion.panic is None else conversion.panic
            return ShadowSettings(detection=detection, panic_threshold=panic, error_codes=conversion.error_codes)
    return None
