"""A plain function with the fixtures: sidecar and upstreams run in threads, and any HTTP client may use them."""

import urllib.request

BLOCK = {"consecutive5xxErrors": 3, "baseEjectionTime": "30s", "maxEjectionPercent": 100}


def test_a_pod_that_refuses_connections_is_ejected_and_returns(sidecar, faulty_upstream):
    pod = faulty_upstream(body="hello")
    proxy = sidecar(outlier_detection=BLOCK, endpoints=[pod])

    pod.refuse()
    while not proxy.ejected():
        assert proxy.get("/").status == 503

    pod.accept()
    proxy.advance(seconds=30)
    with urllib.request.urlopen(proxy.url) as response:
        assert response.read() == b"hello"


def test_the_backoff_grows(detector, simulated_time):
    cluster = detector(hosts=["a", "b"], consecutive_5xx=5, max_ejection_percent=50)
    pod = cluster.hosts[0]

    for _ in range(2):
        for _ in range(5):
            pod.put_http_response_code(503)
        assert pod.ejected
        simulated_time.advance(30_000)

    assert pod.ejected  # for 60 s now
    simulated_time.advance(30_000)
    assert not pod.ejected
