"""Feeds over real gRPC on loopback: what a sidecar makes of sources that behave, and of those that do not."""

import asyncio
import contextlib
import subprocess

import attrs
import pytest
from structlog.testing import capture_logs

from proxy.config.feed_mode import FeedMode
from proxy.config.source_options import ConnectionOptions, SourceTls
from proxy.mcp.feed import SourceUnreachableError
from proxy.mcp.messages import Code, RequestResources, Resources
from proxy.mcp.transport import MCP_SOURCE_PATH, dial
from proxy.mcp.wire import request_from_bytes, request_to_bytes, resources_from_bytes, resources_to_bytes
from tests.proxy.mcp.builders import RULES, SERVICES
from tests.proxy.mcp.builders import rule as rule_envelope
from tests.proxy.mcp.builders import service as service_envelope
from tests.proxy.push.feed_rig import (
    PROTOCOLS,
    WAIT_S,
    Pipe,
    feeding,
    free_port,
    put,
    rule,
    scripted,
    service,
    serving,
    until,
)

pytestmark = pytest.mark.slow

PADDING = {"padding": "x" * 100_000}

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
async def test_configuration_comes_changes_and_goes(protocol):
    async with (
        serving(a=service("a"), b=service("b", "10.0.0.2")) as (server, address),
        feeding(f"{protocol}://{address}") as rig,
    ):
        await rig.feeds.wait_synced()
        assert rig.addresses == ["10.0.0.1:80", "10.0.0.2:80"]
        put(server, a=service("a", "10.0.0.9"))
        await rig.wait(lambda: rig.addresses == ["10.0.0.2:80", "10.0.0.9:80"])
        server.update("test", {}, ["a"])
        await rig.wait(lambda: rig.addresses == ["10.0.0.2:80"])


@every_protocol
async def test_an_empty_source_is_synced_and_silence_is_not(protocol):
    async with serving() as (_, address), feeding(f"{protocol}://{address}") as rig:
        await rig.feeds.wait_synced()
        assert rig.source.connection.synced

    async def silent(stream):
        while await stream.receive() is not None:
            pass

    async with scripted(silent) as address, feeding(f"{protocol}://{address}") as rig:
        assert rig.source.connection.connected
        assert not rig.source.connection.synced


@every_protocol
async def test_a_source_that_cannot_be_reached_ends_the_start(protocol):
    with pytest.raises(SourceUnreachableError, match="not reached within 300 ms"):
        async with feeding(f"{protocol}://127.0.0.1:{free_port()}", start_timeout_ms=300):
            pass


@every_protocol
async def test_a_source_that_comes_late_is_waited_for(protocol):
    port = free_port()

    async def start_late():
        async with feeding(f"{protocol}://127.0.0.1:{port}", start_timeout_ms=0) as rig:
            await rig.feeds.wait_synced()

    starting = asyncio.ensure_future(start_late())
    await asyncio.wait((starting,), timeout=0.1)
    assert not starting.done()
    async with serving(f"127.0.0.1:{port}"):
        await asyncio.wait_for(starting, WAIT_S)


@every_protocol
async def test_a_lost_source_keeps_its_configuration_and_is_found_again(protocol):
    port = free_port()
    url = f"{protocol}://127.0.0.1:{port}"
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(serving(f"127.0.0.1:{port}", a=service("a")))
        async with feeding(url) as rig:
            await rig.feeds.wait_synced()
            await first.aclose()
            await until(lambda: not rig.source.connection.connected)
            assert rig.addresses == ["10.0.0.1:80"]
            assert rig.source.stale_since_ms is not None
            async with serving(f"127.0.0.1:{port}", a=service("a", "10.0.0.9")):
                await rig.wait(lambda: rig.addresses == ["10.0.0.9:80"])
                assert rig.source.stale_since_ms is None
                assert rig.source.connection.reconnections == 2


