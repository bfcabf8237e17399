"""From a route's `retries` to Envoy's retry policy, as each Istio release does it.

Ports `retry.ConvertPolicy` and `DefaultPolicy` (Istio, pilot/pkg/networking/core/route/retry/retry.go).
"""

import attrs

from proxy.config.outlier_conversion import to_ms
from proxy.config.releases import IstioRelease
from proxy.config.route_config import RetryPolicy
from proxy.config.validate_http_route import is_http_status
from proxy.config.virtual_service import HttpRetry

STATUS_CODES_WORD = "retriable-status-codes"
DEFAULT_RETRIES = 2
_REMOTE_UPDATE_FREQUENCY = 2


def default_retry_policy(release: IstioRelease, *, consistent_hash: bool) -> RetryPolicy:
    """Return the policy of a route that says nothing; with a hash, a retry must be free to reach the same host."""
    codes = (503,) if release.retries_503 else ()
    previous_hosts = not consistent_hash
    return RetryPolicy(
        num_retries=DEFAULT_RETRIES,
        retry_on=release.default_retry_on,
        retriable_status_codes=codes,
        previous_hosts=previous_hosts,
        host_selection_retry_max_attempts=release.host_selection_retry_max_attempts,
    )


def convert_retries(
    route: HttpRetry | None, mesh: HttpRetry | None, release: IstioRelease, *, consistent_hash: bool
) -> RetryPolicy | None:
    """Return the retry policy of a route; None for no retries.

    Args:
        route: The route's block.
        mesh: The mesh's default, for a route without one.
        release: Whose conversion.
        consistent_hash: Whether the route's destination is chosen by a hash.
    """
    block = route if route is not None else mesh
    if not release.default_retries:
        return _first_release(route, release)
    policy = default_retry_policy(release, consistent_hash=consistent_hash)
    if block is None:
        return policy
    if block.attempts <= 0:
        return None
    if block.retry_ignore_previous_hosts is not None:
        policy = attrs.evolve(policy, previous_hosts=block.retry_ignore_previous_hosts)
    if block.retry_on:
        retry_on, codes = _parse_retry_on(block.retry_on)
        policy = attrs.evolve(policy, retry_on=retry_on, retriable_status_codes=codes)
    return attrs.evolve(
        policy,
        num_retries=block.attempts,
        per_try_timeout_ms=None if block.per_try_timeout is None else to_ms(block.per_try_timeout),
        base_interval_ms=None if block.backoff is None else to_ms(block.backoff),
        previous_priorities_update_frequency=_REMOTE_UPDATE_FREQUENCY if block.retry_remote_localities else None,
    )


def _first_release(route: HttpRetry | None, release: IstioRelease) -> RetryPolicy | None:
    """Istio 1.0 retried only when asked to, and sent an unset perTryTimeout as 0, which Envoy reads as unset."""
    if route is None or route.attempts <= 0:
        return None
    return RetryPolicy(
        num_retries=route.attempts,
        retry_on=release.default_retry_on,
        per_try_timeout_ms=to_ms(route.per_try_timeout or 0),
    )


def _parse_retry_on(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the words for Envoy and the status codes taken out of them.

    >>> _parse_retry_on("503,reset")
    ('reset,retriable-status-codes', (503,))
    """
    words = [word.strip() for word in text.split(",")]
    codes = tuple(int(word) for word in words if is_http_status(word))
    kept = [word for word in words if not is_http_status(word)]
    retry_on = ",".join(kept)
    if codes and STATUS_CODES_WORD not in kept:
        retry_on += f",{STATUS_CODES_WORD}"  # also after nothing, as Istio does; Envoy skips the empty word
    return retry_on, codes
