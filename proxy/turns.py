"""Long work in turns, so that it does not hold up the requests that flow meanwhile."""

import asyncio
from collections.abc import Iterator

_TURN_MS = 2  # longest stretch of work between two chances for requests; well under the 10 ms a request may notice


class Turns:
    """Tells when somebody else's turn has come.

    >>> async def work(items):
    ...     turns = Turns()
    ...     for item in items:
    ...         if turns.over():
    ...             await turns.give()
    """

    __slots__ = ("_end", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + _TURN_MS / 1000

    def over(self) -> bool:
        """Whether this turn has lasted long enough."""
        return self._loop.time() >= self._end

    async def give(self) -> None:
        """Let everything else run once, then start a new turn."""
        await asyncio.sleep(0)
        self._end = self._loop.time() + _TURN_MS / 1000

    async def take(self, steps: Iterator[None]) -> None:
        """Do all the steps, each a small piece of work, in as many turns as they need."""
        more = True
        while more:
            if self.over():
                await self.give()
            more = next(steps, self) is None
