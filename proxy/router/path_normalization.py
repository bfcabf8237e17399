"""Paths in their normal form, so that a route and its host cannot be shown two different things.

Istio's listeners normalise before they route (`pathNormalization: BASE`, Envoy's `normalize_path`). Ports
`PathUtil::canonicalPath` (Envoy, source/common/http/path_utility.cc) and what it uses of the Chromium URL library.
"""

import re

# What a path that is normal already has not. Dots count at the start of a segment only.
_MAY_CHANGE = re.compile(rb"""/\.|[%\\"<>^`{|}]""")

# Some servers drop parameters before they resolve dots, so `..;x` means `..` to them.
_DOT_SEGMENT_PARAMETERS = re.compile(rb"(?<=/)(\.\.?);[^/]*")

_DOT = rb"(?:\.|%2[Ee])"
_DOT_SEGMENT = re.compile(rb"%b(%b)?(?:[/\\]|\Z)" % (_DOT, _DOT))
_TOKEN = re.compile(rb"(%s)|%%([0-9A-Fa-f]{2})|(.)" % _DOT, re.DOTALL)
_NESTED_ESCAPE = re.compile(rb"[0-9A-Fa-f]{2}")
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_WRITTEN = {ord("\\"): b"/"} | {byte: b"%%%02X" % byte for byte in b'"<>^`{|}'}
_NONE = -4  # far enough from any place in the output


class PathError(ValueError):
    """Raised when a path has no normal form: it holds `%00`."""


def normalize_path(path: bytes) -> bytes:
    """Return a path in normal form, its query untouched.

    Dot segments are resolved (`/a/../b`, also as `%2e`), backslashes become slashes, letters, digits and `-._~` are
    decoded, what a URL may not hold is encoded. Slashes are not merged, `%2F` stays.

    Args:
        path: Begins with a slash; no blank, control character or byte above 126.

    Raises:
        PathError: The path holds `%00`.

    >>> normalize_path(b"/a/./b/%2e%2E/%63?q=/../")
    b'/a/c?q=/../'
    """
    if _MAY_CHANGE.search(path) is None:
        return path
    path, question_mark, query = path.partition(b"?")
    return bytes(_normalized(_DOT_SEGMENT_PARAMETERS.sub(rb"\1", path))) + question_mark + query


def _normalized(path: bytes) -> bytearray:
    out = bytearray()
    stray_percent = _NONE  # where in `out` a percent sign stands that began no escape
    position = 0
    while position < len(path):
        segment = _DOT_SEGMENT.match(path, position) if out.endswith(b"/") else None
        if segment is not None:
            position = segment.end()
            if segment[1] is not None:
                del out[max(out.rfind(b"/", 0, len(out) - 1), 0) + 1 :]
                if stray_percent >= len(out):
                    stray_percent = _NONE
            continue
        token = _TOKEN.match(path, position)
        assert token is not None
        position = token.end()
        dot, escape, other = token.groups()
        if dot is not None:
            out += b"."
        elif escape is not None:
            byte = int(escape, 16)
            if not byte:
                raise PathError("%00 in a path")
            if byte not in _UNESCAPED:
                out += token[0]
                continue
            out.append(byte)
            if stray_percent >= len(out) - 3:
                _break_nested_escape(out, stray_percent, path[position : position + 1])
        elif other == b"%":
            stray_percent = len(out)
            out += other
        else:
            out += _WRITTEN.get(other[0], other)
    return out


def _break_nested_escape(out: bytearray, percent: int, following: bytes) -> None:
    """Encode a stray percent sign that what was just decoded would make the start of an escape: `%%32e` is `%252e`."""
    digits = bytes(out[percent + 1 :])
    if _NESTED_ESCAPE.fullmatch((digits + following)[:2]) is not None:
        out[percent:] = b"%25" + digits
