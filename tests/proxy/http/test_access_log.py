"""The line of one request in the access log."""

import datetime as dt
import re

import attrs

from proxy.http.date import DateProvider
from proxy.testing import FaultyUpstream
from proxy.upstream.host import HealthFlag
from tests.proxy.http.sidecar import ROUND_ROBIN, Sidecar, post


async def test_line_of_a_request():
    before = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=1)
    async with FaultyUpstream(body=b"answer") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        await client.request(post(b"question", "X-Request-Id: my-id"))
        host, port, *_ = client.writer.get_extra_info("sockname")
        (line,) = sidecar.log
        started = dt.datetime.fromisoformat(line.pop("start_time"))

        assert before <= started <= dt.datetime.now(dt.UTC)
        assert 0 <= line.pop("duration_ms") < 5_000
        assert line == {
            "method": "POST",
            "path": "/",
            "authority": "a",
            "protocol": "HTTP/1.1",
            "response_code": 200,
            "response_flags": "-",
            "response_code_details": "via_upstream",
            "bytes_received": 8,
            "bytes_sent": 6,
            "upstream_cluster": "outbound|80||service",
            "upstream_host": upstream.address,
            "attempt": 1,
            "request_id": "my-id",
            "downstream_remote_address": f"{host}:{port}",
        }


async def test_start_time_has_milliseconds_and_a_zone():
    async with Sidecar() as sidecar:
        await (await sidecar.client()).get()

        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", sidecar.log[0]["start_time"])


async def test_bytes_are_those_of_the_bodies_not_of_their_framing():
    reply = {"body": b"x" * 1_000, "framing": "chunked", "piece_bytes": 10}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream) as sidecar:
        body = b"".join(b"1\r\na\r\n" for _ in range(7))
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        await (await sidecar.client()).request(head + body + b"0\r\n\r\n")

        assert (sidecar.log[0]["bytes_received"], sidecar.log[0]["bytes_sent"]) == (7, 1_000)


async def test_each_request_of_a_connection_has_its_own_line():
    async with FaultyUpstream(body=b"ab") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        await client.request(post(b"question"))
        await client.get("/second")

        assert [(line["path"], line["bytes_received"]) for line in sidecar.log] == [("/", 8), ("/second", 0)]


async def test_bytes_that_are_no_text_do_not_break_the_line():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await (await sidecar.client()).get('/"quoted\\', "X-Request-Id: caf\xe9")

        assert (sidecar.log[0]["path"], sidecar.log[0]["request_id"]) == ('/"quoted\\', "caf\xe9")


def test_date_is_the_present_second_in_http_form(monkeypatch):
    seconds = iter([784_111_777.2, 784_111_777.9, 784_111_778.0])
    monkeypatch.setattr("time.time", lambda: next(seconds))
    provider = DateProvider()

    assert [provider.now() for _ in range(3)] == [
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sun, 06 Nov 1994 08:49:38 GMT",
    ]


async def test_flag_says_that_panic_sent_the_request_to_an_ejected_host():
    balancer = attrs.evolve(ROUND_ROBIN, healthy_panic_threshold=50)
    async with FaultyUpstream() as upstream, Sidecar(upstream, load_balancer=balancer) as sidecar:
        (host,) = sidecar.cluster.hosts
        client = await sidecar.client()
        for ejected in (True, False):
            host.put_flag(HealthFlag.FAILED_OUTLIER_CHECK, on=ejected)
            sidecar.cluster.priority_set.refresh_health(0)
            await client.get()

        assert [line["response_flags"] for line in sidecar.log] == ["EJ", "-"]
        assert sidecar.stat("lb_healthy_panic") == 1
