"""Health checks of a cluster whose connections are secured are secured the same way."""

import pytest

from proxy.config.cluster_config import TlsMode, UpstreamTls
from proxy.config.health_check import HealthCheck, HealthCheckRule, HealthCheckRules, HttpHealthCheck, TcpHealthCheck
from tests.proxy.certificates import write_ca
from tests.proxy.cluster.environment import live_cluster
from tests.proxy.http.sidecar import cluster_config, until
from tests.proxy.http.tls_upstream import TlsUpstream

TIMES = {"timeout_ms": 30_000, "interval_ms": 60_000, "unhealthy_threshold": 1, "healthy_threshold": 1}


@pytest.mark.parametrize(
    ("sni", "ca", "flags"),
    [("good.test", "ours", "healthy"), ("", "ours", "healthy"), ("good.test", "theirs", "/failed_active_hc")],
    ids=["right name", "no name", "strange authority"],
)
@pytest.mark.parametrize("check", [HttpHealthCheck(path="/"), TcpHealthCheck()], ids=["http", "tcp"])
async def test_a_check_passes_if_a_request_could_be_sent(tmp_path, check, sni, ca, flags):
    tls = UpstreamTls(mode=TlsMode.SIMPLE, sni=sni, ca_certificates=str(write_ca(tmp_path, ca)))
    rules = HealthCheckRules([HealthCheckRule("*", None, HealthCheck(check=check, **TIMES))])
    async with TlsUpstream("good.test") as upstream:
        cluster = live_cluster(cluster_config([upstream.address], tls=tls), health_checks=rules)
        await cluster.wait_initialized()

        assert cluster.hosts[0].health_flags_text() == flags
        if flags == "healthy":
            await until(lambda: upstream.handshakes)
            assert upstream.handshakes == [sni or None]
        cluster.close()
