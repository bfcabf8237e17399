"""Message heads as the parsers and the connection manager make them."""

from proxy.codec.http1_request import RequestHead, RequestParser
from proxy.codec.http1_response import ResponseHead, ResponseParser
from proxy.http.request_headers import REQUEST_HEADERS
from proxy.upstream.connection import RESPONSE_HEADERS


def request_head(path: str = "/", *lines: str, method: str = "GET", authority: str = "service") -> RequestHead:
    """Return the head of a request with these header lines (`name: value`) besides Host."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {authority}", *lines, "", ""]
    (event,) = RequestParser(REQUEST_HEADERS).feed("\r\n".join(head).encode("utf-8"))
    assert isinstance(event, RequestHead), event
    return event


def response_head(*lines: str, status: int = 200) -> ResponseHead:
    """Return the head of a response with these header lines."""
    parser = ResponseParser(RESPONSE_HEADERS)
    parser.expect(head_request=True)
    head = [f"HTTP/1.1 {status} OK", *lines, "", ""]
    (event,) = parser.feed("\r\n".join(head).encode("utf-8"))
    assert isinstance(event, ResponseHead), event
    return event


def lines(headers: list[tuple[bytes, bytes]]) -> list[str]:
    """Return headers as `name: value`."""
    return [f"{name.decode()}: {value.decode()}" for name, value in headers]
