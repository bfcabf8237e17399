"""The annotation of a VirtualService that hedges its routes, and what Envoy is told of it."""

import pytest

from proxy.config.envoy_routes import envoy_virtual_host
from proxy.config.hedging import HEDGE_ANNOTATION
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from tests.proxy.config.resources import routes, service

ROUTES = {"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}}]}]}
ROOT = {"hosts": ["a"], "http": [{"delegate": {"name": "leaf"}}]}
LEAF = {"http": ROUTES["http"]}


def build(*resources):
    builder = SnapshotBuilder(ConversionContext())
    builder.update([(None, resource) for resource in (service("a", "10.0.0.1"), *resources)])
    return builder


def virtual_host(builder):
    return next(host for host in builder.snapshot.routes.virtual_hosts if host.service_host.startswith("a."))


def hedged(builder):
    (route,) = virtual_host(builder).routes
    return route.action.hedge_on_per_try_timeout


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("false", False), ("True", False), ("", False)])
def test_only_true_hedges(value, expected):
    assert hedged(build(routes("a", ROUTES, annotations={HEDGE_ANNOTATION: value}))) is expected


def test_without_the_annotation_nothing_is_hedged():
    assert not hedged(build(routes("a", ROUTES)))


def test_of_delegated_routes_the_delegate_decides():
    annotations = {HEDGE_ANNOTATION: "true"}

    assert hedged(build(routes("root", ROOT), routes("leaf", LEAF, annotations=annotations)))
    assert not hedged(build(routes("root", ROOT, annotations=annotations), routes("leaf", LEAF)))


def test_a_changed_annotation_changes_the_routes():
    before, after = routes("a", ROUTES), routes("a", ROUTES, annotations={HEDGE_ANNOTATION: "true"})
    builder = build(before)
    builder.update([(before, after)])

    assert hedged(builder)


def test_envoy_is_told():
    builder = build(routes("a", ROUTES, annotations={HEDGE_ANNOTATION: "true"}))
    (route,) = envoy_virtual_host(virtual_host(builder), ["*"])["routes"]

    assert route["route"]["hedge_policy"] == {"hedge_on_per_try_timeout": True}
