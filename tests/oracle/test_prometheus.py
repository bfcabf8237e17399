"""`/stats/prometheus` of both proxies after the same requests, read by Prometheus' own parser."""

import re
from pathlib import Path

import aiohttp
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.testing import FaultyUpstream
from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.usefixtures("_envoy")]

PAGE = Path(__file__).parents[2] / "docs" / "prometheus.md"


def families(text):
    """The type and the label names of each family; bucket bounds and the values of labels may differ."""
    found = {}
    for family in text_string_to_metric_families(text):
        # Envoy's default rule cuts a cluster's name at its first dot and leaves the rest in the name of the statistic.
        name = family.name.replace("envoy_cluster_test_", "envoy_cluster_")
        found[name] = (family.type, {frozenset(sample.labels) - {"le"} for sample in family.samples})
    return found


def listed():
    """The names in the code blocks of the page."""
    blocks = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return {name for block in blocks for name in block.split()}


async def test_names_types_and_labels_are_envoys():
    pages = []
    async with FaultyUpstream() as good, FaultyUpstream(status=503) as bad:
        service = Service(
            host="shop.test",
            addresses=(good.address, bad.address),
            outlier_detection={"consecutive5xxErrors": 3, "interval": "1s", "maxEjectionPercent": 100},
        )
        for kind in (Envoy, Sidecar):
            async with kind([service]) as proxy, aiohttp.ClientSession() as session:
                url = f"http://{proxy.listen[0]}:{proxy.listen[1]}/"
                for _ in range(12):
                    async with session.get(url, headers={"host": service.host}) as response:
                        await response.read()
                async with httpx.AsyncClient(http1=False, http2=True) as client:  # Envoy shows http2 from the first on
                    await client.get(url, headers={"host": service.host})
                pages.append(families(await proxy.get("/stats/prometheus")))

    envoys, ours = pages
    ours = {name: shape for name, shape in ours.items() if name.startswith("envoy_")}
    assert len(ours) > 100
    assert {name: shape for name, shape in ours.items() if envoys.get(name) != shape} == {}
    compared = ("envoy_cluster_", "envoy_http_", "envoy_http2_")
    missing = {name for name in envoys.keys() - ours.keys() if name.startswith(compared)}
    assert missing == listed()
