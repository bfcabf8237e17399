"""Host names: completing short ones, and finding the most specific pattern that covers one.

Ports `ResolveShortnameToFQDN` (Istio, pilot/pkg/model) and `MostSpecificHostMatch` (Istio, pilot/pkg/model/config.go).
"""

from collections.abc import Collection, Iterator

from proxy.config.validation import is_ip


def complete_host(host: str, namespace: str, domain: str) -> str:
    """Return the full name of `host` as a resource of `namespace` means it.

    A name with a dot, `*` and IP addresses stay; `reviews` becomes `reviews.<namespace>.svc.<domain>`. Without a
    domain the suffix `.svc.<domain>` is left out, without a namespace its part.

    >>> complete_host("reviews", "default", "cluster.local")
    'reviews.default.svc.cluster.local'
    """
    if "." in host or host.startswith("*") or (":" in host and is_ip(host)):
        return host
    name = f"{host}.{namespace}" if namespace else host
    return f"{name}.svc.{domain}" if domain else name


def covers(pattern: str, host: str) -> bool:
    """Whether an exact name or `*suffix` covers a name; only an equal or wider wildcard covers a wildcard name."""
    if not pattern.startswith("*"):
        return pattern == host
    return host.removeprefix("*").endswith(pattern[1:])


def candidates(host: str) -> Iterator[str]:
    """Yield every pattern that covers `host`, the most specific first."""
    if not host.startswith("*"):
        yield host
    suffix = host.removeprefix("*")
    for start in range(len(suffix) + 1):
        yield "*" + suffix[start:]


def most_specific(host: str, patterns: Collection[str]) -> str | None:
    """Return the most specific of `patterns` (best a set or a dict) that covers `host`, None when none does."""
    return next((candidate for candidate in candidates(host) if candidate in patterns), None)
