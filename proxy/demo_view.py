"""How `outlier demo` looks: a live table on a terminal, plain lines elsewhere, and the summary at the end."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

# The demo's rule looks at consecutive errors only, so no other type can occur.
REASONS: Mapping[str, str] = {
    "CONSECUTIVE_5XX": "failures in a row",
    "CONSECUTIVE_GATEWAY_FAILURE": "gateway failures in a row",
}
_SHOWN_EVENTS = 8


@attrs.define
class HostRow:
    """One host as the table shows it; counters are those of `/clusters`."""

    name: str
    address: str
    behaviour: str
    health: str = "healthy"
    requests: int = 0
    failures: int = 0
    ejections: int = 0


@attrs.frozen
class EventLine:
    """One line of the event log, in words. `at_ms` counts from the start of the demo."""

    at_ms: int
    host: str
    address: str
    ejected: bool
    reason: str
    num_ejections: int

    def __str__(self) -> str:
        action = f"ejected (no. {self.num_ejections})" if self.ejected else "unejected"
        return f"{self.at_ms / 1000:6.1f} s  {self.host} ({self.address}) {action}: {self.reason}"


@attrs.define
class Board:
    """Everything there is to show. `statuses` counts answers by status; failures without one are under their name."""

    hosts: dict[str, HostRow] = attrs.Factory(dict)
    statuses: Counter[str] = attrs.Factory(Counter)
    events: list[EventLine] = attrs.Factory(list)
    elapsed_ms: int = 0
    listen: str = ""
    admin: str = ""

    def update_hosts(self, clusters: Mapping[str, Any]) -> None:
        """Take over what `/clusters?format=json` says."""
        for cluster in clusters.get("cluster_statuses", ()):
            for status in cluster.get("host_statuses", ()):
                address = status["address"]["socket_address"]
                row = self.hosts.get(f"{address['address']}:{address['port_value']}")
                if row is not None:
                    stats = {stat["name"]: int(stat.get("value", 0)) for stat in status["stats"]}
                    row.requests, row.failures = stats["rq_total"], stats["rq_error"]
                    row.health = "ejected" if status["health_status"].get("failed_outlier_check") else "healthy"

    def add_event(self, line: Mapping[str, Any], at_ms: int) -> EventLine | None:
        """Take over a line of the event log; return it in words, or None when it changed nothing."""
        ejected = line["action"] == "EJECT"
        if ejected and not line["enforced"]:
            return None
        row = self.hosts[line["upstream_url"]]
        reason = "ejection time over"
        if ejected:
            reason = f"{REASONS[line['type']]}, it {row.behaviour} ({line['type']})"
        row.ejections = line["num_ejections"]
        event = EventLine(at_ms, row.name, row.address, ejected, reason, line["num_ejections"])
        self.events.append(event)
        return event

    def progress(self) -> str:
        """Return one plain line: how far, how many, who is out."""
        out = [row.name for row in self.hosts.values() if row.health == "ejected"]
        return f"{self.elapsed_ms / 1000:6.1f} s  {self.traffic()}; ejected now: {', '.join(out) or 'nobody'}"

    def traffic(self) -> str:
        """Return the number of requests, and of each answer."""
        answers = ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items()))
        return f"{self.statuses.total()} requests: {answers or 'no answer yet'}"

    def table(self) -> Group:
        """Return the live view."""
        table = Table(title=self.traffic(), title_justify="left", box=box.SIMPLE)
        for heading in ("host", "port", "now", "state"):
            table.add_column(heading, no_wrap=True)
        for heading in ("requests", "failures", "ejections"):
            table.add_column(heading, justify="right")
        for row in self.hosts.values():
            style = "red" if row.health == "ejected" else "green"
            table.add_row(
                row.name,
                row.address.rpartition(":")[2],
                row.behaviour,
                Text(row.health, style=style),
                str(row.requests),
                str(row.failures),
                str(row.ejections),
            )
        lines = [
            Text(str(event), style="red" if event.ejected else "green", no_wrap=True, overflow="ellipsis")
            for event in self.events[-_SHOWN_EVENTS:]
        ]
        where = f"{self.elapsed_ms / 1000:.0f} s   proxy http://{self.listen}   admin http://{self.admin}"
        return Group(table, Text(where, style="dim"), *lines)

    def summary(self) -> list[str]:
        """Return the lines of the end: requests, answers, every ejection and unejection with host and reason."""
        ejections = sum(event.ejected for event in self.events)
        lines = [
            f"{self.elapsed_ms / 1000:.1f} s, {self.traffic()}",
            f"{ejections} ejections, {len(self.events) - ejections} unejections",
        ]
        return lines + [str(event) for event in self.events]