@every_protocol
async def test_a_bad_rule_is_named_and_the_rest_is_in_force(protocol):
    async with (
        serving(a=service("a"), b=service("b")) as (server, address),
        feeding(f"{protocol}://{address}") as rig,
    ):
        await rig.feeds.wait_synced()
        # The source itself keeps what is bad to itself, so the bad rule is put behind its back.
        envelope = rule_envelope("default/a", "bad", max_ejection_percent=150)
        server.content._envelopes[RULES]["default/a"] = envelope
        with capture_logs() as logs:
            put(server, b=rule("b", 30) + "---\n" + service("b"))
            await rig.wait(lambda: any(c.outlier_detection for c in rig.pipeline.snapshot.clusters.values()))
        [issue] = rig.source.rejected

    assert issue.resource == "DestinationRule default/a"
    assert "body.trafficPolicy.outlierDetection.maxEjectionPercent = 150" in issue.message
    assert [log["event"] for log in logs].count("config.rejected") == 1


@every_protocol
async def test_twenty_mebibytes_arrive(protocol):
    async with serving() as (server, address):
        # Put behind the source's back: the same resource under many names need not be read from text.
        copies = [attrs.evolve(service_envelope(), name=f"ns/{n}", annotations=PADDING) for n in range(210)]
        server.content._envelopes[SERVICES] |= {one.name: one for one in copies}
        put(server, extra=service("extra"))
        async with feeding(f"{protocol}://{address}") as rig:
            await asyncio.wait_for(rig.feeds.wait_synced(), WAIT_S)

            assert rig.source.resources[SERVICES] == 211


async def test_more_than_the_largest_message_ends_the_stream_and_says_so():
    big = "\n---\n".join(service(f"s{number}") for number in range(100))
    async with serving(big=big) as (_, address):
        with capture_logs() as logs:
            async with feeding(f"mcp://{address}", options=ConnectionOptions(max_message_bytes=2_048)) as rig:
                await until(lambda: "RESOURCE_EXHAUSTED" in rig.source.connection.error)
                await asyncio.sleep(0.6)  # a second attempt fails alike
                assert rig.source.stale_since_ms is not None
    assert [log["event"] for log in logs].count("source.disconnected") == 1


@every_protocol
async def test_garbage_ends_the_stream_and_changes_nothing(protocol):
    async def garbage(stream):
        await stream.receive()
        await stream.send(b"\xff\xff\xff")
        while await stream.receive() is not None:  # the sink is to end the stream: it may have more to send
            pass

    async with scripted(garbage) as address:
        with capture_logs() as logs:
            async with feeding(f"{protocol}://{address}") as rig:
                await until(lambda: "not a" in rig.source.connection.error)
                await until(lambda: rig.source.connection.reconnections > 1)

    assert [log["event"] for log in logs].count("source.disconnected") == 1
    assert "source.connected" not in {log["event"] for log in logs}


def answering(messages, requests):
    """Return a script that sends messages, one after each request, and keeps the requests."""

    async def script(stream):
        for message in messages:
            requests.append(request_from_bytes(await stream.receive()))
            await stream.send(resources_to_bytes(message))
        while (data := await stream.receive()) is not None:
            requests.append(request_from_bytes(data))

    return script


async def test_an_unknown_collection_is_refused_and_the_others_go_on():
    requests = []
    unknown = Resources(collection="istio/other", nonce="1", resources=(rule_envelope(),))
    known = Resources(collection=SERVICES, nonce="2", resources=(service_envelope(),))
    async with scripted(answering([unknown, known], requests)) as address, feeding(f"mcp://{address}") as rig:
        await rig.wait(lambda: rig.addresses == ["10.0.0.1:80"])
        await until(lambda: len(requests) == 6)

    answers = {request.response_nonce: request for request in requests if request.response_nonce}
    assert answers["1"].error_detail.code == Code.UNIMPLEMENTED
    assert answers["2"].error_detail is None


async def test_a_payload_repeated_in_spite_of_refusals_is_told_once():
    requests = []
    bad = Resources(collection=RULES, nonce="1", resources=(rule_envelope("ns/a", max_ejection_percent=150),))
    async with scripted(answering([bad] * 50, requests)) as address:
        with capture_logs() as logs:
            async with feeding(f"mcp://{address}"):
                await until(lambda: len(requests) == 54)

    refused = [request for request in requests if request.error_detail is not None]
    assert len(refused) == 50
    assert [log["event"] for log in logs].count("config.rejected") == 1


