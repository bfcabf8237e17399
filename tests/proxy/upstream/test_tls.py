"""Whom a certificate is for, and what is said of one that is for somebody else."""

import ssl

import pytest

from proxy.upstream.named_pools import server_name
from proxy.upstream.tls import UntrustedNameError, check_names, dns_name_matches, failure_reason


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a.test", "a.test", True),
        ("A.test", "a.TEST", True),
        ("a.test", "b.test", False),
        ("*.test", "a.test", True),
        ("*.test", "test", False),
        ("*.test", ".test", False),
        ("*.test", "a.b.test", False),
        ("*.b.test", "a.b.test", True),
        ("a*.b.test", "a1.b.test", True),
        ("a*.b.test", "a.b.test", False),
        ("*1.b.test", "a1.b.test", True),
        ("a*z.b.test", "a1z.b.test", True),
        ("a*z.b.test", "az.b.test", False),
        ("**.test", "a.test", False),
        ("a.*.test", "a.b.test", False),
        ("*", "a", False),
        ("xn--*.test", "xn--a.test", False),
    ],
)
def test_name_of_a_certificate(pattern, name, matches):
    assert dns_name_matches(pattern, name) is matches


CERTIFICATE = {
    "subjectAltName": (
        ("DNS", "a.test"),
        ("URI", "spiffe://mesh/ns/default/sa/a"),
        ("email", "a@test"),
        ("IP Address", "2001:DB8:0:0:0:0:0:1"),
        ("DirName", "b.test"),
    )
}


@pytest.mark.parametrize("name", ["a.test", "spiffe://mesh/ns/default/sa/a", "a@test", "2001:db8::1"])
def test_name_of_any_kind_is_enough(name):
    check_names(CERTIFICATE, ["x.test", name])


@pytest.mark.parametrize("name", ["b.test", "spiffe://mesh/ns/default/sa", "A@test", "2001:db8::2"])
def test_other_names_are_refused(name):
    with pytest.raises(UntrustedNameError):
        check_names(CERTIFICATE, [name])


def test_certificate_without_names_is_for_nobody():
    with pytest.raises(UntrustedNameError, match=r"certificate SANs are \[\]"):
        check_names({}, ["a.test"])


def test_reason_that_boringssl_does_not_number_is_told_by_its_name():
    error = ssl.SSLError(1, "odd")
    error.reason = "SOMETHING_ODD"

    assert failure_reason(error) == "TLS error:|268435456:SSL routines:OPENSSL_internal:SOMETHING_ODD:TLS error end"


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        (b"a.test", "a.test"),
        (b"A.test:80", "a.test"),
        (b"127.0.0.1:80", "127.0.0.1"),
        (b"[::1]:80", "::1"),
        (b"[::1]", "::1"),
        (b"", ""),
    ],
)
def test_server_name_is_the_authority_without_its_port(authority, name):
    assert server_name(authority) == name
