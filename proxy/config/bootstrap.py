"""What a sidecar is started with: the options of `outlier run`, whatever place each was set in.

One declaration per option, in `Bootstrap`; flag, environment variable, key of the bootstrap file, help text and reader
follow from it. `bootstrap_loader` reads them. Resources (DestinationRules, ...) are not read here.
"""

import enum
import socket
from pathlib import Path

import attrs

from outlier import EnvoyRelease
from proxy.config.address import Address
from proxy.config.cluster_config import Locality
from proxy.config.dns import DnsLookupFamily, DnsSettings, read_resolver
from proxy.config.feed_mode import FeedMode
from proxy.config.health_check import HealthCheckRule
from proxy.config.listener_options import ListenerOptions
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import NodeConfig
from proxy.config.option import (
    OPTION,
    Option,
    choice,
    described,
    integer,
    read_label,
    read_path,
    read_switch,
    read_text,
    seconds,
)
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.source_options import (
    DEFAULT_KEEPALIVE_MS,
    DEFAULT_MAX_MESSAGE_BYTES,
    ConnectionOptions,
    Source,
    SourceTls,
)
from proxy.logs import LogFormat, LogLevel

STDOUT = Path("-")


class LoopChoice(enum.Enum):
    """Which event loop runs the sidecar; AUTO takes uvloop where it is installed."""

    AUTO = "auto"
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


@attrs.frozen
class ServiceListener:
    """A listener that sends everything to one service; `port` None means the service's only port."""

    host: str
    port: int | None
    address: Address

    @classmethod
    def parse(cls, text: str) -> "ServiceListener":
        """Read `HOST[:PORT]=ADDR`.

        Raises:
            ValueError: The text has another form; the message is the rule it breaks.
        """
        service, equals, address = text.partition("=")
        host, _, port = service.partition(":")
        if not equals or not host:
            raise ValueError("must be HOST[:PORT]=ADDR")
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
            raise ValueError("must have a service port in 1..65535")
        return cls(host, int(port) if port else None, Address.parse(address))

    @property
    def service(self) -> str:
        """`HOST` or `HOST:PORT`, as it was given."""
        return self.host if self.port is None else f"{self.host}:{self.port}"


def _read_istio_release(text: str) -> IstioRelease:
    try:
        return IstioRelease.parse(text)
    except ValueError:
        raise ValueError("must be current or a version such as 1.1") from None


