"""Values that an operator overrides while the sidecar runs, and the settings that result.

A value is read at the moment it is used, so a change holds from the next decision on; an interval only from the next
period.
Ports what outlier detection uses of `Runtime::Snapshot` (Envoy, source/common/runtime/runtime_impl.cc) and the
runtime keys of source/common/upstream/outlier_detection_impl.h.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from outlier.config import OutlierDetection
from outlier.sources import RandomGenerator

PREFIX: Final = "outlier_detection."

# Every field of `OutlierDetection` that has a runtime key; the flags have none, as in Envoy.
RUNTIME_FIELDS: Final = tuple(
    field.name for field in attrs.fields(OutlierDetection) if not isinstance(field.default, bool)
)
RUNTIME_KEYS: Final[Mapping[str, str]] = {name: PREFIX + name for name in RUNTIME_FIELDS}


class Runtime:
    """Overrides by key, e.g. `outlier_detection.max_ejection_percent`.

    Any key may be set, as in Envoy; a reader gets its own default for a key that is absent or not an unsigned integer.
    """

    def __init__(self, overrides: Mapping[str, int | str] | None = None) -> None:
        self._texts: dict[str, str] = {}
        self._integers: dict[str, int] = {}
        self.modify(overrides or {})

    def __repr__(self) -> str:
        return f"Runtime({self._texts})"

    @property
    def entries(self) -> Mapping[str, str]:
        """Every override as it was given, by key."""
        return dict(self._texts)

    def modify(self, overrides: Mapping[str, int | str]) -> None:
        """Set each key to its value; an empty text removes the override, as on `/runtime_modify`."""
        for key, value in overrides.items():
            text = str(value)
            self._texts.pop(key, None)
            self._integers.pop(key, None)
            if text:
                self._texts[key] = text
                integer = _unsigned(text)
                if integer is not None:
                    self._integers[key] = integer

    def integer(self, key: str, default: int) -> int:
        """Return the override of `key`, or `default`."""
        return self._integers.get(key, default)

    def number(self, key: str, default: float) -> float:
        """Return the override of `key` as a number that may have a fraction, or `default`."""
        try:
            return float(self._texts[key])
        except (KeyError, ValueError):
            return default


def _unsigned(text: str) -> int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number >= 0 and number.is_integer() else None


@attrs.frozen
class Enforcement:
    """Whether a detection may eject.

    `percent` is the chance in force, at most 100; `draw` the number 0-99 it was compared with, None when 0 or 100
    decided alone.
    """

    percent: int
    draw: int | None
    enforced: bool


class Settings:
    """A cluster's configuration as the runtime overrides leave it; names are the fields of `OutlierDetection`."""

    __slots__ = ("_random", "_runtime", "config")

    def __init__(self, config: OutlierDetection, runtime: Runtime, random: RandomGenerator) -> None:
        self.config = config
        self._runtime = runtime
        self._random = random

    def value(self, name: str) -> int:
        """Return the field `name`, overridden or not."""
        value: int = getattr(self.config, name)
        return self._runtime.integer(RUNTIME_KEYS[name], value)

    def max_ejection_percent(self) -> int:
        """Return the limit; an override above 100 acts as 100."""
        return min(self.value("max_ejection_percent"), 100)

    def enforce(self, name: str) -> Enforcement:
        """Decide by chance; `name` is an `enforcing_*` field.

        Ports `SnapshotImpl::featureEnabled`: no random number is used up when the outcome is certain.
        """
        percent = min(self.value(name), 100)
        if percent in {0, 100}:
            return Enforcement(percent, None, percent == 100)
        draw = self._random.random() % 100
        return Enforcement(percent, draw, draw < percent)
