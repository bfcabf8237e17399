"""gRPC with HTTP/1.1 on one side: trailers are translated, so that the status arrives."""

import grpc

from proxy.config.cluster_config import Http2Options
from proxy.testing import FaultyUpstream
from tests.proxy.grpc.backend import SERVICE
from tests.proxy.http.sidecar import Sidecar

MESSAGE = b"\x00\x00\x00\x00\x05hello"


async def test_client_of_http1_gets_the_trailers_of_a_grpc_server(sidecar):
    client = await sidecar.client()
    head = f"POST /{SERVICE}/Unary HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nTE: trailers\r\n"
    response = await client.request(head.encode() + b"Content-Length: %d\r\n\r\n" % len(MESSAGE) + MESSAGE)

    assert (response.status, response.body) == (200, MESSAGE)
    assert dict(response.trailers)["grpc-status"] == "0"


async def test_client_of_http1_gets_the_status_of_a_response_without_message(sidecar, backend):
    backend.fail_with = grpc.StatusCode.UNAVAILABLE
    client = await sidecar.client()
    head = f"POST /{SERVICE}/Unary HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nTE: trailers\r\n"
    response = await client.request(head.encode() + b"Content-Length: %d\r\n\r\n" % len(MESSAGE) + MESSAGE)

    assert (response.status, response.header("grpc-status"), response.body) == (200, "14", b"")
    assert response.header("grpc-message") == "as asked for"


async def test_grpc_client_gets_the_trailers_of_an_http1_server(open_channel):
    reply = {
        "body": MESSAGE,
        "framing": "chunked",
        "headers": {"content-type": "application/grpc"},
        "trailers": {"grpc-status": "5", "grpc-message": "not%20here"},
    }
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream) as sidecar:
        call = open_channel(sidecar).unary_unary(f"/{SERVICE}/Unary")(b"hello")

        assert await call.code() is grpc.StatusCode.NOT_FOUND
        assert await call.details() == "not here"
        assert bytes(upstream.requests[0].body) == MESSAGE
        assert ("te", "trailers") in upstream.requests[0].headers


async def test_protocol_of_the_client_goes_on_to_the_host(backend, open_channel):
    async with Sidecar(backend.address, use_downstream_protocol=True) as sidecar:
        assert await open_channel(sidecar).unary_unary(f"/{SERVICE}/Unary")(b"hello") == b"hello"


async def test_messages_of_many_frames_pass_both_ways(open_channel, backend):
    async with Sidecar(backend.address, h2_upstream=Http2Options(max_concurrent_streams=1)) as sidecar:
        message = b"m" * 3_000_000

        assert await open_channel(sidecar).unary_unary(f"/{SERVICE}/Unary")(message) == message
