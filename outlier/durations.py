"""Durations as people and protos write them, to whole milliseconds.

Accepts proto JSON (`"0.1s"`) and the Go form (`"1m30s"`, `"500ms"`); the first is a subset of the second.
"""

import re
from decimal import Decimal

_UNIT_MS = {
    "ns": Decimal("0.000001"),
    "us": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "m": Decimal(60_000),
    "h": Decimal(3_600_000),
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)")
_WHOLE = re.compile(rf"-?(?:{_PART.pattern})+")


def exact_duration_ms(text: str) -> Decimal:
    """Return the milliseconds that a duration means, exactly.

    Raises:
        ValueError: `text` is not a duration; a bare number is refused, because its unit would be a guess.

    >>> exact_duration_ms("1m0.5s")
    Decimal('60500.0')
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 10s, 500ms or 1m30s")
    total = sum((Decimal(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text)), Decimal(0))
    return -total if text.startswith("-") else total


def duration_ms(text: str) -> int:
    """Return the whole milliseconds of a duration; a fraction is cut off, as Envoy does.

    Raises:
        ValueError: `text` is not a duration.

    >>> duration_ms("1.9995s")
    1999
    """
    return int(exact_duration_ms(text))
