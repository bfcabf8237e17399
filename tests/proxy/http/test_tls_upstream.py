"""Requests to hosts that speak TLS; details and flags are those recorded from Envoy 1.40."""

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from outlier import Result
from proxy.config.cluster_config import TlsMode, UpstreamTls
from proxy.testing import FaultyUpstream
from tests.proxy.certificates import authority, issued, write_ca, write_crl, write_pair
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import ManualClock, Sidecar, cluster_config, logged, until
from tests.proxy.http.tls_upstream import TlsUpstream

FAILED = b"upstream connect error or disconnect/reset before headers. reset reason: remote connection failure"


def tls(folder: Path, *, ca: str = "ours", **fields: Any) -> UpstreamTls:
    """Return settings that trust one authority and ask for `good.test`."""
    defaults = {"mode": TlsMode.SIMPLE, "sni": "good.test", "ca_certificates": str(write_ca(folder, ca))}
    return UpstreamTls(**(defaults | fields))


def get(host: str) -> bytes:
    return f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def seen(sidecar: Sidecar, host: str = "a") -> dict[str, Any]:
    response = await (await sidecar.client()).request(get(host))
    assert response.status == 200
    return json.loads(response.body)


async def failure(sidecar: Sidecar, host: str = "a") -> str:
    """Send a request that cannot be connected for, and return what follows the reset's reason in the details."""
    response = await (await sidecar.client()).request(get(host))
    assert (response.status, response.body) == (503, FAILED)
    code, flags, details, _ = logged(sidecar)
    assert (code, flags) == (503, "UF")
    start = "upstream_reset_before_response_started{remote_connection_failure|"
    assert details.startswith(start)
    return details.removeprefix(start).removesuffix("}")


async def test_request_goes_through_tls_with_the_configured_sni(tmp_path):
    async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar:
        assert await seen(sidecar) == {"sni": "good.test", "version": "TLSv1.3", "client": False}
        await seen(sidecar)

        assert (upstream.requests, len(upstream.handshakes)) == (2, 1)


async def test_tls_1_2_will_do_and_older_will_not(tmp_path):
    async with (
        TlsUpstream("good.test", maximum_version=ssl.TLSVersion.TLSv1_2) as upstream,
        Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar,
    ):
        assert (await seen(sidecar))["version"] == "TLSv1.2"


async def test_stranger_s_certificate_is_a_connect_failure(tmp_path):
    settings = tls(tmp_path, ca="other")
    async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
        (reports,) = sidecar.record()

        assert await failure(sidecar) == (
            "TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify_cert_failed:"
            "_X509_verify_cert:_certificate_verification_error:_unable_to_get_local_issuer_certificate:TLS_error_end"
        )
        assert upstream.requests == 0
        assert (sidecar.stat("upstream_cx_connect_fail"), sidecar.stat("upstream_rq_pending_failure_eject")) == (1, 1)
        assert reports == [(Result.LOCAL_ORIGIN_CONNECT_FAILED, None)]


@pytest.mark.parametrize("names", [("good.test",), ("other.test", "GOOD.test"), ("a.wild.test",), ("127.0.0.1",)])
async def test_one_of_the_configured_names_is_enough(tmp_path, names):
    settings = tls(tmp_path, subject_alt_names=names)
    async with (
        TlsUpstream("good.test", "*.wild.test", "127.0.0.1") as upstream,
        Sidecar(upstream.address, tls=settings) as sidecar,
    ):
        assert (await seen(sidecar))["sni"] == "good.test"


async def test_certificate_for_nobody_configured_is_a_connect_failure(tmp_path):
    settings = tls(tmp_path, subject_alt_names=("x.test", "b.a.wild.test"))
    async with (
        TlsUpstream("good.test", "*.wild.test") as upstream,
        Sidecar(upstream.address, tls=settings) as sidecar,
    ):
        assert await failure(sidecar) == (
            "TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify_cert_failed:"
            "_SAN_matcher,_certificate_SANs_are_[good.test,_*.wild.test]:TLS_error_end"
        )
        assert upstream.requests == 0


async def test_sni_without_names_takes_any_certificate_of_the_authority(tmp_path):
    """As Istio has it: only the chain is verified."""
    async with TlsUpstream("else.test") as upstream, Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar:
        assert (await seen(sidecar))["sni"] == "good.test"


