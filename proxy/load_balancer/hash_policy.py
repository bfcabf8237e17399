"""The hash of a request, by the policies of its route, and the cookies that this makes up.

Pure: a request is a view of its head and of the addresses of its connection. What the hash decides belongs to the
balancer. Ports `HashPolicyImpl` (Envoy, source/common/http/hash_policy.cc), `generateCookie`
(source/extensions/load_balancing_policies/ common/thread_aware_lb_impl.cc) and `Utility::makeSetCookieValue`
(source/common/http/utility.cc).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import attrs
import xxhash

from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, QueryParameterHash, SourceIpHash

_MASK = (1 << 64) - 1


class HashRequest(Protocol):
    """What hash policies read of a request."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Name and value of each header line, in order; names in any case."""

    @property
    def path(self) -> bytes:
        """The target with its query, undecoded."""

    @property
    def source_ip(self) -> str | None:
        """Address of the client without its port, as the proxy trusts it to be; None if it has none (a unix socket)."""

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`."""

    @property
    def local_address(self) -> str:
        """The `ip:port` that the client has connected to."""


@attrs.frozen
class RequestHash:
    """`hash` is None when there was nothing to hash; `set_cookies` are values for `set-cookie` in the response."""

    hash: int | None
    set_cookies: tuple[bytes, ...] = ()


_Evaluate = Callable[[HashRequest, list[bytes]], int | None]


class HashPolicies:
    """The hash policies of a route, made ready once for all its requests.

    Raises:
        re.error: A header policy's regular expression cannot be read.
    """

    def __init__(self, policies: Iterable[HashPolicy]) -> None:
        self._policies = tuple((_evaluator(policy), policy.terminal) for policy in policies)

    def evaluate(self, request: HashRequest) -> RequestHash:
        """Return the hash of a request: each policy's result on top of the one before, rotated by a bit."""
        combined: int | None = None
        set_cookies: list[bytes] = []
        for evaluate, terminal in self._policies:
            value = evaluate(request, set_cookies)
            if value is not None:
                # Without the rotation, a policy that is given twice would cancel itself out.
                rotated = (combined << 1 & _MASK) | (combined >> 63) if combined else 0
                combined = rotated ^ value
            if terminal and combined is not None:
                break
        return RequestHash(combined, tuple(set_cookies))


def _evaluator(policy: HashPolicy) -> _Evaluate:
    match policy:
        case HeaderHash():
            return _header_evaluator(policy)
        case CookieHash():
            return _cookie_evaluator(policy)
        case SourceIpHash():
            return _source_ip_hash
        case QueryParameterHash():
            name = policy.name.encode()
            return lambda request, _: _query_parameter_hash(request.path, name)


def _header_evaluator(policy: HeaderHash) -> _Evaluate:
    name = policy.name.lower().encode()
    pattern = re.compile(policy.regex.encode()) if policy.regex is not None else None
    # In the notation of Envoy's regular expressions \0 is the whole match, which is \g<0> here.
    substitution = policy.substitution.replace("\\0", "\\g<0>").encode()

    def evaluate(request: HashRequest, _: list[bytes]) -> int | None:
        values = [request.path] if name == b":path" else list(_header_values(request, name))
        if pattern is not None:
            values = [pattern.sub(substitution, value) for value in values]
        combined = None
        for value in sorted(values):
            combined = xxhash.xxh64_intdigest(value, combined or 0)
        return combined

    return evaluate


def _header_values(request: HashRequest, name: bytes) -> Iterator[bytes]:
    if name == b":authority":
        name = b"host"
    return (value for header, value in request.headers if header.lower() == name)


def _cookie_evaluator(policy: CookieHash) -> _Evaluate:
    name = policy.name.encode()

    def evaluate(request: HashRequest, set_cookies: list[bytes]) -> int | None:
        value = _cookie_value(request, name)
        if not value:
            if policy.ttl_s is None:
                return None
            connection = request.remote_address + request.local_address
            value = b"%016x" % xxhash.xxh64_intdigest(connection.encode())
            set_cookies.append(_set_cookie(policy, policy.ttl_s, value))
        return xxhash.xxh64_intdigest(value)

    return evaluate


def _cookie_value(request: HashRequest, name: bytes) -> bytes:
    """Return the value of the first cookie of that name, without quotes; empty if there is none."""
    for line in _header_values(request, b"cookie"):
        for pair in line.split(b";"):
            key, equals, value = pair.partition(b"=")
            if equals and key.lstrip(b" ") == name:
                quoted = len(value) > 1 and value.startswith(b'"') and value.endswith(b'"')
                return value[1:-1] if quoted else value
    return b""


def _set_cookie(policy: CookieHash, ttl_s: int, value: bytes) -> bytes:
    parts = [f'{policy.name}="{value.decode()}"']
    if ttl_s:
        parts.append(f"Max-Age={ttl_s}")
    if policy.path:
        parts.append(f"Path={policy.path}")
    parts += [f"{name}={attribute}" if attribute else name for name, attribute in policy.attributes]
    parts.append("HttpOnly")
    return "; ".join(parts).encode()


def _source_ip_hash(request: HashRequest, _: list[bytes]) -> int | None:
    source_ip = request.source_ip
    return xxhash.xxh64_intdigest(source_ip.encode()) if source_ip else None


def _query_parameter_hash(path: bytes, name: bytes) -> int | None:
    _, question_mark, query = path.partition(b"?")
    if question_mark:
        for parameter in query.split(b"&"):
            key, _, value = parameter.partition(b"=")
            if key == name:
                return xxhash.xxh64_intdigest(value)
    return None
