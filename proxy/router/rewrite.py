"""What a route makes of a request's path and authority on the way to the host.

Made ready once per route. Ports `RouteEntryImplBase::finalizePathHeader` and `finalizeHostHeader` (Envoy,
source/common/router/config_impl.cc): the host comes first, the query stays, and what was asked for is kept in
`x-envoy-original-host` and `x-envoy-original-path`, also where nothing changes. Runs once per request, behind the
route's header operations.
"""

import re
from collections.abc import Callable

from proxy.codec.headers import replace_header
from proxy.codec.http1_request import RequestHead
from proxy.config.re2 import bytes_of, compile_re2, text_of
from proxy.config.route_config import MatchKind, RegexRewrite, RouteAction, StringMatcher

PathRewrite = Callable[[bytes], bytes]

_ORIGINAL_HOST = b"x-envoy-original-host"
_ORIGINAL_PATH = b"x-envoy-original-path"
_REFERENCE = re.compile(r"\\([0-9\\])")


def compile_rewrite(matched: StringMatcher, action: RouteAction) -> Callable[[RequestHead], None] | None:
    """Return the function that rewrites a head; None when the action rewrites nothing.

    Args:
        matched: The route's condition on the path; it says what `prefix_rewrite` replaces.
        action: A part of it that holds a blank or a control character is left out: it would break the request line.

    Raises:
        re.error: The pattern of the regex rewrite cannot be compiled.
    """
    host = action.host_rewrite.encode() if fits_a_line(action.host_rewrite) else b""
    path = _path_rewrite(matched, action)
    if not host and path is None:
        return None

    def rewrite(head: RequestHead) -> None:
        if host:
            replace_header(head.headers, _ORIGINAL_HOST, head.authority)
            head.authority = host
            head.headers[0] = (b"host", host)
        if path is not None:
            replace_header(head.headers, _ORIGINAL_PATH, head.path)
            head.path = path(head.path)

    return rewrite


def compile_prefix_rewrite(matched: StringMatcher, replacement: str) -> PathRewrite:
    """Return the function that replaces what `matched` has found in a path: a prefix, or all but the query."""
    new = replacement.encode()
    if matched.kind in {MatchKind.PREFIX, MatchKind.PRESENT}:
        length = len(matched.value.encode()) if matched.kind is MatchKind.PREFIX else 1  # presence stands for `/`
        return lambda path: new + path[length:]

    def replace_whole(path: bytes) -> bytes:
        _, question_mark, query = path.partition(b"?")
        return new + question_mark + query

    return replace_whole


def fits_a_line(text: str) -> bool:
    """Whether a text may stand in a request line or a header: no blank, no control character."""
    return all(character > " " and character != "\x7f" for character in text)


def _path_rewrite(matched: StringMatcher, action: RouteAction) -> PathRewrite | None:
    if action.prefix_rewrite and fits_a_line(action.prefix_rewrite):
        return compile_prefix_rewrite(matched, action.prefix_rewrite)
    if action.regex_rewrite is not None and fits_a_line(action.regex_rewrite.substitution):
        return _compile_regex_rewrite(action.regex_rewrite)
    return None


def _compile_regex_rewrite(rewrite: RegexRewrite) -> PathRewrite:
    r"""Return the function that replaces every match in a path.

    In the substitution `\1` to `\9` are groups and `\0` is the whole match, as in RE2; a group that has not matched, or
    is not there, is empty.
    """
    pattern = compile_re2(rewrite.pattern)
    parts = _REFERENCE.split(rewrite.substitution)  # literal, reference, literal, ...

    def rewrite_path(path: bytes) -> bytes:
        path, question_mark, query = path.partition(b"?")
        last_end = -1

        def replacement(match: re.Match[str]) -> str:
            nonlocal last_end
            adjacent, last_end = match.start() == last_end, match.end()
            if adjacent and not match[0]:
                return ""  # RE2 sees no empty match right behind another one
            return "".join(_reference(match, part) if index % 2 else part for index, part in enumerate(parts))

        return bytes_of(pattern.sub(replacement, text_of(path))) + question_mark + query

    return rewrite_path


def _reference(match: re.Match[str], name: str) -> str:
    if name == "\\":
        return name
    group = int(name)
    return match[group] or "" if group <= match.re.groups else ""
