"""What the browser looks at: `outlier run` as a process, on services whose hosts a test breaks and repairs."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from proxy.testing import FaultyUpstream

RULE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: default}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP}}
  endpoints:
{endpoints}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: default}}
spec:
  host: {name}.default.svc.cluster.local
  trafficPolicy:
    loadBalancer: {{simple: ROUND_ROBIN}}
    outlierDetection:
      consecutive5xxErrors: 3
      interval: 500ms
      baseEjectionTime: 600s
      maxEjectionPercent: 70
      minHealthPercent: {min_health_percent}
"""


class Scene:
    """A sidecar on one file per service in `folder`, and the hosts of the services."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, list[FaultyUpstream]] = {}
        self.listen = ""
        self.admin = ""
        self._stack = AsyncExitStack()

    async def start(self, hosts: dict[str, int]) -> None:
        """Start as many hosts per service, then the sidecar."""
        self.folder.mkdir(exist_ok=True)
        for name, number in hosts.items():
            made = [await self._stack.enter_async_context(FaultyUpstream(max_recorded=0)) for _ in range(number)]
            self.hosts[name] = made
            endpoints = "\n".join(f"  - {{address: 127.0.0.1, ports: {{http: {host.port}}}}}" for host in made)
            # Panic off, save for the service that is to show it.
            text = RULE.format(name=name, endpoints=endpoints, min_health_percent=50 if name == "ratings" else 0)
            (self.folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proxy.cli", "run", "--config", str(self.folder), "--log-level", "error"),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-time", "0"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        ready = json.loads(await self._process.stdout.readline())
        self.listen, self.admin = ready["listen"], ready["admin"]

    async def stop(self) -> None:
        """Stop the sidecar (an open dashboard must not keep it from ending) and the hosts."""
        if self._process.returncode is None:
            self._process.terminate()
        assert await self._process.wait() == 0
        await self._stack.aclose()

    def url(self, path: str = "") -> str:
        """Return the address of a page of the dashboard."""
        return f"http://{self.admin}/#/{path}"

    async def send(self, name: str, count: int) -> None:
        """Send requests for a service through the sidecar, one after the other."""
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                async with session.get(
                    f"http://{self.listen}/", headers={"Host": f"{name}.default.svc.cluster.local"}
                ) as response:
                    await response.read()

    def rewrite(self, name: str, old: str, new: str) -> None:
        """Change a value in the rule of a service."""
        path = self.folder / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
