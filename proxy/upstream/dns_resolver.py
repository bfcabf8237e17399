"""What looks up names, as discovery sees it; `cares_resolver` is the one that asks DNS servers."""

from collections.abc import Callable
from typing import Protocol

import attrs


@attrs.frozen
class DnsRecord:
    """One IP address of a name, and for how many seconds that holds; 0 when nobody said (a hosts file, for one)."""

    address: str
    ttl_s: int


@attrs.frozen(kw_only=True)
class DnsAnswer:
    """What came of a lookup.

    A name that is not there, or has no address of the family, is an answer without records; `failure` is why there is
    no answer at all.
    """

    records: tuple[DnsRecord, ...] = ()
    failure: str = ""


class DnsResolver(Protocol):
    """Looks up names."""

    def resolve(self, name: str, on_answer: Callable[[DnsAnswer], None]) -> Callable[[], None]:
        """Look up a name; `on_answer` is called once, after this has returned.

        Returns:
            What to call when nobody wants the answer any more.
        """

    async def close(self) -> None:
        """Look up nothing any more; nobody gets another answer."""
