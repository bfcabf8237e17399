"""Reads the key `mesh` of the bootstrap file: mesh-wide defaults under their names in Istio's MeshConfig.

The file is ours, so everything that Istio would only warn about is refused as well.
"""

from collections.abc import Mapping

import attrs

from outlier import ConfigError
from proxy.config.document import DocumentError, read_documents, value_at
from proxy.config.issue import AS_WRITTEN, Report, StrictReport, format_path
from proxy.config.mesh_config import MeshConfig, read_mesh_config
from proxy.config.validate_destination_rule import check_traffic_policy
from proxy.config.validate_http_route import check_retries
from proxy.config.validate_load_balancer import check_locality_lb, check_zone_aware
from proxy.config.validation import check_duration, check_export_to

_NAMESPACE = "istio-system"  # where a MeshConfig lives; only `credentialName`s of other namespaces depend on it
_KEY = "mesh"


def read_mesh(text: str, place: str) -> MeshConfig:
    """Read the value of `mesh`.

    Args:
        text: The whole bootstrap file, a mapping with that key: values have their types here, unlike those of options.
        place: Where the value stands, for messages.

    Raises:
        ConfigError: A field is unknown, or its value refused.
    """
    try:
        document = read_documents(text)[0]
    except DocumentError as exc:
        raise ConfigError(place, "...", f"cannot be read: {exc.reason}") from exc
    value = value_at(document, (_KEY,))
    if value is None:
        return MeshConfig()
    if not isinstance(value, Mapping):
        raise ConfigError(place, value, "must be a mapping")
    report = StrictReport()
    mesh = read_mesh_config(value, report)
    _check(mesh, report)
    for issue in report:
        if issue.value is AS_WRITTEN:
            issue = attrs.evolve(issue, value=value_at(document, (_KEY, *issue.path)))
        raise ConfigError(f"{place}.{format_path(issue.path)}", issue.value_text, issue.rule)
    return mesh


def _check(mesh: MeshConfig, report: Report) -> None:
    """Report what Istio says about each field; whether outlierDetection stands beside a locality is a rule's matter."""
    check_duration(mesh.connect_timeout, ("connectTimeout",), report)
    check_duration(mesh.dns_refresh_rate, ("dnsRefreshRate",), report)
    if mesh.tcp_keepalive is not None:
        check_duration(mesh.tcp_keepalive.time, ("tcpKeepalive", "time"), report)
        check_duration(mesh.tcp_keepalive.interval, ("tcpKeepalive", "interval"), report)
    if mesh.locality_lb_setting is not None:
        check_locality_lb(mesh.locality_lb_setting, ("localityLbSetting",), report, outlier=True)
    if mesh.zone_aware_lb_setting is not None:
        check_zone_aware(mesh.zone_aware_lb_setting, ("zoneAwareLbSetting",), report, outlier=True)
    if mesh.default_traffic_policy is not None:
        check_traffic_policy(mesh.default_traffic_policy, _NAMESPACE, ("defaultTrafficPolicy",), report)
    if mesh.default_http_retry_policy is not None:
        check_retries(mesh.default_http_retry_policy, ("defaultHttpRetryPolicy",), report)
    check_export_to(mesh.default_service_export_to, _NAMESPACE, ("defaultServiceExportTo",), report, none=True)
    check_export_to(
        mesh.default_virtual_service_export_to, _NAMESPACE, ("defaultVirtualServiceExportTo",), report, none=True
    )
    check_export_to(mesh.default_destination_rule_export_to, _NAMESPACE, ("defaultDestinationRuleExportTo",), report)
