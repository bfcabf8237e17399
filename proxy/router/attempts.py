"""The attempts behind one response: picked, started, made again, given up.

The half of an exchange that faces the hosts; what the client sees of it is `exchange`'s. Usually one attempt is under
way. Where a route hedges, one that is late is kept while another is made, and whichever is good first is heard. Ports
the retry half of `Filter` (Envoy, source/common/router/router.cc).
"""

from collections.abc import Callable

from proxy.cluster.cluster import Cluster
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.response_flags import ResponseFlag
from proxy.router import local_reply
from proxy.router.balancer_context import BalancerContext, make_context
from proxy.router.hedged_attempt import HedgedRequest
from proxy.router.idle_attempt import IdleWatchedRequest
from proxy.router.local_reply import LocalReply
from proxy.router.retry_state import Decision, RetryRules, RetryState
from proxy.router.route import ReadyRoute
from proxy.router.router import ResponseEncoder, Router
from proxy.router.upstream_request import UpstreamRequest
from proxy.upstream.host import Host

_DECISION_FLAGS = {
    Decision.LIMIT_EXCEEDED: ResponseFlag.UPSTREAM_RETRY_LIMIT_EXCEEDED,
    Decision.OVERFLOW: ResponseFlag.UPSTREAM_OVERFLOW,
}


