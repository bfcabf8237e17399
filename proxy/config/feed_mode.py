"""How a source's resources that cannot be used are treated."""

import enum


class FeedMode(enum.Enum):
    """The protocol's text, or what Istio's own code does.

    SPEC keeps the last good version of a bad resource, applies the rest of the message, and refuses it by name.
    STRICT applies nothing of a message that holds a bad resource, and refuses it.
    PILOT does as Istio's sinks do: a bad resource is dropped and the message acknowledged.
    """

    SPEC = "spec"
    STRICT = "strict"
    PILOT = "pilot"