@attrs.frozen(kw_only=True)
class Bootstrap(ListenerOptions):
    """Everything `outlier run` can be told. Fields hold read values; the options' names are in `options()`."""

    config_paths: tuple[Path, ...] = attrs.field(
        default=(),
        metadata=described(
            read_path,
            "PATH",
            "file or folder of resources, watched; repeatable",
            name="config",
            many=True,
            is_path=True,
        ),
    )
    sources: tuple[Source, ...] = attrs.field(
        default=(),
        metadata=described(
            Source.parse,
            "URL",
            "fs:///path; mcp://, xds:// or xds-delta://host:port; mcp-listen://ADDR for sources that dial; repeatable",
            name="source",
            many=True,
        ),
    )
    source_mode: FeedMode = attrs.field(
        default=FeedMode.SPEC,
        metadata=described(
            choice(FeedMode),
            "MODE",
            "a bad resource of a server: spec keeps its last good version, strict refuses the message, pilot drops it",
        ),
    )
    source_start_timeout_ms: int = attrs.field(
        default=10_000,
        metadata=described(
            seconds(3600),
            "SECONDS",
            "how long servers may be unreachable at the start; 0 waits for ever",
            name="source_start_timeout",
        ),
    )
    source_max_message_bytes: int = attrs.field(
        default=DEFAULT_MAX_MESSAGE_BYTES,
        metadata=described(
            integer(1024, 2**31 - 1), "BYTES", "largest message taken from a server", name="source_max_message_size"
        ),
    )
    source_keepalive_ms: int = attrs.field(
        default=DEFAULT_KEEPALIVE_MS,
        metadata=described(
            seconds(86_400), "SECONDS", "silence after which a server is probed", name="source_keepalive"
        ),
    )
    source_tls_ca: Path | None = attrs.field(
        default=None,
        metadata=described(
            read_path, "FILE", "servers speak TLS, with a certificate of this authority (PEM)", is_path=True
        ),
    )
    source_tls_certificate: Path | None = attrs.field(
        default=None, metadata=described(read_path, "FILE", "shown to servers (PEM), for mutual TLS", is_path=True)
    )
    source_tls_key: Path | None = attrs.field(
        default=None, metadata=described(read_path, "FILE", "key of that certificate (PEM)", is_path=True)
    )
    source_tls_server_name: str = attrs.field(
        default="", metadata=described(read_text, "NAME", "whom a server's certificate must be for; default its host")
    )
    debounce_after_ms: int = attrs.field(
        default=100,
        metadata=described(
            seconds(3600), "SECONDS", "changes are applied once they pause this long", name="debounce_after"
        ),
    )
    debounce_max_ms: int = attrs.field(
        default=10_000,
        metadata=described(
            seconds(3600), "SECONDS", "or once the first of them has waited this long", name="debounce_max"
        ),
    )
    debounce_endpoints: bool = attrs.field(
        default=True,
        metadata=described(read_switch, "true|false", "whether changes of endpoints only wait, too"),
    )
    listen: Address = attrs.field(
        default=Address("127.0.0.1", 15_001),
        metadata=described(Address.parse, "ADDR", "outbound HTTP listener; the authority chooses the service"),
    )
    services: tuple[ServiceListener, ...] = attrs.field(
        default=(),
        metadata=described(
            ServiceListener.parse,
            "HOST[:PORT]=ADDR",
            "a listener of its own for one service, whatever the Host header says; repeatable",
            name="service",
            many=True,
            pairs=True,
        ),
    )
    admin: Address = attrs.field(
        default=Address("127.0.0.1", 15_000), metadata=described(Address.parse, "ADDR", "admin endpoints")
    )
    event_log: Path | None = attrs.field(
        default=None,
        metadata=described(read_path, "FILE", "Envoy's outlier event log, one JSON object a line", is_path=True),
    )
    access_log: Path | None = attrs.field(
        default=None,
        metadata=described(read_path, "FILE", "one JSON object a request; - is stdout", is_path=True),
    )
    envoy_release: EnvoyRelease = attrs.field(
        default=EnvoyRelease.V1_40,
        metadata=described(choice(EnvoyRelease), "RELEASE", "detection semantics: 1.8, 1.27 or 1.40"),
    )
    istio_release: IstioRelease = attrs.field(
        default=CURRENT,
        metadata=described(_read_istio_release, "RELEASE", "conversion semantics: 1.0.0, 1.1, .. or current"),
    )
    node_id: str = attrs.field(
        default="",
        metadata=described(read_text, "ID", "who this sidecar is; made of host name and namespace when not given"),
    )
    namespace: str = attrs.field(
        default="default", metadata=described(read_text, "NAMESPACE", "namespace of this sidecar's workload")
    )
    labels: tuple[tuple[str, str], ...] = attrs.field(
        default=(),
        metadata=described(read_label, "K=V,..", "labels of this sidecar's workload", many=True, pairs=True),
    )
    locality: Locality = attrs.field(
        default=Locality(), metadata=described(Locality.parse, "R/Z/S", "region, zone and sub-zone of this sidecar")
    )
    dns_resolvers: tuple[Address, ...] = attrs.field(
        default=(),
        metadata=described(
            read_resolver,
            "ADDR",
            "DNS server, ip or ip:port, asked for names of hosts; repeatable; default the system's",
            name="dns_resolver",
            many=True,
        ),
    )
    dns_lookup_family: DnsLookupFamily = attrs.field(
        default=DnsLookupFamily.V4_ONLY,
        metadata=described(
            choice(DnsLookupFamily), "FAMILY", "addresses looked up: v4_only, v6_only, v4_preferred, auto or all"
        ),
    )
    drain_time_ms: int = attrs.field(
        default=5_000,
        metadata=described(
            seconds(3600),
            "SECONDS",
            "how long a stopping sidecar waits for requests under way",
            name="drain_time",
        ),
    )
    loop: LoopChoice = attrs.field(
        default=LoopChoice.AUTO,
        metadata=described(choice(LoopChoice), "LOOP", "event loop: auto, uvloop or asyncio"),
    )
    log_format: LogFormat = attrs.field(
        default=LogFormat.CONSOLE,
        metadata=described(choice(LogFormat), "FORMAT", "how log lines look: console or json"),
    )
    log_level: LogLevel = attrs.field(
        default=LogLevel.INFO,
        metadata=described(
            choice(LogLevel), "LEVEL", "least severe log line: trace, debug, info, warning, error, critical or off"
        ),
    )

    # In the bootstrap file only: no text of one line says it.
    health_checks: tuple[HealthCheckRule, ...] = ()
    mesh: MeshConfig = MeshConfig()  # noqa: RUF009 - frozen

    @property
    def dns(self) -> DnsSettings:
        """How names of hosts are looked up."""
        return DnsSettings(resolvers=self.dns_resolvers, lookup_family=self.dns_lookup_family)

    @property
    def source_connection(self) -> ConnectionOptions:
        """How servers of configuration are reached; any TLS option means TLS."""
        tls = SourceTls(
            ca=self.source_tls_ca,
            certificate=self.source_tls_certificate,
            key=self.source_tls_key,
            server_name=self.source_tls_server_name,
        )
        return ConnectionOptions(
            max_message_bytes=self.source_max_message_bytes,
            keepalive_ms=self.source_keepalive_ms,
            tls=tls if tls != SourceTls() else None,
        )

    @property
    def node(self) -> NodeConfig:
        """Who this sidecar is, as far as its view of the configuration depends on it.

        Without `node_id` the id has Istio's form, `sidecar~<ip>~<pod>.<namespace>~<namespace>.svc.cluster.local`.
        """
        made = f"sidecar~127.0.0.1~{socket.gethostname()}.{self.namespace}~{self.namespace}.svc.cluster.local"
        return NodeConfig(
            id=self.node_id or made, namespace=self.namespace, labels=dict(self.labels), locality=self.locality
        )


def options() -> tuple[Option, ...]:
    """Return every option of `outlier run` that has a flag, but `--bootstrap`, in the order of its help."""
    fields = [field for field in attrs.fields(Bootstrap) if OPTION in field.metadata]
    of_listeners = {field.name for field in attrs.fields(ListenerOptions)}
    fields.sort(key=lambda field: field.name in of_listeners)  # attrs has what is inherited first
    described = ((field.name, field.metadata[OPTION]) for field in fields)
    return tuple(attrs.evolve(option, field=name, name=option.name or name) for name, option in described)
