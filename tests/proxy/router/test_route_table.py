"""Which virtual host an authority names; the order of the ways to match is Envoy's."""

import pytest

from proxy.config.route_config import Route, RouteAction, RouteConfiguration, VirtualHost
from proxy.router.route_table import EMPTY_ROUTE_TABLE, RouteTable


def virtual_host(name: str, *domains: str, service: str = "", port: int = 80) -> VirtualHost:
    routes = (Route(action=RouteAction(cluster=name)),)
    return VirtualHost(name=name, service_host=service or name, port=port, domains=domains or (name,), routes=routes)


def table(*virtual_hosts: VirtualHost) -> RouteTable:
    return RouteTable(RouteConfiguration(virtual_hosts=virtual_hosts))


def name_of(found) -> str | None:
    return found.config.name if found is not None else None


WILDCARDS = table(
    virtual_host("exact", "api.example.com", "api.example.com:80"),
    virtual_host("suffix", "*.example.com"),
    virtual_host("longer suffix", "*.b.example.com"),
    virtual_host("prefix", "api.*"),
    virtual_host("longer prefix", "api.example.*"),
    virtual_host("dash suffix", "*-x.org"),
)


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        (b"api.example.com", "exact"),
        (b"API.Example.COM", "exact"),
        (b"api.example.com:80", "exact"),
        (b"a.example.com", "suffix"),
        (b"a.b.c.example.com", "suffix"),
        (b"a.b.example.com", "longer suffix"),
        (b"A.B.EXAMPLE.com", "longer suffix"),
        (b"b.example.com", "suffix"),
        (b".example.com", None),
        (b"example.com", None),
        (b"api.org", "prefix"),
        (b"api.example.org", "longer prefix"),
        (b"api.", None),
        (b"a-x.org", "dash suffix"),
        (b"-x.org", None),
        (b"api.example.com:81", "longer prefix"),
        (b"other", None),
        (b"", None),
        (b"caf\xe9.example.com", "suffix"),
    ],
)
def test_exact_then_the_longest_suffix_then_the_longest_prefix(authority, name):
    assert name_of(WILDCARDS.find(authority)) == name


def test_suffix_is_tried_before_prefix():
    subject = table(virtual_host("prefix", "a.*"), virtual_host("suffix", "*.com"))

    assert name_of(subject.find(b"a.com")) == "suffix"


def test_star_takes_what_nothing_else_does():
    subject = table(virtual_host("any", "*"), virtual_host("one", "one.example"))

    assert [name_of(subject.find(each)) for each in (b"one.example", b"two.example", b"")] == ["one", "any", "any"]


@pytest.mark.parametrize("domain", ["a.example", "*.example", "a.*", "*"])
def test_a_domain_claimed_twice_belongs_to_the_first(domain):
    subject = table(virtual_host("first", domain), virtual_host("second", domain))

    assert name_of(subject.find(b"a.example")) == "first"


def test_a_service_is_found_by_its_port_and_without_one_by_its_first():
    subject = table(
        virtual_host("one", service="a", port=80), virtual_host("two", service="a", port=81), virtual_host("three")
    )

    assert [name_of(subject.find_service("a", port)) for port in (80, 81, None, 82)] == ["one", "two", "one", None]
    assert subject.find_service("b", None) is None


def test_the_empty_table_knows_nobody():
    assert EMPTY_ROUTE_TABLE.find(b"a") is None
    assert EMPTY_ROUTE_TABLE.find_service("a", None) is None


def test_virtual_hosts_that_did_not_change_are_not_made_ready_again():
    kept, old, new = virtual_host("kept"), virtual_host("changed"), virtual_host("changed", "other")
    before = table(kept, old)

    after = RouteTable(RouteConfiguration(virtual_hosts=(new, kept)), before)

    assert after.find(b"kept") is before.find(b"kept")
    assert after.find(b"other") is not before.find(b"changed")
    assert after.find(b"changed") is None
