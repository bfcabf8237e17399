"""The sidecar with Envoy's own outlier detection fields laid over what its DestinationRules convert to.

`python -m tests.oracle.overriding_sidecar FIELDS.json OPTIONS...`: the options are those of `outlier run`; the file
maps a cluster's name to fields of Envoy's `OutlierDetection`, durations as text.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from outlier import OutlierDetection
from proxy.config.bootstrap import Bootstrap
from proxy.config.cluster_config import ClusterConfig
from proxy.config.snapshot import ConfigSnapshot
from proxy.logs import configure_logs
from proxy.run_command import choose_loop
from proxy.run_options import add_run_options, bootstrap_from_args
from proxy.server import Server


class OverridingServer(Server):
    """A sidecar whose detectors obey fields that Istio has no words for."""

    def __init__(self, bootstrap: Bootstrap, overrides: Mapping[str, Mapping[str, Any]]) -> None:
        self._overrides = overrides
        super().__init__(bootstrap)

    def apply(self, snapshot: ConfigSnapshot) -> None:
        """Lay the fields over each cluster they are for, then run the snapshot."""
        clusters = {
            name: overridden(cluster, self._overrides[name]) if name in self._overrides else cluster
            for name, cluster in snapshot.clusters.items()
        }
        super().apply(attrs.evolve(snapshot, clusters=clusters))


def overridden(cluster: ClusterConfig, fields: Mapping[str, Any]) -> ClusterConfig:
    """Return the cluster with these fields of its detection replaced."""
    assert cluster.outlier_detection is not None
    shortest = {"base_ejection_time": "0.001s"}  # or a given max_ejection_time would be measured against the default
    parsed = OutlierDetection.from_fields(shortest | dict(fields))
    names = (name if hasattr(parsed, name) else f"{name}_ms" for name in fields)
    changes = {name: getattr(parsed, name) for name in names}
    return attrs.evolve(cluster, outlier_detection=attrs.evolve(cluster.outlier_detection, **changes))


async def serve(server: Server) -> None:
    """Serve until SIGTERM."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.quit_requested.set)
    await server.start()
    sys.stdout.write(json.dumps(server.ready_line()) + "\n")
    sys.stdout.flush()
    await server.quit_requested.wait()
    await server.drain()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.overriding_sidecar", description=__doc__)
    parser.add_argument("fields", type=Path)
    add_run_options(parser)
    args = parser.parse_args()
    bootstrap = bootstrap_from_args(args)
    configure_logs(bootstrap.log_format, bootstrap.log_level)
    overrides = json.loads(args.fields.read_text())

    async def run() -> None:
        await serve(OverridingServer(bootstrap, overrides))

    with asyncio.Runner(loop_factory=choose_loop(bootstrap.loop)) as runner:
        runner.run(run())


if __name__ == "__main__":
    main()
