import pytest

from outlier import Result, grpc_to_http_status
from outlier.result import RESULT_TO_HTTP_CODE


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (Result.EXT_ORIGIN_REQUEST_SUCCESS, 200),
        (Result.EXT_ORIGIN_REQUEST_FAILED, 500),
        (Result.EXT_ORIGIN_REQUEST_DEGRADED, 200),
        (Result.LOCAL_ORIGIN_CONNECT_SUCCESS_FINAL, 200),
        (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None),
        (Result.LOCAL_ORIGIN_CONNECT_FAILED, 503),
        (Result.LOCAL_ORIGIN_TIMEOUT, 504),
    ],
)
def test_result_stands_for_a_status(result, code):
    assert RESULT_TO_HTTP_CODE[result] == code


def test_every_result_stands_for_something():
    assert len(RESULT_TO_HTTP_CODE) == len(Result)


@pytest.mark.parametrize(
    ("grpc_status", "status"),
    [
        *enumerate([200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401]),
        (17, 500),
        (-1, 500),
        (999, 500),
    ],
)
def test_grpc_status_counts_as_http_status(grpc_status, status):
    assert grpc_to_http_status(grpc_status) == status
