"""Your own application behind the sidecar. The same line serves aiohttp, Starlette and Flask applications."""

import pytest

from proxy.testing import Upstream

fastapi = pytest.importorskip("fastapi")

BLOCK = {"consecutive5xxErrors": 2, "baseEjectionTime": "30s", "maxEjectionPercent": 100}

app = fastapi.FastAPI()
stock = {"apples": 3}


@app.get("/stock/{item}")
def read_stock(item: str):
    if item not in stock:
        raise fastapi.HTTPException(503, "warehouse is down")
    return {"item": item, "count": stock[item]}


async def test_the_application_answers_through_the_proxy(sidecar):
    async with Upstream.for_app(app) as pod, sidecar(outlier_detection=BLOCK, endpoints=[pod]) as proxy:
        response = await proxy.get("/stock/apples")

        assert await response.json() == {"item": "apples", "count": 3}


async def test_two_errors_of_the_application_take_it_out(sidecar):
    async with Upstream.for_app(app) as pod, sidecar(outlier_detection=BLOCK, endpoints=[pod]) as proxy:
        for _ in range(3):
            await proxy.get("/stock/pears")
        proxy.assert_ejected(pod)

        await proxy.wait_unejected(pod)
        assert (await proxy.get("/stock/apples")).status == 200
