"""Answers in pieces, and readers that leave in between."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from proxy.admin.streaming import stream


async def test_reader_that_leaves_is_no_error(monkeypatch):
    async def write(self, data):
        raise ConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "write", write)

    response = await stream(make_mocked_request("GET", "/clusters"), ["a"])

    assert response.status == 200


async def test_head_request_makes_no_pieces():
    def pieces():
        raise AssertionError("made")
        yield ""

    response = await stream(make_mocked_request("HEAD", "/clusters"), pieces())

    assert response.status == 200


async def test_long_answer_gives_way_to_others(monkeypatch):
    """`benchmarks/admin_pages.py` says for how long a page holds the loop."""
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count_turns())
    await stream(make_mocked_request("GET", "/clusters"), ["a"] * 100)
    counter.cancel()

    assert turns >= 100
