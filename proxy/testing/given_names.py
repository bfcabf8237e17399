"""What names of hosts resolve to in a test: what the test says, and nothing of the network."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from proxy.config.validation import is_ip
from proxy.upstream.dns_resolver import DnsAnswer, DnsRecord

_TTL_S = 1  # so that what a test changes shows soon


class GivenNames:
    """Answers from a mapping of names to IP addresses, looked at anew each second; other names are not there.

    An IP address is itself, and localhost 127.0.0.1 unless the mapping says otherwise.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], loop: asyncio.AbstractEventLoop) -> None:
        self._names = names
        self._loop = loop

    def resolve(self, name: str, on_answer: Callable[[DnsAnswer], None]) -> Callable[[], None]:
        """Look up a name; `on_answer` is called once, after this has returned.

        Returns:
            What to call when nobody wants the answer any more.
        """
        return self._loop.call_soon(lambda: on_answer(self._answer(name))).cancel

    async def close(self) -> None:
        """Nothing is under way."""

    def _answer(self, name: str) -> DnsAnswer:
        otherwise = ["127.0.0.1"] if name == "localhost" else [name] if is_ip(name) else []
        return DnsAnswer(records=tuple(DnsRecord(found, _TTL_S) for found in self._names.get(name, otherwise)))
