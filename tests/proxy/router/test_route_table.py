"""Which virtual host an authority names; the order of the ways to match is Envoy's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.route_config import HostRoutes, Route, RouteAction, RouteConfiguration, VirtualHost
from proxy.router.route_table import RouteTable


def virtual_host(name: str, *domains: str, service: str = "", port: int = 80) -> VirtualHost:
    routes = (Route(action=RouteAction(cluster=name)),)
    return VirtualHost(name=name, service_host=service or name, port=port, domains=domains or (name,), routes=routes)


def table(*virtual_hosts: VirtualHost) -> RouteTable:
    return RouteTable(RouteConfiguration.of(*virtual_hosts))


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
    assert RouteTable().find(b"a") is None
    assert RouteTable().find_service("a", None) is None


def host_routes(order: int, *virtual_hosts: VirtualHost) -> HostRoutes:
    return HostRoutes(order=(order,), virtual_hosts=virtual_hosts)


def test_virtual_hosts_that_did_not_change_are_not_made_ready_again():
    kept, old, new = (
        virtual_host("kept", service="a"),
        virtual_host("old", service="a"),
        virtual_host("new", service="a"),
    )
    subject = table(kept, old)
    before = subject.find(b"kept")

    subject.replace("a", host_routes(0, new, kept))

    assert subject.find(b"kept") is before
    assert name_of(subject.find(b"new")) == "new"
    assert subject.find(b"old") is None


def test_a_copy_goes_its_own_way():
    before = table(virtual_host("one"), virtual_host("two", "one", "*.two"), virtual_host("three", "one"))
    after = before.copy()
    after.replace("one", None)
    after.replace("two", None)

    assert [name_of(before.find(name)) for name in (b"one", b"a.two")] == ["one", "two"]
    assert [name_of(after.find(name)) for name in (b"one", b"a.two")] == ["three", None]


NAMES = st.sampled_from(["a", "b", "*.a", "*.b.a", "a.*", "a.b.*", "*", "A"])
HOSTS = st.sampled_from(["h1", "h2", "h3", "h4"])
ROUTES = st.none() | st.tuples(st.integers(0, 3), st.lists(st.lists(NAMES, max_size=3), min_size=1, max_size=2))


@given(st.lists(st.tuples(HOSTS, ROUTES), max_size=12))
def test_changes_one_by_one_come_to_the_same_as_all_at_once(changes):
    subject, hosts = RouteTable(), {}
    for host, drawn in changes:
        routes = None
        if drawn is not None:
            order, domains = drawn
            own = (
                virtual_host(f"{host}:{port}", *names, service=host, port=port) for port, names in enumerate(domains)
            )
            routes = HostRoutes(order=(order, host), virtual_hosts=tuple(own))
        hosts[host] = routes
        subject.replace(host, routes)
    present = sorted(
        ((host, routes) for host, routes in hosts.items() if routes is not None), key=lambda entry: entry[1].order
    )
    whole = RouteTable(RouteConfiguration(dict(present)))

    for authority in (b"a", b"b", b"x.a", b"x.b.a", b"a.x", b"a.b.x", b"*", b"A", b"c"):
        assert name_of(subject.find(authority)) == name_of(whole.find(authority))
    for host in ("h1", "h2", "h3", "h4"):
        assert name_of(subject.find_service(host, None)) == name_of(whole.find_service(host, None))
