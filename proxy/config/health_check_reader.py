"""Reads the key `health_checks` of the bootstrap file.

Its fields are those of Envoy's `HealthCheck`, but `http` and `tcp` for `http_health_check` and `tcp_health_check`,
ranges of statuses as `200-299`, headers as a mapping, and payloads as hexadecimal text.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outlier import ConfigError
from proxy.config.durations import NS_PER_MS, parse_duration_ns
from proxy.config.health_check import CheckMethod, HealthCheck, HealthCheckRule, HttpHealthCheck, TcpHealthCheck
from proxy.config.validation import wildcard_domain_fault

_UINT32_MAX = 2**32 - 1
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUSES = re.compile(r"([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")

Reader = Callable[[object, str], Any]


def read_health_checks(value: object, place: str, folder: Path) -> tuple[HealthCheckRule, ...]:
    """Read the value of `health_checks`.

    Args:
        value: A list of mappings whose scalars are texts, as the bootstrap file is read.
        place: Where the value stands, for messages.
        folder: What relative paths count from.

    Raises:
        ConfigError: Something is missing, unknown or out of range, or two rules are for the same host and port.
    """
    rules: dict[tuple[str, int | None], HealthCheckRule] = {}
    for index, member in enumerate(_list(value, place)):
        own_place = f"{place}[{index}]"
        for rule in _read_rule(member, own_place, folder):
            if (rule.host, rule.port) in rules:
                raise ConfigError(f"{own_place}.hosts", rule.host, "has a health check already")
            rules[rule.host, rule.port] = rule
    return tuple(rules.values())


def _read_rule(value: object, place: str, folder: Path) -> list[HealthCheckRule]:
    fields = _read_fields(value, _RULE_READERS, place, required=_REQUIRED)
    hosts, port = fields.pop("hosts"), fields.pop("port", None)
    checks = [fields.pop(name) for name in ("http", "tcp") if name in fields]
    if len(checks) != 1:
        raise ConfigError(place, "both" if checks else "neither", "must have either http or tcp")
    if "event_log_path" in fields:
        fields["event_log_path"] = folder / fields["event_log_path"]
    arguments = {f"{name}_ms" if name in _DURATIONS else name: member for name, member in fields.items()}
    health_check = HealthCheck(check=checks[0], **arguments)
    return [HealthCheckRule(host, port, health_check) for host in hosts]


def _read_fields(
    value: object, readers: Mapping[str, Reader], place: str, *, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(place, value, "must be a mapping")
    fields = {}
    for name, member in value.items():
        if name not in readers:
            raise ConfigError(f"{place}.{name}", member, "is unknown; known are " + ", ".join(readers))
        fields[name] = readers[name](member, f"{place}.{name}")
    for name in required:
        if name not in fields:
            raise ConfigError(f"{place}.{name}", "nothing", "is required")
    return fields


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise ConfigError(place, value, "must be a list")
    return value


def _texts(value: object, place: str) -> list[str]:
    """Read a list of texts; one text stands for a list of one."""
    members = value if isinstance(value, list) else [value]
    return [_text(member, place) for member in members]


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(place, value, "must be text")
    return value


def _path(value: object, place: str) -> Path:
    return Path(_text(value, place))


def _hosts(value: object, place: str) -> list[str]:
    hosts = _texts(value, place)
    for host in hosts:
        fault = None if host == "*" else wildcard_domain_fault(host)
        if fault is not None:
            raise ConfigError(place, host, fault)
    return hosts


def _integer(minimum: int, maximum: int) -> Reader:
    def read(value: object, place: str) -> int:
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else -1
        if not minimum <= number <= maximum:
            raise ConfigError(place, value, f"must be an integer in {minimum}..{maximum}")
        return number

    return read


def _duration(value: object, place: str) -> int:
    try:
        milliseconds = parse_duration_ns(_text(value, place)) // NS_PER_MS
    except ValueError:
        milliseconds = -1
    if milliseconds < 0:
        raise ConfigError(place, value, "must be a duration with a unit, such as 10s or 100ms")
    return milliseconds


def _positive_duration(value: object, place: str) -> int:
    milliseconds = _duration(value, place)
    if milliseconds == 0:
        raise ConfigError(place, value, "must be at least 1ms")
    return milliseconds


def _boolean(value: object, place: str) -> bool:
    if value not in {"true", "false"}:
        raise ConfigError(place, value, "must be true or false")
    return value == "true"


def _method(value: object, place: str) -> CheckMethod:
    try:
        return CheckMethod(value)
    except ValueError:
        methods = ", ".join(method.value for method in CheckMethod)
        raise ConfigError(place, value, f"must be one of {methods}") from None


def _statuses(value: object, place: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for text in _texts(value, place):
        match = _STATUSES.fullmatch(text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConfigError(place, text, "must be a status in 100..599, or a range of them such as 200-299")
        ranges.append((first, last))
    return tuple(ranges)


def _request_target(value: object, place: str) -> str:
    path = _text(value, place)
    if not path.startswith("/") or not _is_plain(path) or " " in path:
        raise ConfigError(place, value, "must start with / and have no spaces")
    return path


def _header_value(value: object, place: str) -> str:
    if not isinstance(value, str) or not _is_plain(value):
        raise ConfigError(place, value, "must be printable ASCII")
    return value


def _headers(value: object, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise ConfigError(place, value, "must be a mapping of names to values")
    for name in value:
        if _HEADER_NAME.fullmatch(name) is None:
            raise ConfigError(place, name, "must be the name of a header")
    return tuple((name.lower(), _header_value(text, f"{place}.{name}")) for name, text in value.items())


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _payload(value: object, place: str) -> tuple[bytes, ...]:
    blocks = []
    for text in _texts(value, place):
        try:
            blocks.append(bytes.fromhex(text))
        except ValueError:
            raise ConfigError(place, text, "must be bytes in hexadecimal, such as 50494e47") from None
    return tuple(blocks)


_HTTP_READERS: dict[str, Reader] = {
    "path": _request_target,
    "host": _header_value,
    "method": _method,
    "expected_statuses": _statuses,
    "retriable_statuses": _statuses,
    "request_headers_to_add": _headers,
}
_TCP_READERS: dict[str, Reader] = {"send": _payload, "receive": _payload}


def _http(value: object, place: str) -> HttpHealthCheck:
    return HttpHealthCheck(**_read_fields(value, _HTTP_READERS, place, required=("path",)))


def _tcp(value: object, place: str) -> TcpHealthCheck:
    return TcpHealthCheck(**_read_fields({} if value == "" else value, _TCP_READERS, place))


_DURATIONS: dict[str, Reader] = {
    "timeout": _positive_duration,
    "interval": _positive_duration,
    "initial_jitter": _duration,
    "interval_jitter": _duration,
    "no_traffic_interval": _positive_duration,
    "no_traffic_healthy_interval": _positive_duration,
    "unhealthy_interval": _positive_duration,
    "unhealthy_edge_interval": _positive_duration,
    "healthy_edge_interval": _positive_duration,
}
_RULE_READERS: dict[str, Reader] = {
    "hosts": _hosts,
    "port": _integer(1, 65_535),
    "http": _http,
    "tcp": _tcp,
    **_DURATIONS,
    "unhealthy_threshold": _integer(0, _UINT32_MAX),
    "healthy_threshold": _integer(0, _UINT32_MAX),
    "interval_jitter_percent": _integer(0, _UINT32_MAX),
    "reuse_connection": _boolean,
    "always_log_health_check_failures": _boolean,
    "always_log_health_check_success": _boolean,
    "event_log_path": _path,
    "ignore_new_hosts_until_first_hc": _boolean,
}
_REQUIRED = ("hosts", "timeout", "interval", "unhealthy_threshold", "healthy_threshold")
