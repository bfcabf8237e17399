"""The sink's side of MCP: what to ask for, what to answer, and what each answer changes.

Pure: a message and the outcome of decoding it come in, a request and changes of the store go out. Mode PILOT ports
`Sink` (Istio 1.4, pkg/mcp/sink/sink.go) together with what Pilot's store makes of a message; the other modes follow the
protocol's text: one bad resource keeps its last good version and is refused by name.
"""

from collections.abc import Mapping

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.config.resource import Contents
from proxy.mcp.bodies import UndecodableError
from proxy.mcp.holdings import NO_CHANGES, Changes, Holdings, OnInvalid, refusal_text
from proxy.mcp.messages import Code, Envelope, RequestResources, Resources, Status


@attrs.frozen(kw_only=True)
class SinkAnswer:
    """The request to send, and what the store must do."""

    request: RequestResources
    changes: Changes = NO_CHANGES


@attrs.define
class _Collection:
    incremental: bool
    holdings: Holdings = attrs.field(factory=Holdings)
    synced: bool = False


class Sink:
    """State of one source as its sink sees it; it outlives streams.

    Args:
        collections: What to ask for, and whether incrementally.
        mode: What becomes of bad resources, and whether incremental responses are honoured.
    """

    def __init__(self, collections: Mapping[str, bool], mode: FeedMode = FeedMode.SPEC) -> None:
        self._collections = {name: _Collection(incremental) for name, incremental in collections.items()}
        self._mode = mode

    @property
    def synced(self) -> frozenset[str]:
        """The collections that have had a response that was taken; an empty one counts."""
        return frozenset(name for name, state in self._collections.items() if state.synced)

    def versions(self, collection: str) -> dict[str, str]:
        """Return the versions in force, as `initial_resource_versions` has them."""
        return self._collections[collection].holdings.versions()

    def open(self) -> list[RequestResources]:
        """Return the first requests of a new stream, one per collection."""
        return [
            RequestResources(
                collection=name,
                incremental=state.incremental,
                initial_resource_versions=state.holdings.versions() if state.incremental else {},
            )
            for name, state in self._collections.items()
        ]

    def fresh(self, message: Resources) -> list[Envelope]:
        """Return the resources of a message that must be decoded: those not known exactly so."""
        state = self._collections.get(message.collection)
        if state is None:
            return []
        latest = {envelope.name: envelope for envelope in message.resources}
        return [envelope for name, envelope in latest.items() if state.holdings.envelope(name) != envelope]

    def receive(self, message: Resources, decoded: Mapping[str, Contents] | UndecodableError) -> SinkAnswer:
        """Return the answer to a response.

        Args:
            message: The response.
            decoded: What each of the `fresh` resources came to; or why one of them is no message, and then nothing of
                the response is taken.
        """
        state = self._collections.get(message.collection)
        if state is None:
            return self._refuse(message, Code.UNIMPLEMENTED, f"{message.collection}: collection is not used")
        if isinstance(decoded, UndecodableError):
            answer = self._refuse(message, Code.UNKNOWN, f"{message.collection}: {decoded}")
            return attrs.evolve(answer, changes=state.holdings.refuse({decoded.name: (decoded.issue,)}))
        upserts = {envelope.name: envelope for envelope in message.resources}
        errors = tuple(state.holdings.errors(upserts, decoded))
        if errors and self._mode is FeedMode.STRICT:
            bad = {name: contents.errors for name, contents in decoded.items() if contents.errors}
            answer = self._refuse(message, Code.INVALID_ARGUMENT, refusal_text(message.collection, errors))
            return attrs.evolve(answer, changes=state.holdings.refuse(bad))
        # Pilot replaces whatever the flag says. Otherwise the flag is honoured even when nobody asked for it: a delta
        # that is taken for a whole deletes the rest.
        if message.incremental and self._mode is not FeedMode.PILOT:
            removed = [name for name in message.removed_resources if name not in upserts]
        else:
            removed = [name for name in state.holdings.names if name not in upserts]
        pilot = self._mode is FeedMode.PILOT
        on_invalid = OnInvalid.DROP if pilot else OnInvalid.KEEP
        changes = state.holdings.update(upserts, removed, decoded, on_invalid=on_invalid)
        state.synced = True
        if errors and not pilot:
            answer = self._refuse(message, Code.INVALID_ARGUMENT, refusal_text(message.collection, errors))
            return attrs.evolve(answer, changes=changes)
        request = RequestResources(
            collection=message.collection, response_nonce=message.nonce, incremental=state.incremental
        )
        return SinkAnswer(request=request, changes=changes)

    def _refuse(self, message: Resources, code: Code, text: str) -> SinkAnswer:
        # Never incremental: what comes after a refusal is full state, as with the reference sink.
        request = RequestResources(
            collection=message.collection, response_nonce=message.nonce, error_detail=Status(code, text)
        )
        return SinkAnswer(request=request)