async def test_revoked_certificate_is_a_connect_failure_and_another_is_not(tmp_path):
    settings = tls(tmp_path, ca_crl=str(write_crl(tmp_path, issued("gone.test"))))
    async with TlsUpstream("gone.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
        assert "certificate_revoked" in await failure(sidecar)
    async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
        assert (await seen(sidecar))["sni"] == "good.test"


class TestWithoutSni:
    """Istio's default: SNI and the demanded name are the request's host (`auto_sni`, `auto_san_validation`)."""

    async def test_host_is_asked_for_without_its_port(self, tmp_path):
        async with (
            TlsUpstream("good.test") as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path, sni="")) as sidecar,
        ):
            assert (await seen(sidecar, "Good.test:8443"))["sni"] == "good.test"

    async def test_certificate_must_be_for_it(self, tmp_path):
        async with (
            TlsUpstream("good.test") as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path, sni="")) as sidecar,
        ):
            assert await failure(sidecar, "nope.test") == (
                "TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify_cert_failed:"
                "_verify_SAN_list,_expected_SANs:_[nope.test],_certificate_SANs:_[good.test]:TLS_error_end"
            )

    async def test_address_is_demanded_but_not_asked_for(self, tmp_path):
        async with (
            TlsUpstream("127.0.0.1") as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path, sni="")) as sidecar,
        ):
            assert (await seen(sidecar, "127.0.0.1:80"))["sni"] is None

    async def test_connection_carries_requests_for_its_name_only(self, tmp_path):
        async with (
            TlsUpstream("a.test", "b.test") as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path, sni="")) as sidecar,
        ):
            for host in ("a.test", "b.test", "a.test:80", "b.test"):
                assert (await seen(sidecar, host))["sni"] == host.removesuffix(":80")

            assert upstream.handshakes == ["a.test", "b.test"]
            assert sidecar.cluster.hosts[0].cx_active == 2

    async def test_any_name_will_do_where_nothing_is_verified(self, tmp_path):
        settings = UpstreamTls(mode=TlsMode.SIMPLE, verify=False)
        async with TlsUpstream("else.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
            assert (await seen(sidecar, "nope.test"))["sni"] == "nope.test"


class TestMutual:
    async def test_certificate_is_shown(self, tmp_path):
        pair = write_pair(tmp_path, "client.test")
        settings = tls(
            tmp_path, mode=TlsMode.MUTUAL, client_certificate=str(pair.certificate), private_key=str(pair.key)
        )
        async with (
            TlsUpstream("good.test", client_ca="ours") as upstream,
            Sidecar(upstream.address, tls=settings) as sidecar,
        ):
            assert (await seen(sidecar))["client"] is True

    async def test_host_that_wants_one_and_gets_none_ends_the_connection(self, tmp_path):
        """In TLS 1.3 the handshake is over by then: Envoy has UC, not UF."""
        async with (
            TlsUpstream("good.test", client_ca="ours") as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar,
        ):
            response = await (await sidecar.client()).get()

            assert response.status == 503
            details = "upstream_reset_before_response_started{connection_termination}"
            assert logged(sidecar) == (503, "UC", details, 1)

    async def test_in_tls_1_2_it_fails_the_handshake(self, tmp_path):
        async with (
            TlsUpstream("good.test", client_ca="ours", maximum_version=ssl.TLSVersion.TLSv1_2) as upstream,
            Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar,
        ):
            assert (await (await sidecar.client()).get()).status == 503
            assert logged(sidecar)[1] == "UF"


async def test_host_that_speaks_plain_text_is_a_connect_failure(tmp_path):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async with RawUpstream(serve) as upstream, Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar:
        reason = await failure(sidecar)

    assert reason.endswith(":TLS_error_end")
    assert "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason


async def test_host_that_goes_away_in_the_handshake_is_a_connect_failure(tmp_path):
    async def serve(reader, writer):
        await reader.read(1)
        writer.close()

    async with RawUpstream(serve) as upstream, Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, logged(sidecar)[1]) == (503, "UF")


async def test_connect_timeout_covers_the_handshake(tmp_path):
    clock = ManualClock()
    started = []

    async def serve(reader, writer):
        started.append(await reader.read(1))

    async with (
        RawUpstream(serve) as upstream,
        Sidecar(upstream.address, tls=tls(tmp_path), clock=clock, connect_timeout_ms=500) as sidecar,
    ):
        client = await sidecar.client()
        client.send(get("a"))
        await until(lambda: started)
        clock.advance(499)
        assert sidecar.stat("upstream_cx_connect_timeout") == 0
        clock.advance(1)
        response = await client.response()

        assert response.body.endswith(b"reset reason: connection timeout")
        assert sidecar.stat("upstream_cx_connect_timeout") == 1


