"""Counters of a cluster: which of them a reset leaves alone."""

from proxy.upstream.stats import ClusterStats


def test_reset_clears_counters_and_keeps_gauges():
    stats = ClusterStats(upstream_rq_total=3, upstream_rq_active=2, upstream_cx_active=1, upstream_rq_pending_active=4)
    stats.responses[200] = 3
    stats.reset_counters()

    assert (stats.upstream_rq_total, stats.responses) == (0, {})
    assert (stats.upstream_rq_active, stats.upstream_cx_active, stats.upstream_rq_pending_active) == (2, 1, 4)


def test_items_tell_gauges_from_counters():
    kinds = {name: is_gauge for name, _, is_gauge in ClusterStats().items()}

    assert {name for name, is_gauge in kinds.items() if is_gauge} == {
        "upstream_cx_active",
        "upstream_rq_active",
        "upstream_rq_pending_active",
    }
    assert "upstream_rq_total" in kinds