async def test_a_stale_nonce_gets_no_answer_from_the_source():
    async with serving(a=service("a")) as (_, address):
        stream = await dial(address, MCP_SOURCE_PATH, ConnectionOptions())
        try:
            await stream.send(request_to_bytes(RequestResources(collection=SERVICES)))
            first = resources_from_bytes(await stream.receive())
            await stream.send(request_to_bytes(RequestResources(collection=SERVICES, response_nonce="old")))
            await stream.send(request_to_bytes(RequestResources(collection=RULES)))
            second = resources_from_bytes(await stream.receive())
        finally:
            await stream.wait_closed()

    assert (first.nonce, first.collection) == ("1", SERVICES)
    assert (second.nonce, second.collection) == ("2", RULES)


async def test_a_source_that_dials_feeds_a_sink_that_listens():
    port = free_port()
    async with feeding(f"mcp-listen://127.0.0.1:{port}") as rig:
        assert not rig.source.connection.connected
        async with serving(a=service("a")) as (server, _):
            server.dial_sink(f"127.0.0.1:{port}")
            await rig.wait(lambda: rig.addresses == ["10.0.0.1:80"])
            put(server, a=service("a", "10.0.0.9"))
            await rig.wait(lambda: rig.addresses == ["10.0.0.9:80"])
        await until(lambda: not rig.source.connection.connected)
        assert rig.addresses == ["10.0.0.9:80"]


async def test_a_pilot_like_source_that_dials_triggers_and_is_served():
    port = free_port()
    async with (
        feeding(f"mcp-listen://127.0.0.1:{port}", mode=FeedMode.PILOT) as rig,
        serving(mode=FeedMode.PILOT, a=service("a")) as (server, _),
    ):
        server.dial_sink(f"127.0.0.1:{port}")
        await rig.wait(lambda: rig.addresses == ["10.0.0.1:80"])


async def test_a_half_open_connection_is_noticed_by_the_keepalive():
    options = ConnectionOptions(keepalive_ms=300)
    async with (
        serving(a=service("a")) as (_, address),
        Pipe(address) as pipe,
        feeding(f"mcp://{pipe.address}", options=options) as rig,
    ):
        await rig.feeds.wait_synced()
        pipe.flowing.clear()
        await until(lambda: rig.source.stale_since_ms is not None)
        assert rig.addresses == ["10.0.0.1:80"]
        pipe.flowing.set()
        await until(lambda: rig.source.stale_since_ms is None)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """An authority and certificates for a server and a client."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("server", "client"):
        openssl("req", *curve[:-2], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text("subjectAltName=DNS:config.example\n")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", f"{name}.ext")
        openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    return folder


def tls(folder, name=None, **fields):
    certificate = {"certificate": folder / f"{name}.pem", "key": folder / f"{name}.key"} if name else {}
    return ConnectionOptions(tls=SourceTls(ca=folder / "ca.pem", **certificate, **fields))


async def test_mutual_tls(authority):
    async with serving(options=tls(authority, "server"), a=service("a")) as (_, address):
        options = tls(authority, "client", server_name="config.example")
        async with feeding(f"xds://{address}", options=options) as rig:
            await rig.feeds.wait_synced()

            assert rig.addresses == ["10.0.0.1:80"]


@pytest.mark.parametrize("case", ["no client certificate", "another name", "plain text", "missing file"])
async def test_a_peer_that_tls_refuses_is_not_reached(authority, case):
    options = {
        "no client certificate": tls(authority, server_name="config.example"),
        "another name": tls(authority, "client", server_name="other.example"),
        "plain text": ConnectionOptions(),
        "missing file": tls(authority / "missing", "client"),
    }[case]
    async with serving(options=tls(authority, "server"), a=service("a")) as (_, address):
        if case in {"another name", "missing file"}:
            with pytest.raises(SourceUnreachableError):
                async with feeding(f"mcp://{address}", options=options, start_timeout_ms=500):
                    pass
        else:  # the handshake succeeds for the client, or there is none, and the server then hangs up
            try:
                async with feeding(f"mcp://{address}", options=options, start_timeout_ms=500) as rig:
                    await until(lambda: rig.source.connection.error)
                    assert rig.addresses == []
            except SourceUnreachableError:
                pass
