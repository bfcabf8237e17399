"""The client's side of MCP over xDS, state of the world: what to ask for, what to answer, what each answer changes.

Pure. Ports `ADSC` (Istio, pkg/adsc/adsc.go) as istiod uses it for `xds://` sources in mode PILOT: it never refuses, and
what it cannot use is deleted. The other modes refuse by name and keep the last good version.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.config.issue import Issue
from proxy.config.resource import Contents, Kind
from proxy.mcp.bodies import UndecodableError
from proxy.mcp.holdings import NO_CHANGES, Changes, Holdings, Refusals, refusal_text
from proxy.mcp.messages import Code, DiscoveryRequest, DiscoveryResponse, Envelope, Status
from proxy.mcp.wire import WireError, unpack_envelope
from proxy.mcp.xds_types import kind_of, type_url_of

MESH_CONFIG = "core/v1alpha1/MeshConfig"
REVISION_LABEL = "istio.io/rev"
_INITIAL_NONCE = "initial"  # upstream sends a timestamp; any text that is no nonce of the server's does

Outcome = Contents | UndecodableError
RequestT = TypeVar("RequestT")


@attrs.frozen(kw_only=True)
class ClientAnswer(Generic[RequestT]):
    """The request to send, None where none is due, and what the store must do."""

    request: RequestT | None
    changes: Changes = NO_CHANGES


@attrs.frozen
class Unpacked:
    """The envelopes of a response by name, and what is wrong with its other items, by name or number."""

    envelopes: Mapping[str, Envelope]
    refusals: Refusals


@attrs.define
class _Subscription:
    kind: Kind
    holdings: Holdings = attrs.field(factory=Holdings)
    synced: bool = False


def refusals_of(decoded: Mapping[str, Outcome], mode: FeedMode) -> Refusals:
    """Return what is taken of none of these: those that cannot be decoded, and in mode STRICT bad ones too."""
    refusals: dict[str, tuple[Issue, ...]] = {}
    for name, outcome in decoded.items():
        if isinstance(outcome, UndecodableError):
            refusals[name] = (outcome.issue,)
        elif outcome.errors and mode is FeedMode.STRICT:
            refusals[name] = outcome.errors
    return refusals


def good_ones(decoded: Mapping[str, Outcome]) -> dict[str, Contents]:
    """Return what was decoded, valid or not."""
    return {name: outcome for name, outcome in decoded.items() if isinstance(outcome, Contents)}


class XdsClient:
    """State of one server as its client sees it; it outlives streams.

    Args:
        kinds: What to ask for.
        node_id: Who asks.
        mode: What becomes of bad resources.
        revision: Resources labelled for another revision are not taken; empty takes unlabelled ones only.
    """

    def __init__(
        self, kinds: tuple[Kind, ...], *, node_id: str, mode: FeedMode = FeedMode.SPEC, revision: str = ""
    ) -> None:
        self._subscriptions = {kind.name: _Subscription(kind) for kind in kinds}
        self._node_id = node_id
        self._mode = mode
        self._revision = revision

    @property
    def synced(self) -> frozenset[str]:
        """The kinds that have had a response that was taken."""
        return frozenset(name for name, subscription in self._subscriptions.items() if subscription.synced)

    def open(self) -> list[DiscoveryRequest]:
        """Return the first requests of a new stream, in order."""
        type_urls = [type_url_of(subscription.kind) for subscription in self._subscriptions.values()]
        nonce = ""
        if self._mode is FeedMode.PILOT:
            type_urls.insert(0, MESH_CONFIG)
            nonce = _INITIAL_NONCE
        requests = [DiscoveryRequest(type_url=type_url, response_nonce=nonce) for type_url in type_urls]
        return [attrs.evolve(requests[0], node_id=self._node_id), *requests[1:]]

    def kind(self, response: DiscoveryResponse) -> Kind | None:
        """Return what a response holds; None for what is not asked for."""
        kind = kind_of(response.type_url)
        return kind if kind is not None and kind.name in self._subscriptions else None

    def unpack(self, response: DiscoveryResponse) -> Unpacked:
        """Return the envelopes of a response that are this client's, and what is no envelope at all."""
        envelopes: dict[str, Envelope] = {}
        refusals: dict[str, tuple[Issue, ...]] = {}
        for index, packed in enumerate(response.resources):
            try:
                envelope = unpack_envelope(packed)
            except WireError as exc:
                error = UndecodableError(f"resource {index}", str(exc))
                refusals[error.name] = (error.issue,)
                continue
            namespace, _, name = envelope.name.partition("/")
            if not namespace or not name or "/" in name:
                error = UndecodableError(envelope.name, "metadata.name must be namespace/name")
                refusals[error.name] = (error.issue,)
            elif envelope.labels.get(REVISION_LABEL, self._revision) == self._revision:
                envelopes[envelope.name] = envelope
        return Unpacked(envelopes, refusals)

    def fresh(self, response: DiscoveryResponse, unpacked: Unpacked) -> list[Envelope]:
        """Return the resources that must be decoded: a version that is new, or none."""
        kind = self.kind(response)
        if kind is None:
            return []
        holdings = self._subscriptions[kind.name].holdings
        return [
            envelope
            for name, envelope in unpacked.envelopes.items()
            if not envelope.version or (known := holdings.envelope(name)) is None or known.version != envelope.version
        ]

    def receive(
        self, response: DiscoveryResponse, unpacked: Unpacked, decoded: Mapping[str, Outcome]
    ) -> ClientAnswer[DiscoveryRequest]:
        """Return the answer to a response.

        Args:
            response: As received.
            unpacked: Its envelopes.
            decoded: What each of the `fresh` ones came to.
        """
        kind = self.kind(response)
        if kind is None:
            # Nothing else was asked for but Istio's mesh configuration, which istiod answers only when it is empty.
            ignored = response.type_url == MESH_CONFIG and response.resources
            return ClientAnswer(request=None if ignored else self._reply(response))
        subscription = self._subscriptions[kind.name]
        holdings = subscription.holdings
        good = good_ones(decoded)
        refusals = {**unpacked.refusals, **refusals_of(decoded, self._mode)}
        names = {name: envelope for name, envelope in unpacked.envelopes.items() if name not in refusals}
        errors = [issue for issues in refusals.values() for issue in issues] + holdings.errors(names, good)
        if errors and self._mode is FeedMode.STRICT:
            return ClientAnswer(request=self._reply(response, errors), changes=holdings.refuse(refusals))
        kept = names.keys() if self._mode is FeedMode.PILOT else names.keys() | refusals.keys()
        removed = [name for name in holdings.names if name not in kept]
        changes = holdings.update(names, removed, good, refusals=refusals)
        subscription.synced = True
        return ClientAnswer(
            request=self._reply(response, () if self._mode is FeedMode.PILOT else errors), changes=changes
        )

    def _reply(self, response: DiscoveryResponse, errors: Sequence[Issue] = ()) -> DiscoveryRequest:
        error = Status(Code.INVALID_ARGUMENT, refusal_text(response.type_url, errors)) if errors else None
        return DiscoveryRequest(
            type_url=response.type_url,
            version_info=response.version_info,
            response_nonce=response.nonce,
            error_detail=error,
        )
