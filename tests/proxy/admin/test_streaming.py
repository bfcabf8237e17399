"""Answers in pieces, and readers that leave in between."""

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
