"""A short run from a fixed seed; that the fuzzer finds what is planted; and what it has found."""

import pytest

from proxy.codec.http1_request import RequestParser
from proxy.codec.http2_frames import PREFACE
from proxy.http.downstream import DownstreamConnection
from proxy.router.exchange import Exchange
from proxy.upstream.connection import UpstreamConnection
from tests.fuzz.__main__ import main, make_targets
from tests.fuzz.fuzzer import Finding, Fuzzer
from tests.fuzz.http2_grammar import frame

REACHED = {
    "http1-clients: 200 via_upstream",
    "http1-clients: 204 via_upstream",
    "http1-clients: 400 http1.codec_error",
    "http1-clients: 426 low_version",
    "http1-clients: 501 http1.invalid_transfer_encoding",
    "http1-clients: 503 upstream_reset_before_response_started",
    "http1-clients: 503 via_upstream",
    "http1-hosts: reset CONNECTION_TERMINATION",
    "http1-hosts: reset PROTOCOL_ERROR",
    "http1-hosts: response",
    "http2-clients: 200 via_upstream",
    "http2-clients: session: error",
    "http2-clients: session: reset",
    "http2-hosts: response",
    "http2-hosts: session: error",
    "http2-hosts: session: reset",
}


@pytest.mark.slow
def test_random_bytes_break_nothing():
    fuzzer = Fuzzer(make_targets(), "suite")
    fuzzer.run(inputs=1_000)

    assert [finding.problem for finding in fuzzer.findings.values()] == []
    assert fuzzer.kinds.keys() >= REACHED


def plant_an_exception(monkeypatch):
    monkeypatch.setattr("proxy.http.downstream.prepare_request", lambda *_: {}["planted"])


def plant_a_second_response(monkeypatch):
    end = DownstreamConnection.encode_end

    def twice(self, trailers):
        self._out.append(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        end(self, trailers)

    monkeypatch.setattr(DownstreamConnection, "encode_end", twice)


def plant_a_cycle(monkeypatch):
    start = Exchange.start

    def remember(self, virtual_host):
        self.itself = self
        start(self, virtual_host)

    monkeypatch.setattr(Exchange, "start", remember)


def plant_a_client_that_is_not_read(monkeypatch):
    begin = DownstreamConnection._begin

    def pause(self, head):
        self._socket.disable_read(2)
        begin(self, head)

    monkeypatch.setattr(DownstreamConnection, "_begin", pause)


def plant_a_rule_that_hangs_on_the_cut(monkeypatch):
    feed = RequestParser.feed
    monkeypatch.setattr(RequestParser, "feed", lambda self, data: feed(self, data[:1] if len(data) == 2 else data))


def plant_a_host_that_is_not_heard(monkeypatch):
    monkeypatch.setattr(UpstreamConnection, "connection_lost", lambda self, _: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (plant_an_exception, "http1-clients: KeyError"),
        (plant_a_second_response, "http1-clients: response"),
        (plant_a_cycle, "http1-clients: alive after its end"),
        (plant_a_client_that_is_not_read, "http1-clients: stuck"),
        (plant_a_rule_that_hangs_on_the_cut, "http1-clients: disagreement"),
        (plant_a_host_that_is_not_heard, "http1-hosts: request"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_is_planted_is_found(plant, expected, monkeypatch):
    plant(monkeypatch)
    monkeypatch.setattr("tests.fuzz.fuzzer.MINIMISE_S", 0.2)
    targets = [target for target in make_targets() if target.name == expected.partition(":")[0]]
    fuzzer = Fuzzer(targets, "planted")
    fuzzer.run(inputs=200)

    assert any(kind.startswith(expected) for kind in fuzzer.findings)


def test_the_same_seed_gives_the_same_inputs():
    targets = make_targets()
    one, other, different = (Fuzzer(targets, seed) for seed in ("a", "a", "b"))

    assert [one._input(number)[1:] for number in range(8)] == [other._input(number)[1:] for number in range(8)]
    assert one._input(0)[1] != different._input(0)[1]


def test_a_finding_can_be_written_and_repeated(tmp_path, monkeypatch, capsys):
    path = tmp_path / "finding.json"
    Finding("http1-clients", "KeyError: 'planted'", [b"\0GET / HTTP/1.1\r\nHost: a\r", b"\n\r\n"]).write(path)
    assert main(["--replay", str(path)]) == 0
    plant_an_exception(monkeypatch)

    assert main(["--replay", str(path)]) == 1
    assert capsys.readouterr().out == "it is gone\nKeyError: 'planted'\n"


SETTINGS = frame(4, 0, 0)
MANY_LINES = b"\x82\x86\x84\x41\1a" + b"\0\1a\0011" * 101
LAST = b"0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
FOUND = {
    "the end of an empty body behind an offer of h2c was not told": (
        "http1-clients",
        b"\0POST /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
        + LAST,
    ),
    "the error of a refused HTTP/2 stream held the connection": (
        "http2-clients",
        b"\0" + PREFACE + SETTINGS + frame(1, 5, 1, MANY_LINES),
    ),
    "an empty line behind an interim response was an error where a read began with it": (
        "http1-hosts",
        b"\0HTTP/1.1 103 Hints\r\n\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
    ),
    "what came behind Proxy-Connection: close was an error or the next request": (
        "http1-clients",
        b"\0PUT / HTTP/1.1\r\nHost: a\r\nConnection:e\r\nProxy-Connection: close\r\nContent-Length: 5\r\n\r\nhelloHEAD",
    ),
    "an HTTP/2 stream and its exchange held each other": (
        "http2-clients",
        b"\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\4\1\5\0\0\0\1\x82\x86\x84\x41\0",
    ),
}


@pytest.mark.parametrize(("target", "data"), FOUND.values(), ids=FOUND)
def test_what_was_found_is_gone(target, data):
    (chosen,) = (each for each in make_targets() if each.name == target)
    fuzzer = Fuzzer([chosen], "")
    fuzzer._input = lambda _: (chosen, data, [data[index : index + 1] for index in range(len(data))])
    fuzzer.run(inputs=1)

    assert fuzzer.findings == {}
