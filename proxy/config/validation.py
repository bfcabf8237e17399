"""Rules that several resources share: host names, labels, exportTo, durations.

Each function reports to a `Report` at the path it is given and returns nothing; outcomes are Istio's
(pkg/config/validation/validation.go and agent/validation.go).
"""

import re
import socket
from collections.abc import Mapping, Sequence

from proxy.config.durations import is_valid_duration
from proxy.config.issue import ABSENT, AS_WRITTEN, Path, Report

_LABEL = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_WILDCARD_LABEL = re.compile(rf"\*|(?:\*-?)?{_LABEL}")
_MAX_DOMAIN = 255
_MAX_LABEL = 63
_QUALIFIED_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

DNS_LABEL_RULE = "must be a DNS label (letters, digits and inner hyphens, at most 63)"


def is_dns_label(text: str) -> bool:
    """Whether `text` is a DNS-1123 label; upper case is allowed, as in Istio."""
    return len(text) <= _MAX_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_ip(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address, without brackets or zone."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):  # ValueError: a character that no address has, such as NUL
        return False
    return True


def _labels_fault(domain: str) -> str | None:
    *heads, last = domain.split(".")
    if last.isascii() and last.isdigit():
        return f"the last label {last!r} must not be a number; use a host name, not an IP address"
    for label in heads if not last else [*heads, last]:  # a trailing dot is allowed
        if not is_dns_label(label):
            return f"{label!r} is no DNS label (letters, digits and inner hyphens, at most 63)"
    return None


def fqdn_fault(domain: str) -> str | None:
    """Return what keeps `domain` from being a plain domain name, None when nothing does."""
    if not domain:
        return "must not be empty"
    if len(domain) > _MAX_DOMAIN:
        return f"must not be longer than {_MAX_DOMAIN} characters"
    return _labels_fault(domain)


def wildcard_domain_fault(domain: str) -> str | None:
    """Return what keeps `domain` from being a domain name whose first label may be or start with `*`."""
    if not domain:
        return "must not be empty"
    if len(domain) > _MAX_DOMAIN:
        return f"must not be longer than {_MAX_DOMAIN} characters"
    first, dot, rest = domain.partition(".")
    if len(first) > _MAX_LABEL or _WILDCARD_LABEL.fullmatch(first) is None:
        wildcard = "; * is allowed only as the start of the first label" if "*" in domain else ""
        return f"{first!r} is no DNS label (letters, digits and inner hyphens, at most 63){wildcard}"
    return _labels_fault(rest) if dot and rest else None


def check_duration(value_ns: int | None, path: Path, report: Report) -> None:
    """Report a duration that is below one millisecond or not whole milliseconds; unset is fine."""
    if value_ns is not None and not is_valid_duration(value_ns):
        report.error(path, AS_WRITTEN, "must be at least 1ms, in whole milliseconds")


def check_required_duration(value_ns: int | None, path: Path, report: Report) -> None:
    """Report a duration that is missing or invalid."""
    if value_ns is None:
        report.error(path, ABSENT, "is required")
    else:
        check_duration(value_ns, path, report)


def check_not_negative(value: int, path: Path, report: Report) -> None:
    """Report a negative integer."""
    if value < 0:
        report.error(path, value, "must not be negative")


def check_percent(value: int, path: Path, report: Report) -> None:
    """Report an integer outside 0..100."""
    if not 0 <= value <= 100:
        report.error(path, value, "must be in 0..100")


def check_labels(labels: Mapping[str, str], path: Path, report: Report) -> None:
    """Report labels that Kubernetes would refuse, once for the whole map."""
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        fault = (
            len(name) > _MAX_LABEL
            or _QUALIFIED_NAME.fullmatch(name) is None
            or (slash and fqdn_fault(prefix) is not None)
        )
        if fault:
            report.error(path, key, "label keys are [prefix/]name with a name of at most 63 letters, digits, - _ .")
            return
        if value and (len(value) > _MAX_LABEL or _QUALIFIED_NAME.fullmatch(value) is None):
            report.error(path, value, "label values are at most 63 letters, digits, - _ .")
            return


def check_selector(labels: Mapping[str, str], path: Path, report: Report) -> None:
    """Report empty keys and wildcards (errors), or no labels at all (a warning)."""
    if not labels:
        report.warn(path, {}, "has no labels, so it selects every workload")
    for key, value in labels.items():
        if not key:
            report.error(path, key, "label keys must not be empty")
        elif "*" in key or "*" in value:
            report.error(path, f"{key}={value}", "wildcards are not supported")


def check_export_to(
    export_to: Sequence[str], namespace: str, path: Path, report: Report, *, selector: bool = False, none: bool = False
) -> None:
    """Report a list of namespaces that contradicts itself.

    Args:
        export_to: `.`, `*`, `~` or namespaces.
        namespace: The resource's own.
        path: Of the list.
        report: Takes the errors.
        selector: The resource has a workloadSelector and must stay in its namespace.
        none: `~` alone is allowed (ServiceEntry, VirtualService).
    """
    seen: set[str] = set()
    for target in export_to:
        if target == "~":
            if not none or len(export_to) > 1:
                report.error(path, target, "~ stands for nobody and is only allowed alone, on services and routes")
                return
        elif target not in {".", "*"} and not is_dns_label(target):
            report.error(path, target, "must be ., * or a namespace")
            return
        resolved = namespace if target == "." else target
        if resolved in seen:
            report.error(path, target, "names a namespace twice")
            return
        seen.add(resolved)
    if "*" in seen and len(export_to) > 1:
        report.error(path, list(export_to), "* already covers everything else")
    elif selector and (len(export_to) > 1 or (export_to and seen != {namespace})):
        report.error(path, list(export_to), "a rule with workloadSelector reaches its own namespace only")
