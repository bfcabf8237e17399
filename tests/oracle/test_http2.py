"""The probes of RFC 9113's rules, sent to Envoy: it keeps them too, or ends the connection without a word."""

import asyncio

import pytest

from proxy.testing import FaultyUpstream
from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.proxy.http.http2_probes import PROBES, run

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("_envoy")]

_AT_ONCE = 8


async def test_envoy_does_what_the_table_says():
    async with FaultyUpstream(fault="hang") as upstream:
        service = Service(host="a", addresses=[upstream.address], outlier_detection=None)
        async with Envoy([service]) as envoy:
            host, port = envoy.listen
            turn = asyncio.Semaphore(_AT_ONCE)

            async def difference(probe):
                async with turn:
                    outcome = str(await run(f"{host}:{port}", probe))
                expected = [probe.envoy] if probe.envoy else [str(outcome) for outcome in probe.expected]
                return None if outcome in expected else f"{probe}: {outcome}, not {' or '.join(expected)}"

            found = await asyncio.gather(*map(difference, PROBES))
            # One by one, in case a busy machine was slow to answer.
            again = [await difference(probe) for probe, line in zip(PROBES, found, strict=True) if line]

    assert [line for line in again if line is not None] == []
