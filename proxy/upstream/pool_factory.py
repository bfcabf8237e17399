"""Which pools a host gets: by the cluster's protocol, and by name where TLS asks for the request's host."""

import asyncio

from outlier import RandomGenerator
from proxy.codec.http2_options import Http2Stats
from proxy.config.cluster_config import ClusterConfig
from proxy.deadlines import Deadlines
from proxy.upstream.connection_pool import ConnectionPool
from proxy.upstream.host import Host
from proxy.upstream.http2_pool import Http2Pool
from proxy.upstream.named_pools import NamedPools
from proxy.upstream.protocol_pools import ProtocolPools
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.tls import UpstreamTlsSocket


def may_speak_http2(config: ClusterConfig) -> bool:
    """Return whether any request of the cluster goes out as HTTP/2."""
    return config.h2_upstream is not None or config.use_downstream_protocol


def make_pool(
    host: Host,
    config: ClusterConfig,
    *,
    resources: ResourceManager,
    stats: ClusterStats,
    deadlines: Deadlines,
    loop: asyncio.AbstractEventLoop,
    random: RandomGenerator,
    tls: UpstreamTlsSocket | None,
) -> ConnectionPool | NamedPools | ProtocolPools:
    """Return what carries requests to `host`; the arguments are those of `ConnectionPool` and `Http2Pool`."""
    if stats.http2 is None and may_speak_http2(config):
        stats.http2 = Http2Stats()

    def new_pool(server_name: str, *, http2: bool) -> ConnectionPool:
        if http2:
            assert stats.http2 is not None
            return Http2Pool(
                host,
                config,
                resources=resources,
                stats=stats,
                http2_stats=stats.http2,
                deadlines=deadlines,
                loop=loop,
                random=random,
                tls=tls,
                server_name=server_name,
            )
        return ConnectionPool(
            host,
            config,
            resources=resources,
            stats=stats,
            deadlines=deadlines,
            loop=loop,
            tls=tls,
            server_name=server_name,
        )

    def of_protocol(*, http2: bool) -> ConnectionPool | NamedPools:
        if tls is not None and tls.auto_sni:
            return NamedPools(config, lambda name: new_pool(name, http2=http2))
        return new_pool("" if tls is None else tls.config.sni, http2=http2)

    if config.use_downstream_protocol:
        return ProtocolPools(of_protocol(http2=False), of_protocol(http2=True))
    return of_protocol(http2=config.h2_upstream is not None)
