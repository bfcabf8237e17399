"""Header lists: order and duplicates are kept, and changes touch only the line that is meant."""

import pytest

from proxy.codec.headers import get_header, remove_headers, render_head, replace_header

A, B, C = (b"a", b"1"), (b"b", b"2"), (b"c", b"3")


def test_head_is_its_lines_in_order():
    assert render_head(b"GET / HTTP/1.1\r\n", [B, A, B]) == b"GET / HTTP/1.1\r\nb: 2\r\na: 1\r\nb: 2\r\n\r\n"


def test_head_without_headers_ends_with_an_empty_line():
    assert render_head(b"HTTP/1.1 100 Continue\r\n", []) == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "value"), [([], None), ([A], None), ([A, B], b"2"), ([B, (b"b", b"9")], b"2"), ([(b"b", b"")], b"")]
)
def test_first_value_is_found(headers, value):
    assert get_header(headers, b"b") == value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [(b"b", b"new")]),
        ([A, C], [A, C, (b"b", b"new")]),
        ([A, B, C], [A, (b"b", b"new"), C]),
        ([B, A, B, C, B], [(b"b", b"new"), A, C]),
    ],
    ids=["empty", "absent", "once", "several"],
)
def test_replaced_where_it_stands(before, after):
    headers = list(before)

    replace_header(headers, b"b", b"new")

    assert headers == after


def test_removed_every_line_of_the_names():
    headers = [A, B, A, C]

    remove_headers(headers, {b"a", b"c", b"z"})

    assert headers == [B]
