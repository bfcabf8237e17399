# ruff: noqa: RUF009 - the field functions return attrs.field()
"""What the whole mesh shares: the parts of Istio's MeshConfig that reach a client's sidecar."""

from collections.abc import Mapping

import attrs

from proxy.config.destination_rule import (
    H2UpgradePolicy,
    LocalityLbSetting,
    TcpKeepalive,
    TrafficPolicy,
    ZoneAwareLbSetting,
)
from proxy.config.issue import Report
from proxy.config.message import Message, duration, enumeration, message, read_string, repeated
from proxy.config.virtual_service import HttpRetry
from proxy.config.visibility import PUBLIC

_DEFAULT_CONNECT_TIMEOUT = 10_000_000_000
_DEFAULT_DNS_REFRESH = 60_000_000_000


@attrs.frozen(kw_only=True)
class MeshConfig(Message):
    """Mesh-wide defaults, by their names in MeshConfig; unset ones are Istio's."""

    connect_timeout: int | None = duration()
    dns_refresh_rate: int | None = duration()
    tcp_keepalive: TcpKeepalive | None = message(TcpKeepalive)
    h2_upgrade_policy: H2UpgradePolicy = enumeration(H2UpgradePolicy, H2UpgradePolicy.DEFAULT)
    locality_lb_setting: LocalityLbSetting | None = message(LocalityLbSetting)
    zone_aware_lb_setting: ZoneAwareLbSetting | None = message(ZoneAwareLbSetting)
    default_traffic_policy: TrafficPolicy | None = message(TrafficPolicy)
    default_http_retry_policy: HttpRetry | None = message(HttpRetry)
    default_service_export_to: tuple[str, ...] = repeated(read_string)
    default_virtual_service_export_to: tuple[str, ...] = repeated(read_string)
    default_destination_rule_export_to: tuple[str, ...] = repeated(read_string)

    @property
    def connect_timeout_ns(self) -> int:
        """The timeout of connects that no rule sets."""
        return self.connect_timeout or _DEFAULT_CONNECT_TIMEOUT

    @property
    def service_export(self) -> str:
        """Who sees a service without exportTo."""
        return next(iter(self.default_service_export_to), PUBLIC)

    @property
    def virtual_service_export(self) -> str:
        """Who sees a VirtualService without exportTo."""
        return next(iter(self.default_virtual_service_export_to), PUBLIC)

    @property
    def destination_rule_export(self) -> str:
        """Who sees a DestinationRule without exportTo."""
        return next(iter(self.default_destination_rule_export_to), PUBLIC)

    @property
    def dns_refresh_ns(self) -> int:
        """The wait after a failed lookup."""
        return self.dns_refresh_rate or _DEFAULT_DNS_REFRESH


def read_mesh_config(value: Mapping[str, object], report: Report) -> MeshConfig:
    """Return the mesh's defaults from a JSON object such as the bootstrap file's `mesh`; report what cannot be read."""
    return MeshConfig.read(value, (), report)
