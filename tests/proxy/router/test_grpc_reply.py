import pytest

from proxy.router.grpc_reply import grpc_reply_headers
from tests.proxy.router.heads import lines


@pytest.mark.parametrize(
    ("status", "grpc_status"),
    [(400, 13), (401, 16), (403, 7), (404, 12), (418, 2), (429, 14), (500, 2), (502, 14), (503, 14), (504, 14)],
)
def test_http_status_becomes_a_grpc_one(status, grpc_status):
    headers = grpc_reply_headers(status, b"fault filter abort")

    assert lines(headers) == [
        "content-type: application/grpc",
        f"grpc-status: {grpc_status}",
        "grpc-message: fault filter abort",
    ]


def test_given_status_wins_and_an_empty_message_is_left_out():
    assert lines(grpc_reply_headers(200, b"", grpc_status=0)) == ["content-type: application/grpc", "grpc-status: 0"]


def test_message_is_percent_encoded():
    assert lines(grpc_reply_headers(503, "100% é~}\r\n".encode()))[-1] == "grpc-message: 100%25 %C3%A9%7E}%0D%0A"
