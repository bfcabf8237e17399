"""`/stats` and `/stats/prometheus`: order, form and selection, as a real Envoy 1.40 prints them."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.admin.prometheus import BUCKET_BOUNDS, cumulative_counts
from proxy.stats import Histogram, MetricKind

A = (("envoy.cluster_name", "a"),)


def histogram(*values):
    made = Histogram()
    for value in values:
        made.record(value)
    return made


@pytest.fixture
def counted(sidecar):
    """A few metrics, registered out of order."""
    sidecar.count(
        "cluster.a.upstream_rq_time", histogram(1, 2, 3, 4), MetricKind.HISTOGRAM, A, "cluster.upstream_rq_time"
    )
    sidecar.count("cluster.a.upstream_cx_connect_ms", histogram(), MetricKind.HISTOGRAM, A, "cluster.upstream_cx_c")
    sidecar.count("cluster.a.upstream_rq_total", 7, tags=A, extracted="cluster.upstream_rq_total")
    sidecar.count("cluster.a.upstream_cx_active", 2, MetricKind.GAUGE, A, "cluster.upstream_cx_active")
    sidecar.count("cluster.a.retry_or_shadow_abandoned", 0, tags=A, extracted="cluster.retry_or_shadow_abandoned")


async def body(admin, path):
    return await (await admin.get(path)).text()


async def test_text_is_sorted_with_histograms_last(admin, counted):
    assert await body(admin, "/stats") == (
        "cluster.a.retry_or_shadow_abandoned: 0\n"
        "cluster.a.upstream_cx_active: 2\n"
        "cluster.a.upstream_rq_total: 7\n"
        "cluster.a.upstream_cx_connect_ms: No recorded values\n"
        "cluster.a.upstream_rq_time: P0(nan,1) P25(nan,1) P50(nan,2) P75(nan,3) P90(nan,4) P95(nan,4) P99(nan,4) "
        "P99.5(nan,4) P99.9(nan,4) P100(nan,4)\n"
    )


async def test_json_has_scalars_then_one_member_with_all_histograms(admin, counted):
    response = await admin.get("/stats?format=json")

    assert response.headers["content-type"] == "application/json"
    stats = (await response.json())["stats"]
    assert stats[:-1] == [
        {"name": "cluster.a.retry_or_shadow_abandoned", "value": 0},
        {"name": "cluster.a.upstream_cx_active", "value": 2},
        {"name": "cluster.a.upstream_rq_total", "value": 7},
    ]
    histograms = stats[-1]["histograms"]
    assert histograms["supported_quantiles"] == [0, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 100]
    unused, used = histograms["computed_quantiles"]
    assert unused["name"] == "cluster.a.upstream_cx_connect_ms"
    assert unused["values"][0] == {"cumulative": None, "interval": None}
    assert [value["cumulative"] for value in used["values"]] == [1, 1, 2, 3, 4, 4, 4, 4, 4, 4]


async def test_json_is_compact_as_envoys(admin, sidecar):
    sidecar.count("x", 1)

    assert await body(admin, "/stats?format=json") == '{"stats":[{"name":"x","value":1}]}'


async def test_nothing_selected(admin, counted):
    assert await body(admin, "/stats?filter=nothing") == ""
    assert await body(admin, "/stats?filter=nothing&format=json") == '{"stats":[]}'


async def test_used_only_leaves_out_what_is_zero(admin, counted):
    names = [line.partition(":")[0] for line in (await body(admin, "/stats?usedonly")).splitlines()]

    assert names == ["cluster.a.upstream_cx_active", "cluster.a.upstream_rq_total", "cluster.a.upstream_rq_time"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("filter=rq_t", ["cluster.a.upstream_rq_total", "cluster.a.upstream_rq_time"]),
        ("filter=rq_t&invert_filter&usedonly", ["cluster.a.upstream_cx_active"]),
        ("type=Gauges", ["cluster.a.upstream_cx_active"]),
        ("type=Histograms&usedonly", ["cluster.a.upstream_rq_time"]),
        ("type=TextReadouts", []),
    ],
    ids=["search", "inverted", "gauges", "histograms", "text readouts"],
)
async def test_selection(admin, counted, query, names):
    assert [line.partition(":")[0] for line in (await body(admin, f"/stats?{query}")).splitlines()] == names


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("type=bad", "invalid &type= param"),
        ("filter=(", "Invalid re2 regex: missing ), unterminated subpattern: ("),
        ("format=html", "usage: /stats?format=(json|prometheus|text)\n\n"),
    ],
    ids=["type", "filter", "format"],
)
async def test_bad_query_is_refused(admin, query, message):
    response = await admin.get(f"/stats?{query}")

    assert (response.status, await response.text()) == (400, message)


async def test_prometheus_types_order_and_labels(admin, sidecar):
    """Recorded from Envoy 1.40: counters, gauges, histograms; `cluster.retry.x` before `cluster.retry_or_y`."""
    sidecar.count(
        "cluster.b.retry.upstream_rq_5xx",
        2,
        tags=(("envoy.response_code_class", "5"), ("envoy.cluster_name", "b")),
        extracted="cluster.retry.upstream_rq_xx",
    )
    sidecar.count("cluster_manager.active_clusters", 2, MetricKind.GAUGE)
    sidecar.count(
        "cluster.b.retry_or_shadow_abandoned",
        0,
        tags=(("envoy.cluster_name", "b"),),
        extracted="cluster.retry_or_shadow_abandoned",
    )
    sidecar.count("cluster.a.retry_or_shadow_abandoned", 3, tags=A, extracted="cluster.retry_or_shadow_abandoned")

    response = await admin.get("/stats/prometheus")

    assert response.headers["content-type"] == "text/plain; charset=UTF-8"
    assert await response.text() == (
        "# TYPE envoy_cluster_retry_upstream_rq_xx counter\n"
        'envoy_cluster_retry_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="b"} 2\n'
        "# TYPE envoy_cluster_retry_or_shadow_abandoned counter\n"
        'envoy_cluster_retry_or_shadow_abandoned{envoy_cluster_name="a"} 3\n'
        'envoy_cluster_retry_or_shadow_abandoned{envoy_cluster_name="b"} 0\n'
        "# TYPE envoy_cluster_manager_active_clusters gauge\n"
        "envoy_cluster_manager_active_clusters{} 2\n"
    )
    assert await body(admin, "/stats?format=prometheus") == await body(admin, "/stats/prometheus")


async def test_prometheus_histogram_has_envoys_buckets(admin, sidecar):
    sidecar.count("t", histogram(0, 1, 4, 9_999_999), MetricKind.HISTOGRAM, A)

    lines = (await body(admin, "/stats/prometheus")).splitlines()

    assert lines[0] == "# TYPE envoy_t histogram"
    assert lines[1:4] == [
        'envoy_t_bucket{envoy_cluster_name="a",le="0.5"} 1',
        'envoy_t_bucket{envoy_cluster_name="a",le="1"} 2',
        'envoy_t_bucket{envoy_cluster_name="a",le="5"} 3',
    ]
    assert lines[-4:] == [
        'envoy_t_bucket{envoy_cluster_name="a",le="3600000"} 3',
        'envoy_t_bucket{envoy_cluster_name="a",le="+Inf"} 4',
        'envoy_t_sum{envoy_cluster_name="a"} 9990005',
        'envoy_t_count{envoy_cluster_name="a"} 4',
    ]


async def test_prometheus_label_values_are_escaped(admin, sidecar):
    sidecar.count("x", 1, tags=(("envoy.cluster_name", 'a"\\\n'),))

    assert 'envoy_x{envoy_cluster_name="a\\"\\\\\\n"} 1\n' in await body(admin, "/stats/prometheus")


def test_value_on_a_bound_counts_into_its_bucket():
    counts = dict(zip(BUCKET_BOUNDS, cumulative_counts(histogram(4, 5, 6)), strict=True))

    assert (counts[1], counts[5], counts[10]) == (0, 2, 3)


async def test_prometheus_own_parser_reads_the_page(admin, sidecar, counted):
    odd = (("envoy.cluster_name", 'a"\\\n{},='),)
    sidecar.count("cluster.odd.upstream_rq_total", 3, tags=odd, extracted="cluster.upstream_rq_total")

    families = {f.name: f for f in text_string_to_metric_families(await body(admin, "/stats/prometheus"))}

    assert families["envoy_cluster_upstream_rq"].type == "counter"
    values = {s.labels["envoy_cluster_name"]: s.value for s in families["envoy_cluster_upstream_rq"].samples}
    assert values == {"a": 7, odd[0][1]: 3}
    histogram = {s.labels.get("le", s.name): s.value for s in families["envoy_cluster_upstream_rq_time"].samples}
    assert (histogram["1"], histogram["+Inf"], histogram["envoy_cluster_upstream_rq_time_sum"]) == (1, 4, 10)
