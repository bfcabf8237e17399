"""Vectors of the HTTP data plane: local replies, protocol edges, headers and retries, as recorded from Envoy 1.40.

Each row runs on a listener of its own over real sockets; `http_scene` rebuilds its routes and its backend. What
differs on purpose is in `DIFFERENCES` and `OTHER_LISTENERS`, the same as in docs/parity-data-plane.md, and is skipped
by name.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from outlier import SeededRandom
from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import RetryPolicy
from proxy.router.retry_state import RetryRules, RetryState
from proxy.testing import End, Fault, RecordedRequest, Reply
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from tests.conformance.http_scene import ACTIONS, abandon, play, retries
from tests.conformance.runner import Case, Mismatch, Skipped
from tests.proxy.http.client import Response

Row = Mapping[str, Any]
Pairs = list[tuple[str, str]]

# Rows by file and name.
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "http-edge": {
        "obs-fold": "a folded header is refused: not every reader joins its lines",
        "two hosts": "a second Host is refused: no reader agrees with another on what `a,b` names",
    },
    "headers": {"host with port": "the port of an authority is kept, as by a listener that is not told to strip it"},
}

# Rows of listeners whose options a sidecar's outbound listener does not have.
OTHER_LISTENERS: Mapping[str, str] = {
    "normalize_path, merge_slashes, escaped slashes rejected": "paths are forwarded as they came",
    "use_remote_address true, 127/8 is internal, include_request_attempt_count": "every caller is external",
    "edge: use_remote_address true, include_request_attempt_count, include_attempt_count_in_response": (
        "no edge listener: addresses of callers are not trusted or added"
    ),
    "use_remote_address true, xff_num_trusted_hops 1, via envoy-x, server_name frontdoor, "
    "preserve_external_request_id, always_set_request_id_in_response": "no edge listener, and the server is envoy",
    "server_header_transformation PASS_THROUGH": "the server is envoy",
}

# What the recorded client sent besides what the row says.
_EXTRA_LINES: Mapping[str, tuple[str, ...]] = {
    "retry-on via header, no route policy": ("x-envoy-retry-on: 5xx",),
    "x-envoy-max-retries over route policy": ("x-envoy-max-retries: 5",),
    "retriable-status-codes header": ("x-envoy-retriable-status-codes: 503",),
    "timeout header override": ("x-envoy-upstream-rq-timeout-ms: 200",),
}
_BODIES: Mapping[str, tuple[str, bytes]] = {
    "chunked request": ("", b"3\r\nabc\r\n0\r\n\r\n"),
    "POST body retry": ("content-length: 3", b"abc"),
}
# Rows whose request is longer than the recording shows.
_LONG_LINES: Mapping[str, tuple[str, ...]] = {
    "headers 61 KiB": ("x-big: " + "y" * (61 * 1024),),
    "headers 59 KiB": ("x-big: " + "y" * (59 * 1024),),
    "100 header lines": tuple(f"x-h{index}: 1" for index in range(99)),
}

_SHOWN_LENGTH = 100
_DELAY_MS = 30  # of real time, in which far more of the virtual passes

_GET = b"GET /b/x HTTP/1.1\r\nhost: svc.example\r\n\r\n"

_GARBAGE = Reply(garbage=b"this is not http\r\n\r\n")

_PATTERNS = {
    "<date>": re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT|x"),
    "<ms>": re.compile(r"\d+"),
    "<uuid>": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
}


def _expect(expected: object, actual: object, where: str) -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


def _expect_headers(expected: Pairs, actual: Pairs, where: str) -> None:
    _expect([name for name, _ in expected], [name for name, _ in actual], f"{where}: names")
    for (name, value), (_, found) in zip(expected, actual, strict=True):
        pattern = _PATTERNS.get(value)
        if name == "x-envoy-expected-rq-timeout-ms" and value != "15000":
            pattern = re.compile("1[45]...")  # less what earlier attempts took
        if not (value == found if pattern is None else pattern.fullmatch(found)):
            raise Mismatch(value, found, f"{where}: {name}")


# What is sent


def _request(row: Row) -> bytes:
    """Return the request of a row of any of the files."""
    name = row["name"]
    if "request_line" in row:
        lines = [f"{row['request_line']} HTTP/1.1", "host: svc.example"]
        lines += (f"{key}: {value}" for key, value in row["request_headers"])
    elif " HTTP/" in row["request"] or "listener" in row:
        lines = row["request"].split(" | ")
    else:
        lines = [f"{row['request']} HTTP/1.1", "host: svc.example"]
    if name in _LONG_LINES:
        lines[2:] = _LONG_LINES[name]
    line, body = _BODIES.get(name, ("", b""))
    lines += filter(None, (*_EXTRA_LINES.get(name, ()), line))
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _segment(target: str) -> str:
    path = target.partition("://")[2].partition("/")[2] if "://" in target else target.lstrip("/")
    return path.partition("/")[0]


# What the backend answers


def _replies(row: Row, method: str, target: str) -> tuple[Reply, ...]:
    """Return what the backend answers to a target, one reply for each attempt; its body is as long as the recorded."""
    query = dict(part.partition("=")[::2] for part in target.partition("?")[2].split("&"))
    headers = dict(row["response_headers"])
    fine = partial(
        _response,
        extra=unquote(query.get("rh", "")),
        backend=headers.get("x-backend", "21110"),
        length=int(headers.get("content-length", 0)),
        head_request=method == "HEAD",
    )
    hangs = "fail" in query or _status_line(row).startswith("504")
    match query.get("act"):
        case "rst":
            first = Reply(fault=Fault.RESET)
        case "fin":
            first = Reply(fault=Fault.CLOSE)
        case "garbage":
            first = _GARBAGE
        case "partial":
            first = _partial(End.CLOSE)
        case "headersstall":
            first = _partial(End.HANG)
        case "delay":
            first = Reply(fault=Fault.HANG) if hangs else fine(200, head_delay_ms=_DELAY_MS)
        case "status":
            first = fine(int(query["st"]))
        case _:
            first = fine(200)
    return (first, fine(200)) if "fail" in query else (first,)


def _response(
    status: int, *, extra: str, backend: str, length: int, head_request: bool, head_delay_ms: int = 0
) -> Reply:
    """Return a response with its length behind the other headers, where the recorded backend has it."""
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"x-backend: {backend}"]
    lines += (line.replace(":", ": ", 1) for line in extra.split("|") if line)
    lines += [f"content-length: {length}", *([] if "connection:" in extra else ["connection: close"])]
    body = b"" if head_request else b"x" * length
    return Reply(garbage="\r\n".join([*lines, "", ""]).encode("latin-1") + body, head_delay_ms=head_delay_ms)


def _partial(end: End) -> Reply:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-backend: 21110\r\ncontent-length: 1000\r\n\r\nabc"
    return Reply(garbage=head.encode(), end=end)


# Rows of local-replies, http-edge and headers


def _status_line(row: Row) -> str:
    return row.get("status") or row["response_status"]


def _row(file: str, row: Row) -> None:
    reason = DIFFERENCES.get(file, {}).get(row["name"]) or OTHER_LISTENERS.get(row.get("listener", ""))
    if reason is not None:
        raise Skipped(reason)
    data = _request(row)
    method, target = data.decode("latin-1").split(" ")[:2]
    replies = _replies(row, method, target)
    segment = _segment(target)
    # That listener's route has tried three times; the others with this name have not.
    actions = ACTIONS | {"b": {"retry": retries("5xx")}} if row["name"] == "503x3 sidecar" else ACTIONS
    outcome = asyncio.run(play(data, *replies, segment=segment, actions=actions))
    if segment == "rcf_mixed" and outcome.log["attempt"] == 1:
        # Which of two hosts round robin begins with is chance; the recording began with the one that refuses.
        outcome = asyncio.run(play(data, *replies, segment=segment, refused_first=False))
    _check_response(row, outcome.response)
    if "access_log" in row:
        _check_log(row["access_log"], outcome.log)
    if "upstream_request_headers" in row:
        expected = [tuple(pair) for pair in row["upstream_request_headers"]]
        _expect_headers(expected, outcome.upstream_requests[-1].headers, "upstream")
    elif "upstream_request" in row:
        _check_upstream(row, outcome.upstream_requests[-1])


def _check_response(row: Row, response: Response) -> None:
    _expect(_status_line(row), f"{response.status} {response.reason}", "status")
    _expect_headers([tuple(pair) for pair in row["response_headers"]], response.headers, "response")
    body = row.get("body", "<backend body>")
    if body == "<backend body>":
        body = "x" * int(response.header("content-length") or 0)
    _expect(body, response.body.decode(), "body")
    _expect("cut" not in row.get("downstream", ""), response.complete, "complete")


def _check_log(expected: Row, log: Mapping[str, Any]) -> None:
    _expect(expected["code"], log["response_code"], "access log: code")
    _expect(expected["flags"], log["response_flags"], "access log: flags")
    _expect(expected["details"], log["response_code_details"], "access log: details")
    _expect(expected["attempts"], log["attempt"], "access log: attempts")
    _expect(expected["host"] is None, log["upstream_host"] is None, "access log: no host")


def _check_upstream(row: Row, request: RecordedRequest) -> None:
    """Compare with a recording that leaves out request ids and the lines that only made a head long."""
    line, *headers = row["upstream_request"]
    _expect(line, f"{request.method} {request.target} HTTP/1.1", "upstream: request line")
    expected = [(name, value) for name, _, value in (header.partition(": ") for header in headers)]
    shown = [
        (name, value[:_SHOWN_LENGTH] if name == "x-big" else value)
        for name, value in request.headers
        if name != "x-request-id" and re.fullmatch(r"x-h\d+", name) is None
    ]
    _expect_headers([(name, value[:_SHOWN_LENGTH]) for name, value in expected], shown, "upstream")
    _expect(row["upstream_body"], request.body.decode(), "upstream: body")


# retry-matrix


_EVENTS: Mapping[str, tuple[Reply, ...]] = {
    "TCP RST after request read": (Reply(fault=Fault.RESET),),
    "FIN after request read": (Reply(fault=Fault.CLOSE),),
    "non-HTTP bytes": (_GARBAGE,),
    "200 head, 3 of 1000 body bytes, FIN": (_partial(End.CLOSE),),
    "TCP RST once then ok": (Reply(fault=Fault.RESET), Reply()),
    "upstream 503 once then ok": (Reply(status=503), Reply()),
}


def _event(text: str) -> tuple[Reply, ...]:
    """Read `upstream STATUS`, `upstream STATUS with NAME: VALUE`, or one of `_EVENTS`."""
    if text in _EVENTS:
        return _EVENTS[text]
    status, _, header = text.removeprefix("upstream ").partition(" with ")
    return (Reply(status=int(status), headers=[tuple(header.split(": "))] if header else ()),)


def _policy(text: str) -> RetryPolicy:
    """Read `5xx n=2`, `5xx, num_retries unset`, `retriable-status-codes [418,404] n=2`, ..."""
    word = re.split("[ ,]", text)[0]
    number = re.search(r"n=(\d)|num_retries (\d)", text)
    num_retries = 1 if number is None else int(number[1] or number[2])
    codes = re.search(r"\[([\d,]+)\]", text)
    statuses = tuple(map(int, codes[1].split(","))) if codes is not None else ()
    return retries(word, num_retries, retriable_status_codes=statuses)


def _retry(row: Row) -> None:
    actions = {"b": {"retry": _policy(row["retry_on"])}}
    outcome = asyncio.run(play(_GET, *_event(row["event"]), actions=actions))
    log = outcome.log
    _expect(row["status"], outcome.response.status, "status")
    _expect(row["attempts"], log["attempt"], "attempts")
    _expect(row["attempts"], len(outcome.upstream_requests), "requests of the backend")
    _expect(row["flags"], log["response_flags"], "flags")
    _expect(row["details"], log["response_code_details"], "details")


# retry-backoff


def _backoff(row: Row) -> None:
    """The n-th wait covers [0, bound) evenly; drawn from our own random numbers, like the recording from Envoy's."""
    rules = RetryRules(RetryPolicy(num_retries=4, retry_on="5xx", base_interval_ms=100))
    resources, stats, random = ResourceManager(CircuitBreakers()), ClusterStats(), SeededRandom(1)
    waits = []
    for _ in range(1_000):
        state = RetryState(rules, resources, stats, random)
        for _ in range(row["retry"]):
            state.decide(retriable=True)
        waits.append(state.backoff_ms())
    bound = row["bound"]
    _expect((True, True), (0 <= min(waits) < bound * 0.01, bound * 0.99 <= max(waits) < bound), "waits")
    mean = sum(waits) / len(waits)
    if abs(mean - bound / 2) > bound * 0.03:
        raise Mismatch(bound / 2, mean, "mean of the waits")


def _disconnect(expected: Row) -> None:
    log = asyncio.run(abandon(_GET))
    for key, name in (("code", "response_code"), ("flags", "response_flags"), ("details", "response_code_details")):
        _expect(expected[key], log[name], f"access log: {key}")


def _cases(path: Path, document: Any) -> Iterator[Case]:
    for index, row in enumerate(document["rows"]):
        yield Case(f"{index}-{row['name']}", partial(_row, path.stem, row))
    if "downstream_disconnect" in document:
        yield Case("downstream_disconnect", partial(_disconnect, document["downstream_disconnect"]))


def _retry_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["rows"]:
        yield Case(f"{row['retry_on']}: {row['event']}", partial(_retry, row))


def _backoff_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["gaps"]:
        yield Case(f"retry-{row['retry']}", partial(_backoff, row))


FILES = {
    "headers": _cases,
    "http-edge": _cases,
    "local-replies": _cases,
    "retry-backoff": _backoff_cases,
    "retry-matrix": _retry_cases,
}
