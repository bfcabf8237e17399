"""How one setting of the sidecar is named, explained and read, wherever it was set."""

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

ENVIRONMENT_PREFIX = "OUTLIER_"
OPTION = "option"  # key of a field's metadata


@attrs.frozen
class Option:
    """How one field of `Bootstrap` is set from outside.

    Attributes:
        read: Text of one value -> value; raises ValueError with the rule that is broken.
        many: The flag may be repeated, the key may hold a list; commas separate values everywhere.
        pairs: A mapping is accepted in the file: its items count as `key=value`.
        is_path: Relative values in the bootstrap file count from the folder of that file.
        field: Name of the field of `Bootstrap`.
        name: Key in the bootstrap file; with `-` for `_` the flag, in capitals the environment variable.
    """

    read: Callable[[str], Any]
    metavar: str
    help: str
    name: str = ""
    field: str = ""
    many: bool = False
    pairs: bool = False
    is_path: bool = False

    @property
    def flag(self) -> str:
        """`--event-log` for `event_log`."""
        return "--" + self.name.replace("_", "-")

    @property
    def environment_variable(self) -> str:
        """`OUTLIER_EVENT_LOG` for `event_log`."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def described(read: Callable[[str], Any], metavar: str, help_text: str, **fields: Any) -> dict[str, Option]:
    """Return the metadata that make a field an option."""
    return {OPTION: Option(read, metavar, help_text, **fields)}


def choice(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    """Return a reader of the values of an enum."""

    def read(text: str) -> enum.Enum:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("must be one of " + ", ".join(str(member.value) for member in kind)) from None

    return read


def read_text(text: str) -> str:
    """Read text that is not empty."""
    if not text:
        raise ValueError("must not be empty")
    return text


def read_path(text: str) -> Path:
    """Read a path, which need not be there."""
    return Path(read_text(text))


def read_switch(text: str) -> bool:
    """Read true or false."""
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def read_label(text: str) -> tuple[str, str]:
    """Read `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError("must be key=value pairs, separated by commas")
    return key, value


def seconds(most: int) -> Callable[[str], int]:
    """Return a reader of seconds, 0..`most`, which gives milliseconds."""

    def read(text: str) -> int:
        try:
            milliseconds = float(text) * 1000
        except ValueError:
            milliseconds = -1
        if not 0 <= milliseconds <= most * 1000:
            raise ValueError(f"must be in 0..{most} seconds")
        return round(milliseconds)

    return read


def integer(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers, `least`..`most`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(f"must be a whole number in {least}..{most}")
        return int(text)

    return read
