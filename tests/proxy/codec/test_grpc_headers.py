"""What is read from the headers of gRPC. Expected values: Envoy 1.40, sent each of these."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.grpc_headers import (
    INVALID_STATUS,
    format_grpc_timeout,
    grpc_status,
    is_grpc_request,
    parse_grpc_timeout,
)
from tests.proxy.router.heads import request_head


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/grpc", True),
        ("application/grpc+proto", True),
        ("application/grpc;charset=utf-8", False),
        ("application/grpc, text/plain", False),
        ("application/grpc-web", False),
        ("application/grpcx", False),
        ("Application/grpc", False),
        ("text/plain", False),
    ],
)
def test_grpc_is_told_by_the_content_type(content_type, expected):
    assert is_grpc_request(request_head("/", f"content-type: {content_type}")) is expected


def test_request_without_content_type_is_not_grpc():
    assert not is_grpc_request(request_head())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"0", 0),
        (b"14", 14),
        (b"0014", 14),
        (b"+14", 14),
        (b"16", 16),
        (b"17", INVALID_STATUS),
        (b"99", INVALID_STATUS),
        (b"-1", INVALID_STATUS),
        (b"abc", INVALID_STATUS),
        (b"1" * 5_000, INVALID_STATUS),
        (b"0" * 5_000, 0),
        (b"", None),
    ],
)
def test_status(value, expected):
    assert grpc_status([(b"x", b"1"), (b"grpc-status", value)]) == expected


def test_no_status():
    assert grpc_status([(b"grpc-message", b"x")]) is None


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        (b"0m", 0),
        (b"100m", 100),
        (b"1S", 1_000),
        (b"2M", 120_000),
        (b"1H", 3_600_000),
        (b"99999999H", 359_999_996_400_000),
        (b"1u", 1),
        (b"1000u", 1),
        (b"1001u", 2),
        (b"999999n", 1),
        (b"1000001n", 2),
        (b"+5m", 5),
        (b"5 m", 5),
        (b"100000000m", None),
        (b"5", None),
        (b"m", None),
        (b"5X", None),
        (b"-5m", None),
        (b"5m,7m", None),
        (b"", None),
        (b"9" * 5_000 + b"m", None),
    ],
)
def test_timeout(value, expected_ms):
    assert parse_grpc_timeout(value) == expected_ms


@pytest.mark.parametrize(
    ("timeout_ms", "expected"),
    [
        (1, b"1m"),
        (99_999_999, b"99999999m"),
        (100_000_000, b"100000S"),
        (99_999_999_999, b"99999999S"),
        (100_000_000_000, b"1666666M"),
        (359_999_996_400_000, b"99999999H"),
        (10**18, b"99999999H"),
    ],
)
def test_timeout_as_text(timeout_ms, expected):
    assert format_grpc_timeout(timeout_ms) == expected


@given(st.integers(1, 10**17))
def test_timeout_is_never_told_longer_than_it_is(timeout_ms):
    told_ms = parse_grpc_timeout(format_grpc_timeout(timeout_ms))

    assert told_ms is not None
    assert told_ms <= timeout_ms
    assert timeout_ms - told_ms < 3_600_000 or timeout_ms > 99_999_999 * 3_600_000