class TestFiles:
    async def test_new_connections_use_what_the_files_hold_now(self, tmp_path):
        ca = write_ca(tmp_path, "other")
        settings = tls(tmp_path, ca="other")
        async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
            client = await sidecar.client()
            assert (await client.get()).status == 503
            authority("ours").cert_pem.write_to_path(ca)
            with capture_logs() as logs:
                assert (await client.get()).status == 200

        (line,) = [line for line in logs if line["event"].startswith("tls.")]
        assert (line["event"], line["owner"]) == ("tls.files_reloaded", sidecar.cluster.name)

    async def test_broken_file_leaves_the_one_before_and_says_so_once(self, tmp_path):
        settings, ca = tls(tmp_path), tmp_path / "ours.pem"
        async with (
            TlsUpstream("good.test") as upstream,
            Sidecar(upstream.address, tls=settings, max_requests_per_connection=1) as sidecar,
        ):
            client = await sidecar.client()
            assert (await client.get()).status == 200
            ca.write_text("no certificate")
            with capture_logs() as logs:
                assert [(await client.get()).status for _ in range(2)] == [200, 200]

        (line,) = [line for line in logs if line["event"].startswith("tls.")]
        assert (line["event"], line["log_level"]) == ("tls.files_not_loaded", "warning")

    async def test_missing_file_is_a_connect_failure_that_names_it_and_heals(self, tmp_path):
        ca = tmp_path / "missing.pem"
        settings = tls(tmp_path, ca_certificates=str(ca))
        async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
            assert str(ca) in await failure(sidecar)
            authority("ours").cert_pem.write_to_path(ca)
            assert (await (await sidecar.client()).get()).status == 200

    async def test_encrypted_key_is_refused_without_a_question(self, tmp_path):
        pair = write_pair(tmp_path, "client.test")
        lines = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "MAA=", "-----END ENCRYPTED PRIVATE KEY-----", ""]
        pair.key.write_text("\n".join(lines))
        settings = tls(
            tmp_path, mode=TlsMode.MUTUAL, client_certificate=str(pair.certificate), private_key=str(pair.key)
        )
        async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=settings) as sidecar:
            assert (await failure(sidecar)).startswith("TLS_error:_not_usable")


async def test_credential_name_is_a_connect_failure_that_says_why():
    settings = UpstreamTls(mode=TlsMode.SIMPLE, credential_name="bookinfo")
    async with FaultyUpstream() as upstream, Sidecar(upstream, tls=settings) as sidecar:
        assert await failure(sidecar) == "TLS_error:_credentialName_bookinfo_needs_a_mesh;_use_files"
        assert upstream.connection_count == 0


async def test_hosts_start_afresh_when_their_connections_are_secured_otherwise(tmp_path):
    """A connection in the clear must not carry what is now to be secured."""
    async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address) as sidecar:
        before = sidecar.cluster.hosts[0]
        assert (await (await sidecar.client()).get()).status == 503
        sidecar.apply(cluster_config([upstream.address], tls=tls(tmp_path)))
        assert (await seen(sidecar))["sni"] == "good.test"
        assert sidecar.cluster.hosts[0] is not before
        kept = sidecar.cluster.hosts[0]
        sidecar.apply(cluster_config([upstream.address], tls=tls(tmp_path), idle_timeout_ms=1_000))

        assert sidecar.cluster.hosts[0] is kept


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "handshake"),
        ({"ca": "other"}, "fail_verify_error"),
        ({"subject_alt_names": ("x.test",)}, "fail_verify_san"),
    ],
)
async def test_each_handshake_counts_once_by_its_end(tmp_path, fields, name):
    async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=tls(tmp_path, **fields)) as sidecar:
        await (await sidecar.client()).get()

        names = ("connection_error", "fail_verify_error", "fail_verify_san", "handshake")
        assert [each for each in names if sidecar.stat(f"ssl.{each}") == 1] == [name]
        sidecar.cluster.reset_counters()
        assert sum(sidecar.stat(f"ssl.{each}") for each in names) == 0
