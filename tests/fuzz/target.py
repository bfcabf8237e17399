"""What is fuzzed: bytes at one end of a connection, whole and cut into pieces.

The same bytes must come to the same, however they were cut; nothing may be raised, hang, be left behind, or answered
without having been asked.
"""

import random
from typing import Any, Protocol


class FindingError(Exception):
    """Raised when a rule is broken; the message says which."""


class Target(Protocol):
    """One kind of connection under fuzz."""

    name: str

    def make_input(self, chance: random.Random) -> bytes:
        """Return one input."""

    def run(self, pieces: list[bytes]) -> "Outcome":
        """Feed the pieces to a new connection, then end it.

        Raises:
            FindingError: A rule was broken.
        """

    def recover(self) -> None:
        """Forget what a broken run has left."""

    def alive(self) -> tuple[type, ...]:
        """Return the types of which nothing may be alive between two runs."""


class Outcome:
    """What an input came to: `told` must not hang on the pieces; `kinds` are for the statistics."""

    __slots__ = ("kinds", "told")

    def __init__(self, told: Any, kinds: list[str]) -> None:
        self.told = told
        self.kinds = kinds


def take_manners(pieces: list[bytes]) -> tuple[int, list[bytes]]:
    """Return the first byte, which says how both sides behave, and what is sent."""
    if not pieces:
        return 0, []
    return pieces[0][0], [piece for piece in (pieces[0][1:], *pieces[1:]) if piece]


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Return `data` in pieces: byte by byte, in two, or in some."""
    if len(data) < 2:
        return [data] if data else []
    kind = chance.random()
    if kind < 0.1 and len(data) < 2_000:
        return [data[index : index + 1] for index in range(len(data))]
    count = 1 if kind < 0.5 else min(len(data) - 1, chance.randrange(1, 12))
    marks = sorted({chance.randrange(1, len(data)) for _ in range(count)})
    return [data[start:end] for start, end in zip([0, *marks], [*marks, len(data)], strict=True)]
