"""The hash of a request; the recorded rows are in tests/conformance."""

import attrs
import pytest
import xxhash

from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, QueryParameterHash, SourceIpHash
from proxy.load_balancer.hash_policy import HashPolicies, RequestHash


@attrs.frozen
class Request:
    headers: tuple[tuple[bytes, bytes], ...] = ()
    path: bytes = b"/"
    source_ip: str | None = "10.1.2.3"
    remote_address: str = "10.1.2.3:4567"
    local_address: str = "10.0.0.1:80"


def evaluate(request: Request, *policies: HashPolicy) -> RequestHash:
    return HashPolicies(policies).evaluate(request)


def of(value: bytes) -> int:
    return xxhash.xxh64_intdigest(value)


def test_no_policy_gives_no_hash():
    assert evaluate(Request()) == RequestHash(None)


def test_header_names_are_compared_without_case():
    request = Request(headers=((b"X-Key", b"v"),))

    assert evaluate(request, HeaderHash(name="x-KEY")).hash == of(b"v")


def test_the_order_of_header_lines_does_not_matter():
    forth = Request(headers=((b"x", b"a"), (b"x", b"b")))
    back = Request(headers=((b"x", b"b"), (b"x", b"a")))

    assert evaluate(forth, HeaderHash(name="x")) == evaluate(back, HeaderHash(name="x"))


def test_authority_is_the_host_header():
    request = Request(headers=((b"Host", b"reviews"),))

    assert evaluate(request, HeaderHash(name=":authority")).hash == of(b"reviews")


def test_a_rewrite_replaces_every_match_and_knows_the_whole_of_it():
    request = Request(headers=((b"x", b"a1b2"),))

    assert evaluate(request, HeaderHash(name="x", regex="[0-9]", substitution=r"<\0>")).hash == of(b"a<1>b<2>")


def test_a_policy_given_twice_does_not_cancel_itself_out():
    once = of(b"v")
    rotated = (once << 1 & (2**64 - 1)) | once >> 63

    found = evaluate(Request(headers=((b"x", b"v"),)), HeaderHash(name="x"), HeaderHash(name="x"))

    assert found.hash == rotated ^ once


def test_a_terminal_policy_ends_the_evaluation_once_there_is_a_hash():
    request = Request(headers=((b"x", b"v"),), path=b"/?q=w")

    assert evaluate(request, HeaderHash(name="x", terminal=True), QueryParameterHash(name="q")).hash == of(b"v")
    assert evaluate(request, HeaderHash(name="y", terminal=True), QueryParameterHash(name="q")).hash == of(b"w")


def test_a_terminal_policy_without_a_value_ends_it_after_an_earlier_hash():
    request = Request(headers=((b"x", b"v"),), path=b"/?q=w")

    found = evaluate(request, HeaderHash(name="x"), HeaderHash(name="y", terminal=True), QueryParameterHash(name="q"))

    assert found.hash == of(b"v")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"sid=a; sid=b", b"a"),
        (b"other; sid=a", b"a"),
        (b"sid=a=b", b"a=b"),
        (b'sid="a b"', b"a b"),
        (b'sid="', b'"'),
        (b"xsid=no; sid=a", b"a"),
    ],
)
def test_the_first_cookie_of_the_name_counts(line, value):
    assert evaluate(Request(headers=((b"Cookie", line),)), CookieHash(name="sid")).hash == of(value)


@pytest.mark.parametrize("line", [b"sid=", b'sid=""', b"sid", b"SID=a", b""])
def test_a_cookie_without_a_value_is_absent(line):
    assert evaluate(Request(headers=((b"cookie", line),)), CookieHash(name="sid")).hash is None


def test_an_absent_cookie_with_a_ttl_is_made_up_from_the_connection():
    cookie = CookieHash(name="sid", ttl_s=60, path="/p", attributes=(("SameSite", "Lax"), ("Secure", "")))
    value = b"%016x" % of(b"10.1.2.3:456710.0.0.1:80")

    found = evaluate(Request(), cookie)

    assert found.hash == of(value)
    assert found.set_cookies == (b'sid="%b"; Max-Age=60; Path=/p; SameSite=Lax; Secure; HttpOnly' % value,)


def test_a_cookie_that_is_present_is_not_set():
    assert evaluate(Request(headers=((b"cookie", b"sid=a"),)), CookieHash(name="sid", ttl_s=60)).set_cookies == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (b"/?q=a&q=b", b"a"),
        (b"/?a&q", b""),
        (b"/?q=%41", b"%41"),
        (b"/?x=1&q=b?c", b"b?c"),
        (b"/q=a", None),
        (b"/?Q=a", None),
    ],
)
def test_query_parameter(path, value):
    expected = of(value) if value is not None else None

    assert evaluate(Request(path=path), QueryParameterHash(name="q")).hash == expected


@pytest.mark.parametrize(("source_ip", "value"), [("10.1.2.3", b"10.1.2.3"), (None, None)])
def test_source_ip(source_ip, value):
    assert evaluate(Request(source_ip=source_ip), SourceIpHash()).hash == (of(value) if value else None)
