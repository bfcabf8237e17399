"""Sidecar and upstreams for synchronous tests: the same behaviour, without a loop of the test's own."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from proxy.push.file_source import ConfigRejectedError
from proxy.testing import FaultyUpstream, Reply, Sidecar

BLOCK = {"consecutive5xxErrors": 3, "baseEjectionTime": "30s", "maxEjectionPercent": 50}
RULE = {"host": "reviews", "trafficPolicy": {"loadBalancer": {"simple": "ROUND_ROBIN"}, "outlierDetection": BLOCK}}


def test_an_ejection_passes_in_virtual_time():
    with (
        FaultyUpstream() as good,
        FaultyUpstream(status=500) as bad,
        Sidecar(destination_rule=RULE, endpoints=[good, bad]) as sidecar,
    ):
        for _ in range(6):
            sidecar.get("/")
        out = list(sidecar.ejected())
        sidecar.advance(seconds=30)

        assert (out, sidecar.ejected()) == ([bad], [])
        assert [event.kind for event in sidecar.events] == ["ejection", "unejection"]


def test_any_client_may_use_the_url():
    with FaultyUpstream(body="hi") as good, Sidecar(endpoints=[good]) as sidecar:
        with urllib.request.urlopen(f"{sidecar.url}/x") as response:
            assert response.read() == b"hi"
        assert good.requests[-1].target == "/x"


def test_a_response_has_status_headers_and_body():
    with (
        FaultyUpstream(status=404, body='{"a": 1}', headers={"X-A": "b"}) as upstream,
        Sidecar(endpoints=[upstream]) as sidecar,
    ):
        response = sidecar.post("/", data=b"x")

        assert (response.status, response.text, response.json()) == (404, '{"a": 1}', {"a": 1})
        assert (response.header("x-a"), response.header("x-b")) == ("b", None)
        assert bytes(upstream.requests[0].body) == b"x"


def test_an_upstream_takes_its_script_from_the_test():
    with FaultyUpstream() as upstream, Sidecar(endpoints=[upstream]) as sidecar:
        upstream.for_next(1, status=404)
        upstream.sequence([Reply(status=410)])
        upstream.set(path="/p", status=418)
        statuses = [sidecar.get(path).status for path in ("/", "/", "/", "/p")]
        upstream.wait_requests(4)

        assert (statuses, upstream.request_count) == ([404, 410, 200, 418], 4)


def test_an_upstream_refuses_and_accepts():
    with (
        FaultyUpstream() as upstream,
        Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[upstream]) as sidecar,
    ):
        upstream.refuse()
        assert sidecar.get("/").status == 503
        upstream.accept()
        sidecar.wait_unejected(upstream)

        assert sidecar.get("/").status == 200


def test_waiting_is_done_while_another_thread_sends():
    with (
        FaultyUpstream(status=500) as bad,
        Sidecar(outlier_detection=BLOCK | {"maxEjectionPercent": 100}, endpoints=[bad]) as sidecar,
    ):

        def send():
            for _ in range(3):
                with pytest.raises(urllib.error.HTTPError):
                    urllib.request.urlopen(sidecar.url)

        sender = threading.Thread(target=send)
        sender.start()
        sidecar.wait_ejected(bad, within_seconds=60)
        sender.join()

        assert "Ejected" in sidecar.explain(bad)
        assert sidecar.verdict(bad).num_ejections == 1
        sidecar.assert_ejected(bad)


def test_the_admin_answers():
    with FaultyUpstream() as good, Sidecar(endpoints=[good]) as sidecar:
        with urllib.request.urlopen(f"{sidecar.admin_url}/clusters?format=json") as response:
            clusters = json.load(response)["cluster_statuses"]

        assert [cluster["name"] for cluster in clusters] == ["outbound|80||service.default.svc.cluster.local"]


def test_a_refused_rule_leaves_no_thread():
    before = threading.active_count()

    with (
        pytest.raises(ConfigRejectedError),
        Sidecar(outlier_detection={"interval": "0s"}, endpoints=["127.0.0.1:1"]),
    ):
        pass

    assert threading.active_count() == before


def test_an_exception_that_leaves_the_block_carries_the_timeline():
    with (
        pytest.raises(KeyError) as caught,
        FaultyUpstream() as good,
        Sidecar(endpoints=[good]),
    ):
        raise KeyError

    assert caught.value.__notes__ == ["ejection timeline: nothing was detected"]
