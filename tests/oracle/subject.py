"""A running proxy under comparison: where it listens, what it logged, what its admin interface shows."""

import asyncio
import contextlib
import json
import re
import shutil
import tempfile
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
import attrs

STOP_DEADLINE_S = 60.0


@attrs.frozen
class Event:
    """One line of the outlier event log, with its time in milliseconds and the host as its address."""

    time_ms: int
    address: str
    line: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class HostView:
    """What `/clusters` shows of one host."""

    flags: tuple[str, ...]
    success_rate: float | None
    local_origin_success_rate: float | None


class Subject:
    """One proxy process; an async context manager. Subclasses say how to start it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="oracle-"))
        self.event_log = self.directory / "events.jsonl"
        self.listen: tuple[str, int] = ("", 0)
        self.admin = ""
        self._process: asyncio.subprocess.Process | None = None
        self._events: dict[str, list[Event]] = {}
        self._events_read = 0
        self._admin_turn = asyncio.Lock()
        self._hosts_page: asyncio.Task[dict[str, dict[str, HostView]]] | None = None

    async def start(self) -> None:
        """Start the process and return once it serves; `listen` and `admin` are set then."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.communicate(), STOP_DEADLINE_S)
            except TimeoutError:
                self._process.kill()
                await self._process.communicate()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Process id of the proxy."""
        assert self._process is not None
        return self._process.pid

    async def get(self, path: str) -> str:
        """Return the body of an admin page; one at a time, because the proxy has requests to carry meanwhile."""
        async with self._admin_turn, self._http.get(f"http://{self.admin}{path}") as response:
            response.raise_for_status()
            return await response.text()

    async def stats(self, cluster_name: str, *, used_only: bool = True) -> dict[str, int]:
        """Return counters and gauges of one cluster, by their names behind `cluster.<name>.`."""
        prefix = f"cluster.{cluster_name}."
        query = urllib.parse.urlencode({"filter": "^" + re.escape(prefix), "format": "json"})
        page = json.loads(await self.get(f"/stats?{query}" + ("&usedonly" if used_only else "")))
        return {
            stat["name"].removeprefix(prefix): stat["value"]
            for stat in page["stats"]
            if "value" in stat and stat["name"].startswith(prefix)
        }

    async def hosts(self) -> dict[str, dict[str, HostView]]:
        """Return what `/clusters?format=json` shows, by cluster and address.

        The page shows all clusters, so callers who ask while it is being fetched share it: the proxy under comparison
        has requests to carry.
        """
        if self._hosts_page is None or self._hosts_page.done():
            self._hosts_page = asyncio.create_task(self._fetch_hosts())
        return await asyncio.shield(self._hosts_page)

    async def _fetch_hosts(self) -> dict[str, dict[str, HostView]]:
        page = json.loads(await self.get("/clusters?format=json"))
        return {
            cluster["name"]: dict(_host_view(host) for host in cluster.get("host_statuses", []))
            for cluster in page["cluster_statuses"]
        }

    def events(self, cluster_name: str) -> list[Event]:
        """Return the events logged so far for one cluster, in order."""
        with contextlib.suppress(FileNotFoundError), self.event_log.open("rb") as log:
            log.seek(self._events_read)
            complete, newline, _ = log.read().rpartition(b"\n")
            self._events_read += len(complete) + len(newline)
            for line in complete.splitlines():
                event = json.loads(line)
                self._events.setdefault(event["cluster_name"], []).append(
                    Event(_milliseconds(event["timestamp"]), event["upstream_url"], event)
                )
        return self._events.get(cluster_name, [])


def _host_view(host: Mapping[str, Any]) -> tuple[str, HostView]:
    socket_address = host["address"]["socket_address"]
    health = host.get("health_status", {})
    flags = tuple(sorted(name for name, value in health.items() if value is True))
    view = HostView(
        flags=flags,
        success_rate=_rate(host, "success_rate"),
        local_origin_success_rate=_rate(host, "local_origin_success_rate"),
    )
    return f"{socket_address['address']}:{socket_address['port_value']}", view


def _rate(host: Mapping[str, Any], field: str) -> float | None:
    # A rate of 0 is printed as an empty message.
    return None if field not in host else float(host[field].get("value", 0.0))


def _milliseconds(timestamp: str) -> int:
    day, _, clock = timestamp.rstrip("Z").partition("T")
    hours, minutes, seconds = clock.split(":")
    whole = (int(day[-2:]) * 24 + int(hours)) * 60 + int(minutes)
    return round((whole * 60 + float(seconds)) * 1000)
