"""RE2 expressions of a route, compiled with Python's `re`.

What Istio's users write is common to both: leftmost-first alternatives, greedy and lazy repeats, classes, groups.
What RE2 has not (look-around, back references) has been refused with the rule. `re` backtracks where RE2 does not, so
a pathological expression in a configuration can be slow; it is the operator's own.
"""

import re

_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")
_POSIX_CLASS = re.compile(r"\[:([a-z]+):\]")
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


def compile_re2(pattern: str) -> re.Pattern[str]:
    """Return `pattern` ready for `text_of` a path or value; classes and word characters are ASCII, as in RE2.

    Raises:
        re.error: `re` cannot read it; the validation of routes refuses such a pattern before.
    """
    pattern = _NAMED_GROUP.sub("(?P<", pattern)
    pattern = _POSIX_CLASS.sub(lambda match: _POSIX_CLASSES.get(match[1], match[0]), pattern)
    try:
        return re.compile(pattern, re.ASCII)
    except ValueError:  # it says `(?u)`, which RE2 does not know
        return re.compile(pattern)


def text_of(value: bytes) -> str:
    """Return the text that an expression looks at: UTF-8, so that `.` is a character; other bytes stay apart."""
    return value.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return what `text_of` was given."""
    return text.encode("utf-8", "surrogateescape")
