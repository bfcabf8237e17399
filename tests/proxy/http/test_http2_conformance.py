"""What RFC 9113, sections 3 to 8 and 10, demands of a server, one probe for each rule (`http2_probes.PROBES`).

`tests/oracle/test_http2.py` sends the same probes to Envoy.
"""

import pytest

from proxy.testing import FaultyUpstream
from tests.proxy.http.http2_probes import PROBES, Probe, run
from tests.proxy.http.sidecar import Sidecar, until


@pytest.mark.parametrize("probe", PROBES, ids=str)
async def test_rule(probe: Probe):
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        outcome = await run(str(sidecar.listener.address), probe)

        assert str(outcome) in [str(expected) for expected in probe.expected]
        await until(lambda: sidecar.http_stats.downstream_cx_http2_active == 0 or outcome.alive)
