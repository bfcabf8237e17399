"""Every expectation here is what Envoy 1.40 sent upstream for the same path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.router.path_normalization import PathError, normalize_path

PIECES = (
    "/",
    ".",
    "..",
    "%2e",
    "%2E",
    ";",
    "\\",
    "a",
    "%",
    "%3",
    "2",
    "e",
    "%32",
    "%65",
    "%2f",
    "%25",
    "?",
    "|",
    "b;c",
)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("/a/b.c?x=/../", "/a/b.c?x=/../"),
        ("/a/..", "/"),
        ("/..", "/"),
        ("/../", "/"),
        ("/a/.", "/a/"),
        ("/a/./", "/a/"),
        ("/a/b/../../../c", "/c"),
        ("/a//../b", "/a/b"),
        ("//a", "//a"),
        ("/a/..?x", "/?x"),
        ("/...", "/..."),
        ("/.a/..b", "/.a/..b"),
        ("/a/...//.", "/a/...//"),
        ("/?/../x", "/?/../x"),
    ],
)
def test_dot_segments_are_resolved(path, normal):
    assert normalize_path(path.encode()) == normal.encode()


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e", "/a/"),
        ("/a%2e%2e", "/a.."),
        ("/a/%2e%2e%2f", "/a/..%2f"),
        ("/a/%252e%252e/b", "/a/%252e%252e/b"),
        ("/a\\..\\b", "/b"),
        ("/a\\b", "/a/b"),
        ("/a%5c..%5cb", "/a%5c..%5cb"),
    ],
)
def test_dots_and_slashes_count_in_each_spelling(path, normal):
    assert normalize_path(path.encode()) == normal.encode()


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/a/..;/b", "/b"),
        ("/a/..;x/b", "/b"),
        ("/a/.;x", "/a/"),
        ("/a/..;x=1;y", "/"),
        ("/a/.;x\\b", "/a/"),
        ("/a/..;%2f/b", "/b"),
        ("/a/b/..;x?q", "/a/?q"),
        ("/a/%2e;/b", "/a/.;/b"),
        ("/a/...;/b", "/a/...;/b"),
        ("/a/;../b", "/a/;../b"),
        ("/a;/../b", "/b"),
    ],
)
def test_parameters_of_a_dot_segment_are_dropped(path, normal):
    assert normalize_path(path.encode()) == normal.encode()


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/%41%7e%2D%5F%30", "/A~-_0"),
        ("/a%c3%a9%2F%20%7F", "/a%c3%a9%2F%20%7F"),
        ('/a|b{c}"<>^`', "/a%7Cb%7Bc%7D%22%3C%3E%5E%60"),
        ("/a@:!$&'()+,=~-_.[]*", "/a@:!$&'()+,=~-_.[]*"),
        ("/%", "/%"),
        ("/a%2", "/a%2"),
        ("/a%zz", "/a%zz"),
    ],
)
def test_escapes(path, normal):
    assert normalize_path(path.encode()) == normal.encode()


@pytest.mark.parametrize(("path", "normal"), [("/%%32%65", "/%252e"), ("/%%32e", "/%252e"), ("/%25%32%65", "/%252e")])
def test_decoding_makes_no_new_escape(path, normal):
    assert normalize_path(path.encode()) == normal.encode()


def test_nul_has_no_normal_form():
    with pytest.raises(PathError):
        normalize_path(b"/a%00")


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_normal_form_stays_below_the_root_and_keeps_the_query(pieces):
    path = "/" + "".join(pieces)

    normal = normalize_path(path.encode())

    way, _, query = normal.decode().partition("?")
    assert query == path.partition("?")[2]
    assert way.startswith("/")
    assert not {".", ".."} & set(way.split("/"))
    assert "\\" not in way
