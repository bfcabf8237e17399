import re
import string

import pytest

from proxy.config.re2 import bytes_of, compile_re2, text_of


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(?<name>a)b", "ab", True),
        ("(?P<name>a)b", "ab", True),
        ("[[:alpha:]]+", "aZ", True),
        ("[[:alpha:]]+", "a1", False),
        ("[^[:digit:]x]+", "ab", True),
        ("[^[:digit:]x]+", "a1", False),
        (r"\d", "٣", False),
        (".", "é", True),
        ("(?u)é", "é", True),
        ("(?i)AB", "ab", True),
        ("a$", "a", True),
    ],
)
def test_what_both_notations_mean(pattern, text, matches):
    assert (compile_re2(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("punct", string.punctuation),
        ("xdigit", string.hexdigits),
        ("alnum", string.ascii_letters + string.digits),
        ("word", string.ascii_letters + string.digits + "_"),
        ("space", string.whitespace),
        ("blank", "\t "),
        ("graph", "".join(map(chr, range(33, 127)))),
        ("print", "".join(map(chr, range(32, 127)))),
        ("cntrl", "".join(map(chr, [*range(32), 127]))),
    ],
)
def test_posix_classes_hold_ascii_characters(name, members):
    pattern = compile_re2(f"[[:{name}:]]")

    assert {chr(code) for code in range(256) if pattern.fullmatch(chr(code))} == set(members)


def test_what_cannot_be_read_is_an_error():
    with pytest.raises(re.error):
        compile_re2("(")


@pytest.mark.parametrize("value", [b"/a", "/é".encode(), b"\xff\xfe", b"/%c3"])
def test_text_and_back(value):
    assert bytes_of(text_of(value)) == value