class Attempts:
    """What an exchange knows of its attempts.

    For the access log: `attempts` counts picks of a host, `host` is the last one picked or the one that answered,
    `cluster` is None without a route, `in_panic` says that panic sent the last attempt to an ejected host.
    """

    # Defaults of the class: most exchanges never write most of them, and creating one is on every request's way.
    cluster: Cluster | None = None
    host: Host | None = None
    status = 0
    flags: tuple[ResponseFlag, ...] = ()
    attempts = 0
    in_panic = False
    _router: Router
    encoder: ResponseEncoder
    head: RequestHead
    is_grpc: bool
    _route: ReadyRoute | None = None
    _timeout_ms = 0
    _upstream: UpstreamRequest | None = None  # the attempt under way; of several the one heard last
    _others: tuple[UpstreamRequest, ...] = ()  # those under way beside it
    _retry_rules: RetryRules | None = None
    _retry: RetryState | None = None  # from the first failure on
    _context: BalancerContext | None = None
    _backoff_ms: int | None = None  # the wait before the next attempt, while it lasts
    _request_paused = False
    _ended = False

    def reply(self, reply: LocalReply) -> None:
        """Answer the client ourselves."""
        raise NotImplementedError

    def _elapsed_ms(self) -> int:
        """Time since the request was complete; 0 before that."""
        raise NotImplementedError

    def _start_attempt(self, cluster: Cluster, route: ReadyRoute) -> None:
        self.attempts += 1
        host = cluster.load_balancer.choose_host(self._context)
        if host is None:
            cluster.stats.upstream_cx_none_healthy += 1
            self._cancel_attempts()
            self.reply(local_reply.NO_HEALTHY_UPSTREAM)
            return
        self.host = host
        if self._retry is not None:
            self._retry.on_host_attempted(host)
        attempt: Callable[..., UpstreamRequest] = UpstreamRequest
        if route.watches_attempts:
            attempt = HedgedRequest if route.hedges else IdleWatchedRequest
        self._upstream = attempt(self, cluster, host, self._router.deadlines)
        self._upstream.start()

    def _cancel_attempt(self) -> None:
        """Give up the attempt heard last."""
        if self._upstream is not None:
            self._upstream.cancel()
            self._upstream = None
        self._resume_request()

    def _cancel_attempts(self) -> None:
        """Give up every attempt."""
        others, self._others = self._others, ()
        for attempt in others:
            attempt.cancel()
        self._cancel_attempt()

    def _resume_request(self) -> None:
        """Read the client again: whoever was too slow to take the request is gone."""
        if self._request_paused:
            self._request_paused = False
            self.encoder.resume_request()

    # Another attempt

    def _try_again(self, *, retriable: bool) -> bool:
        """Schedule another attempt if there is to be one; otherwise note why not and return False."""
        return (retriable or self._retry is not None) and self._decide(retriable=retriable) is Decision.RETRY

    def _decide(self, *, retriable: bool) -> Decision:
        """Decide what becomes of the attempt heard last, which has failed unless it is not `retriable`."""
        retry = self._retry if self._retry is not None else self._start_retrying()
        decision = retry.decide(retriable=retriable)
        if decision is Decision.RETRY:
            self._backoff_ms = retry.backoff_ms()
            self._router.deadlines.set(self._on_backoff_end, self._backoff_ms)
        flag = _DECISION_FLAGS.get(decision)
        if flag is not None and flag not in self.flags:
            self.flags = (*self.flags, flag)
        return decision

    def _start_retrying(self) -> RetryState:
        """The first attempt has failed: from now on the balancer has to know what was tried."""
        cluster, route, rules = self.cluster, self._route, self._retry_rules
        assert cluster is not None and route is not None and rules is not None  # noqa: PT018 - one fact
        retry = self._retry = RetryState(rules, cluster.resources, cluster.stats, self._router.random)
        if self.host is not None:
            retry.on_host_attempted(self.host)
        if self._context is None:
            self._context, _ = make_context(route, self.head, self.encoder)
        self._context.retry = retry
        return retry

    def _on_backoff_end(self) -> None:
        route, cluster = self._route, self.cluster
        if self._ended or self._backoff_ms is None or cluster is None or route is None:
            return  # ended in the same sweep
        self._backoff_ms = None
        self._set_aside()
        route.tell_expected_timeout(self.head, self._timeout_ms, self._elapsed_ms(), is_grpc=self.is_grpc)
        self._start_attempt(cluster, route)

    def _stop_retrying(self) -> None:
        """No attempt is made any more."""
        if self._retry is not None:
            self._retry.release()
        if self._backoff_ms is not None:
            self._router.deadlines.clear(self._on_backoff_end, self._backoff_ms)
            self._backoff_ms = None

    # Several at once

    def hear(self, attempt: UpstreamRequest) -> None:
        """Something has happened to one of several attempts: what follows is about it."""
        if attempt is not self._upstream:
            self._others = tuple(each for each in self._others if each is not attempt)
            self._set_aside()
            self._upstream = attempt

    def on_late(self) -> bool:
        """The own time of the attempt heard last is up and it is kept; return whether another is made beside it.

        It need not be a failure that the route retries: nothing has failed yet.
        """
        rules = self._retry_rules
        if self.status or rules is None or not rules.words or self._decide(retriable=True) is not Decision.RETRY:
            return False
        self._set_aside()
        return True

    def _set_aside(self) -> None:
        """Keep the attempt heard last while another one is heard."""
        if self._upstream is not None:
            self._others = (*self._others, self._upstream)
            self._upstream = None

    def _waits_for_another(self) -> bool:
        """Whether an attempt but the one heard last is under way or about to be made."""
        return bool(self._others) or self._backoff_ms is not None

    def _goes_on(self, head: ResponseHead, *, retriable: bool) -> bool:
        """Whether a response is not for the client, since another attempt is made or may do better.

        One that was repeated when it was late is not repeated again. If the response is for the client, no other
        attempt is left.
        """
        assert self._upstream is not None
        if self._upstream.repeated:
            failed = retriable
        else:
            decision = self._decide(retriable=retriable)
            failed = decision is not Decision.NO
            if decision is Decision.RETRY:
                assert self.cluster is not None
                self.cluster.stats.count_retried_response(head.status)
        if failed and self._waits_for_another():
            self._cancel_attempt()
            return True
        self._stop_retrying()
        others, self._others = self._others, ()
        for attempt in others:
            attempt.cancel()
        self.host = self._upstream.host
        return False
