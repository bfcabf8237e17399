"""unittest, without pytest's fixtures: the same objects as context managers."""

import unittest

from proxy.testing import FaultyUpstream, Sidecar

BLOCK = {"consecutive5xxErrors": 3, "baseEjectionTime": "30s", "maxEjectionPercent": 50}


class EjectionTest(unittest.TestCase):
    def setUp(self):
        self.good = self.enterContext(FaultyUpstream())
        self.bad = self.enterContext(FaultyUpstream(status=500))
        self.proxy = self.enterContext(Sidecar(outlier_detection=BLOCK, endpoints=[self.good, self.bad]))

    def test_only_the_failing_pod_is_ejected(self):
        while not self.proxy.ejected():
            self.proxy.get("/")

        self.proxy.assert_ejected(self.bad)
        self.assertIn("CONSECUTIVE_5XX (3 in a row, threshold 3)", self.proxy.explain(self.bad))


class AsyncEjectionTest(unittest.IsolatedAsyncioTestCase):
    async def test_the_pod_returns_by_itself(self):
        good = await self.enterAsyncContext(FaultyUpstream())
        bad = await self.enterAsyncContext(FaultyUpstream(status=500))
        proxy = await self.enterAsyncContext(Sidecar(outlier_detection=BLOCK, endpoints=[good, bad]))
        while not proxy.ejected():
            await proxy.get("/")

        await proxy.wait_unejected(bad)


if __name__ == "__main__":
    unittest.main()
