"""What a benchmark claims: a figure, how far its rounds were apart, and what it must not exceed.

With `--json` each benchmark prints as its last line one object: its own figures, and under `claims` these.
"""

import json
import statistics
from collections.abc import Sequence
from typing import Any, Self

import attrs


@attrs.frozen(kw_only=True)
class Claim:
    """One figure.

    `least` and `most` are those of its rounds, None where there was one; `limit` is what it must not exceed, None
    promises nothing; `beside` is what others come to, for people.
    """

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None
    limit: float | None = None
    beside: str | None = None

    @classmethod
    def of_rounds(
        cls,
        name: str,
        values: Sequence[float],
        unit: str,
        *,
        limit: float | None = None,
        beside: str | None = None,
    ) -> Self:
        """Return the median of the rounds, with their spread."""
        value = statistics.median(values)
        return cls(name=name, value=value, unit=unit, least=min(values), most=max(values), limit=limit, beside=beside)

    @classmethod
    def best_of(cls, name: str, values: Sequence[float], unit: str, *, limit: float | None = None) -> Self:
        """Return the least of the rounds, with their spread: for code alone, which only its neighbours slow down."""
        return cls(name=name, value=min(values), unit=unit, least=min(values), most=max(values), limit=limit)

    @property
    def kept(self) -> bool:
        """Whether the limit is kept; a figure without a limit is always right."""
        return self.limit is None or self.value <= self.limit

    def message(self) -> dict[str, Any]:
        """Return it as JSON, numbers with four digits that count."""
        rounded = {
            key: significant(value) if isinstance(value, float) else value for key, value in attrs.asdict(self).items()
        }
        message = {key: value for key, value in rounded.items() if value is not None}
        return message if self.limit is None else message | {"kept": self.kept}

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Self:
        """Return the claim that `message` made."""
        return cls(**{key: value for key, value in message.items() if key != "kept"})


def significant(value: float) -> float:
    """Round to four digits that count; whole numbers stay whole.

    >>> significant(0.0123456), significant(1234.56)
    (0.01235, 1235.0)
    """
    return float(f"{value:.4g}") if abs(value) < 1000 else float(round(value))


def worst(name: str, claims: Sequence[Claim], unit: str, *, limit: float | None = None) -> Claim:
    """Return one claim for many of the same kind: the greatest of them, its own spread with it."""
    greatest = max(claims, key=lambda claim: claim.value)
    return attrs.evolve(greatest, name=name, unit=unit, limit=limit)


def last_line(figures: dict[str, Any], claims: Sequence[Claim]) -> str:
    """Return what `--json` prints."""
    return json.dumps(figures | {"claims": [claim.message() for claim in claims]})
