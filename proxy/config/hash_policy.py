"""What of a request decides its host under consistent hashing: the counterpart of Envoy's `RouteAction.HashPolicy`.

Frozen data on a route, evaluated in order by `proxy.load_balancer.hash_policy`. In each, `terminal` ends the
evaluation once there is a hash, its own or an earlier one.
"""

import attrs


@attrs.frozen(kw_only=True)
class HeaderHash:
    r"""The values of a header; `:path` and `:authority` may be named.

    `regex`, if given, is replaced by `substitution` wherever it matches in a value, `\1` standing for a group.
    """

    name: str
    regex: str | None = None
    substitution: str = ""
    terminal: bool = False


@attrs.frozen(kw_only=True)
class CookieHash:
    """A cookie; one that is absent is made up and set if there is a `ttl_s`, in seconds, 0 being a session cookie.

    `attributes` are `(name, value)` pairs for the cookie that is set.
    """

    name: str
    ttl_s: int | None = None
    path: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    terminal: bool = False


@attrs.frozen(kw_only=True)
class SourceIpHash:
    """The address of the client without its port."""

    terminal: bool = False


@attrs.frozen(kw_only=True)
class QueryParameterHash:
    """The first value of a query parameter, as it stands in the target."""

    name: str
    terminal: bool = False


HashPolicy = HeaderHash | CookieHash | SourceIpHash | QueryParameterHash
