"""Durations as Istio's reader takes them: Go's syntax, of which protobuf's `60s` is a part.

Values are integer nanoseconds, as in Go, so that validation can see what is finer than a millisecond.
Ports `time.ParseDuration` (Go) and `ValidateDuration` (Istio, pkg/config/validation/agent/validation.go).
"""

import re

NS_PER_MS = 1_000_000

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter; Go takes both
    "ms": NS_PER_MS,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")
_INT64_MAX = 2**63 - 1


def parse_duration_ns(text: str) -> int:
    """Return the nanoseconds of a Go duration such as `1h30m`, `1.5s`, `100ms`, `-1s` or `0`.

    Raises:
        ValueError: Not a Go duration, or outside the 64-bit range of nanoseconds.

    >>> parse_duration_ns("1h30m")
    5400000000000
    """
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    total = position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]) or part[3] not in _UNITS:
            break
        unit = _UNITS[part[3]]
        fraction = part[2] or ""
        total += int(part[1] or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = part.end()
    if not rest or position < len(rest) or total > _INT64_MAX:
        raise ValueError(f"not a duration: {text!r}")
    return -total if text[0] == "-" else total


def is_valid_duration(duration_ns: int) -> bool:
    """Whether Istio accepts the duration: at least one millisecond, and whole milliseconds."""
    return duration_ns >= NS_PER_MS and duration_ns % NS_PER_MS == 0


def format_duration(duration_ns: int) -> str:
    """Return a short exact text of a duration: `15m`, `90s`, `1.5s`, `250ms`, `500us`, `5ns`.

    >>> format_duration(1_500_000_000)
    '1.5s'
    """
    size = abs(duration_ns)
    for unit in ("h", "m", "s", "ms", "us"):
        if size >= _UNITS[unit] and size % _UNITS[unit] == 0:
            return f"{duration_ns // _UNITS[unit]}{unit}"
    if size == 0:
        return "0s"
    if size >= _UNITS["s"] and size % NS_PER_MS == 0:
        return f"{duration_ns / _UNITS['s']:.3f}".rstrip("0") + "s"
    return f"{duration_ns}ns"
