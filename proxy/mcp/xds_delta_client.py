"""The client's side of MCP over xDS, incremental.

Pure. As `xds_client`, but a response holds what changed; on a new stream the server is told what is there already.
"""

from collections.abc import Mapping, Sequence

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.config.issue import Issue
from proxy.config.resource import Kind
from proxy.mcp.bodies import UndecodableError
from proxy.mcp.holdings import Holdings, refusal_text
from proxy.mcp.messages import Code, DeltaRequest, DeltaResponse, Envelope, Status
from proxy.mcp.wire import WireError, unpack_envelope
from proxy.mcp.xds_client import ClientAnswer, Outcome, Unpacked, good_ones, refusals_of
from proxy.mcp.xds_types import kind_of, type_url_of


@attrs.define
class _Subscription:
    kind: Kind
    holdings: Holdings = attrs.field(factory=Holdings)
    versions: dict[str, str] = attrs.field(factory=dict)  # as the server has them
    synced: bool = False


class XdsDeltaClient:
    """State of one server as its client sees it; it outlives streams.

    Args:
        kinds: What to ask for.
        node_id: Who asks.
        mode: STRICT takes nothing of a response that holds a bad resource. Istio's sources never ask incrementally, so
            PILOT is as SPEC.
    """

    def __init__(self, kinds: tuple[Kind, ...], *, node_id: str, mode: FeedMode = FeedMode.SPEC) -> None:
        self._subscriptions = {kind.name: _Subscription(kind) for kind in kinds}
        self._node_id = node_id
        self._mode = mode

    @property
    def synced(self) -> frozenset[str]:
        """The kinds that have had a response that was taken."""
        return frozenset(name for name, subscription in self._subscriptions.items() if subscription.synced)

    def open(self) -> list[DeltaRequest]:
        """Return the first requests of a new stream, in order; each subscribes to everything of its type."""
        requests = [
            DeltaRequest(type_url=type_url_of(subscription.kind), initial_resource_versions=dict(subscription.versions))
            for subscription in self._subscriptions.values()
        ]
        return [attrs.evolve(requests[0], node_id=self._node_id), *requests[1:]]

    def kind(self, response: DeltaResponse) -> Kind | None:
        """Return what a response holds; None for what is not asked for."""
        kind = kind_of(response.type_url)
        return kind if kind is not None and kind.name in self._subscriptions else None

    def unpack(self, response: DeltaResponse) -> Unpacked:
        """Return the envelopes of a response, and what is no envelope at all."""
        envelopes: dict[str, Envelope] = {}
        refusals: dict[str, tuple[Issue, ...]] = {}
        for resource in response.resources:
            try:
                envelopes[resource.name] = unpack_envelope(resource.resource)
            except WireError as exc:
                refusals[resource.name] = (UndecodableError(resource.name, str(exc)).issue,)
        return Unpacked(envelopes, refusals)

    def fresh(self, response: DeltaResponse, unpacked: Unpacked) -> list[Envelope]:
        """Return the resources that must be decoded: all of them, since a server sends what is new."""
        return list(unpacked.envelopes.values()) if self.kind(response) is not None else []

    def receive(
        self, response: DeltaResponse, unpacked: Unpacked, decoded: Mapping[str, Outcome]
    ) -> ClientAnswer[DeltaRequest]:
        """Return the answer to a response, given what each of its resources came to."""
        kind = self.kind(response)
        if kind is None:
            return ClientAnswer(request=self._reply(response))
        subscription = self._subscriptions[kind.name]
        good = good_ones(decoded)
        refusals = {**unpacked.refusals, **refusals_of(decoded, self._mode)}
        errors = [issue for issues in refusals.values() for issue in issues]
        errors += [issue for name, contents in good.items() if name not in refusals for issue in contents.errors]
        if errors and self._mode is FeedMode.STRICT:
            return ClientAnswer(request=self._reply(response, errors), changes=subscription.holdings.refuse(refusals))
        upserts = {name: envelope for name, envelope in unpacked.envelopes.items() if name in good}
        changes = subscription.holdings.update(upserts, response.removed_resources, good, refusals=refusals)
        for name in response.removed_resources:
            subscription.versions.pop(name, None)
        for resource in response.resources:
            contents = good.get(resource.name)
            if contents is not None and not contents.errors:
                subscription.versions[resource.name] = resource.version
        subscription.synced = True
        return ClientAnswer(request=self._reply(response, errors), changes=changes)

    def _reply(self, response: DeltaResponse, errors: Sequence[Issue] = ()) -> DeltaRequest:
        error = Status(Code.INVALID_ARGUMENT, refusal_text(response.type_url, errors)) if errors else None
        return DeltaRequest(type_url=response.type_url, response_nonce=response.nonce, error_detail=error)
