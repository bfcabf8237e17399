"""Istio's messages as frozen classes that read themselves from proto JSON.

A class lists its fields with the functions below; the JSON names follow from the attribute names, and both
`maxEjectionPercent` and `max_ejection_percent` are read, as Istio's reader does. A wrong type is an error at its path,
an unknown field a warning with a suggestion; reading goes on, so one pass finds everything. `None` stands for an unset
message, wrapper, duration or oneof member.

Reading only; what a legal value is belongs to the `validate_*` modules. Durations are nanoseconds (`durations`).
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import attrs

from proxy.config.durations import parse_duration_ns
from proxy.config.issue import Path, Report

Reader = Callable[[object, Path, Report], Any]


def json_name(attribute: str) -> str:
    """Return proto's JSON name of an attribute: `http1_max_pending_requests` gives `http1MaxPendingRequests`."""
    head, *rest = attribute.rstrip("_").split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


_tables: dict[type, dict[str, tuple[str, Reader]]] = {}


def _field_table(cls: type) -> dict[str, tuple[str, Reader]]:
    """Return every accepted name of a field of `cls`, with its attribute and its reader; made once for each class."""
    table = _tables.get(cls)
    if table is not None:
        return table
    table = _tables[cls] = {}
    for attribute in attrs.fields(cls):
        entry = (attribute.name, attribute.metadata["read"])
        table[attribute.name.rstrip("_")] = entry
        table[json_name(attribute.name)] = entry
    return table


@attrs.frozen
class Message:
    """Base of all messages."""

    @classmethod
    def read(cls, value: object, path: Path, report: Report) -> Self:
        """Return the message that a JSON object states; what cannot be read is reported and left unset."""
        if not isinstance(value, Mapping):
            report.error(path, value, f"must be an object ({cls.__name__})")
            return cls()
        table = _field_table(cls)
        arguments: dict[str, Any] = {}
        for name, member in value.items():
            entry = table.get(name) if isinstance(name, str) else None
            if entry is None:
                known = [json_name(attribute.name) for attribute in attrs.fields(cls)]
                report.unknown((*path, str(name)), member, cls.__name__, known)
            elif member is not None:  # proto JSON: null is unset
                attribute, read = entry
                arguments[attribute] = read(member, (*path, name), report)
        return cls(**arguments)

    @property
    def is_empty(self) -> bool:
        """Whether no field is set."""
        return self == type(self)()


def _field(read: Reader, default: object = None) -> Any:
    return attrs.field(default=default, metadata={"read": read})


def read_string(value: object, path: Path, report: Report) -> str:
    """Read a string; numbers and booleans are errors, as in Istio's reader (quote them in YAML)."""
    if isinstance(value, str):
        return value
    quote = "; quote it in YAML" if isinstance(value, int | float) else ""
    report.error(path, value, f"must be a string{quote}")
    return ""


def _integer(minimum: int, maximum: int) -> Reader:
    def read(value: object, path: Path, report: Report) -> int:
        number: object = value
        if isinstance(value, str):
            try:
                number = int(value)
            except ValueError:
                number = value
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            report.error(path, value, "must be an integer")
            return 0
        if not minimum <= number <= maximum:
            report.error(path, value, f"must be in {minimum}..{maximum}")
            return 0
        return number

    return read


read_int32 = _integer(-(2**31), 2**31 - 1)
read_uint32 = _integer(0, 2**32 - 1)
read_uint64 = _integer(0, 2**64 - 1)


def read_bool(value: object, path: Path, report: Report) -> bool:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    report.error(path, value, "must be true or false")
    return False


def read_double(value: object, path: Path, report: Report) -> float:
    """Read a finite or infinite number; proto JSON also spells it as a string."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    report.error(path, value, "must be a number")
    return 0.0


def read_duration(value: object, path: Path, report: Report) -> int | None:
    """Read a Go duration into nanoseconds; a bare number is an error."""
    if isinstance(value, str):
        try:
            return parse_duration_ns(value)
        except ValueError:
            pass
    report.error(path, value, "must be a duration with a unit, such as 10s, 1m30s or 100ms")
    return None


def string() -> Any:
    """A plain string; unset is empty."""
    return _field(read_string, "")


def optional_string() -> Any:
    """A string that is a oneof member; unset is None."""
    return _field(read_string)


def int32() -> Any:
    """A plain int32; unset cannot be told from 0."""
    return _field(read_int32, 0)


def uint32() -> Any:
    """A plain uint32; unset cannot be told from 0."""
    return _field(read_uint32, 0)


def optional_uint32() -> Any:
    """A UInt32Value, or an oneof member; unset is None."""
    return _field(read_uint32)


def uint64() -> Any:
    """A plain uint64."""
    return _field(read_uint64, 0)


def optional_uint64() -> Any:
    """A UInt64Value."""
    return _field(read_uint64)


def boolean() -> Any:
    """A plain bool; unset is false."""
    return _field(read_bool, False)


def optional_boolean() -> Any:
    """A BoolValue, or an oneof member; unset is None."""
    return _field(read_bool)


def double() -> Any:
    """A plain double; unset is 0."""
    return _field(read_double, 0.0)


def optional_double() -> Any:
    """A DoubleValue; unset is None."""
    return _field(read_double)


def duration() -> Any:
    """A Duration in nanoseconds; unset is None."""
    return _field(read_duration)


def enumeration(cls: type[enum.Enum], default: enum.Enum | None = None) -> Any:
    """An enum whose members are named as in proto, with their numbers as values; read by name or number."""

    def read(value: object, path: Path, report: Report) -> enum.Enum | None:
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return cls(value)
            except ValueError:
                pass
        report.error(path, value, f"must be one of {', '.join(cls.__members__)}")
        return default

    return _field(read, default)


def message(cls: type[Message]) -> Any:
    """A nested message; unset is None."""
    return _field(cls.read)


def _element(element: type[Message] | Reader) -> tuple[Reader, bool]:
    """Return the reader of an element, and whether null is a message that is not there rather than an error."""
    if isinstance(element, type) and issubclass(element, Message):
        return element.read, True
    return element, False


def repeated(element: type[Message] | Reader) -> Any:
    """A list as a tuple; a null element stays None where the elements are messages, and is an error elsewhere."""
    read_element, null_allowed = _element(element)

    def read(value: object, path: Path, report: Report) -> tuple[Any, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            report.error(path, value, "must be a list")
            return ()
        return tuple(
            None if member is None and null_allowed else read_element(member, (*path, index), report)
            for index, member in enumerate(value)
        )

    return _field(read, ())


def mapping(element: type[Message] | Reader = read_string) -> Any:
    """A map with string keys."""
    read_element, null_allowed = _element(element)

    def read(value: object, path: Path, report: Report) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            report.error(path, value, "must be an object")
            return {}
        members: dict[str, Any] = {}
        for key, member in value.items():
            if not isinstance(key, str):
                report.error((*path, str(key)), key, "keys must be strings; quote it in YAML")
            elif member is None and null_allowed:
                members[key] = None
            else:
                members[key] = read_element(member, (*path, key), report)
        return members

    return attrs.field(factory=dict, metadata={"read": read})
