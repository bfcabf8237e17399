"""What ring hash and maglev have in common: a table from hashes to hosts, built in steps.

A builder is a generator that yields after each piece of work of about a millisecond, so that building never holds the
event loop, and returns the table.
"""

from collections.abc import Generator
from typing import Protocol

from proxy.upstream.host import Host


class HashTable(Protocol):
    """Hosts by hash."""

    @property
    def gauges(self) -> dict[str, int]:
        """Envoy's gauges of the table, named as they follow `cluster.<name>.`."""

    def host(self, number: int, attempt: int) -> Host | None:
        """Return the host of a 64-bit hash; `attempt`, 0 at first, moves on to another place in the table."""


HashTableBuilder = Generator[None, None, HashTable]
