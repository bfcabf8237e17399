"""Draws simulations: a lane a host, ejections as bars, degraded marks hatched, panic shaded.

Needs matplotlib, which is an extra of the distribution (`plot`).
"""

from collections.abc import Sequence
from pathlib import Path

from outlier import EnvoyRelease, MomentKind, Simulation, spans
from proxy.errors import ProxyError

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError as exc:  # pragma: no cover - depends on the installation
    raise ProxyError("--plot needs matplotlib; install outlier-proxy[plot]") from exc

_INCHES_PER_LANE = 0.35
_EJECTED, _DEGRADED, _PANIC = "#c0392b", "#e6a23c", "#f5d6d3"


def plot(simulations: Sequence[Simulation], path: Path) -> None:
    """Write one picture with a panel a simulation; the format follows the file's suffix.

    Raises:
        ProxyError: The file cannot be written, or its format is unknown.
    """
    lanes = [_lanes(simulation) for simulation in simulations]
    height = sum(len(hosts) * _INCHES_PER_LANE + 1.1 for hosts in lanes)
    figure = Figure(figsize=(10, height), layout="constrained")
    panels = figure.subplots(
        len(simulations), 1, squeeze=False, gridspec_kw={"height_ratios": [max(len(hosts), 1) for hosts in lanes]}
    )
    for panel, simulation, hosts in zip(panels[:, 0], simulations, lanes, strict=True):
        release = simulation.release
        version = f", Envoy {release.value}" if isinstance(release, EnvoyRelease) else ""
        panel.set_title(f"{simulation.scenario.name}{version}", loc="left", fontsize=10)
        panel.set_xlim(0, max(simulation.end_ms, 1) / 1000)
        panel.set_ylim(len(hosts) - 0.5, -0.5)
        panel.set_yticks(range(len(hosts)), hosts)
        panel.set_xlabel("seconds")
        panel.grid(axis="x", linewidth=0.4)
        panel.set_axisbelow(True)
        for span in spans(simulation):
            start, length = span.start_ms / 1000, (span.end_ms - span.start_ms) / 1000
            if span.kind is MomentKind.PANIC:
                panel.axvspan(start, start + length, color=_PANIC, linewidth=0)
            else:
                ejected = span.kind is MomentKind.EJECTED
                panel.barh(
                    hosts.index(span.host or ""),
                    length,
                    left=start,
                    height=0.6 if ejected else 0.3,
                    color=_EJECTED if ejected else _DEGRADED,
                    hatch=None if ejected else "///",
                )
    handles = [Patch(color=_EJECTED), Patch(color=_DEGRADED, hatch="///"), Patch(color=_PANIC)]
    figure.legend(
        handles, ["ejected", "degraded", "panic"], loc="outside lower right", ncols=3, fontsize=8, frameon=False
    )
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as exc:
        raise ProxyError(f"{path}: {exc}") from exc


def _lanes(simulation: Simulation) -> list[str]:
    """Return the hosts in the order in which they appear."""
    hosts = dict.fromkeys(simulation.scenario.hosts)
    hosts |= dict.fromkeys(moment.host for moment in simulation.timeline if moment.host is not None)
    return list(hosts)
