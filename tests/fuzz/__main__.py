"""Feed random bytes to both ends of the data plane: `python -m tests.fuzz --minutes 10`.

Inputs come from grammars of HTTP/1.1 and HTTP/2, a corpus of requests that smuggle, and mutation; each is fed whole and
in pieces. A finding is something raised, a hang, more CPU than the bytes explain, an object that is alive after its
connection, a client that is not read though nothing is under way, a response that nobody asked for, or two ways to cut
the same bytes that differ. Prints what came of it, and memory; each finding is written to a file that `--replay`
repeats. Exit status 1 when there is one.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.clients import Http1Clients, Http2Clients
from tests.fuzz.fuzzer import Finding, Fuzzer
from tests.fuzz.hosts import Http1Hosts, Http2Hosts
from tests.fuzz.scene import Scene
from tests.fuzz.target import Target

GROWTH_LIMIT = 1.05
_SETTLED_SHARE = 0.1  # of the run: caches are full, the allocator has what it keeps


def make_targets() -> list[Target]:
    """Return one target of each kind."""
    scene = Scene()
    return [Http1Clients(scene), Http1Hosts(), Http2Clients(scene), Http2Hosts()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="(default %(default)s)")
    parser.add_argument("--inputs", type=int, help="feed so many inputs instead")
    parser.add_argument(
        "--seed", default="1", help="any text; the same seed gives the same inputs (default %(default)s)"
    )
    parser.add_argument("--target", action="append", metavar="NAME", help="only this, e.g. http1-clients (repeatable)")
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="folder for them (default %(default)s)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="repeat a finding")
    options = parser.parse_args(arguments)
    targets = [target for target in make_targets() if options.target is None or target.name in options.target]
    if options.replay is not None:
        return _replay(Finding.read(options.replay), targets)
    fuzzer = Fuzzer(targets, options.seed)
    started = time.monotonic()
    seconds = None if options.inputs is not None else options.minutes * 60
    fuzzer.run(inputs=options.inputs, seconds=seconds)
    lasted = time.monotonic() - started
    _print(f"{fuzzer.executions} inputs in {lasted:.0f} s, {fuzzer.executions / lasted:.0f} a second")
    for kind, count in sorted(fuzzer.kinds.items()):
        _print(f"{count:10} {kind}")
    settled = fuzzer.resident_mb[int(len(fuzzer.resident_mb) * _SETTLED_SHARE)]
    last = max(fuzzer.resident_mb[-3:])
    _print(f"resident memory: {settled:.1f} MB once settled, {last:.1f} MB at the end")
    for number, finding in enumerate(fuzzer.findings.values(), 1):
        options.findings.mkdir(exist_ok=True)
        path = options.findings / f"{finding.target}-{number}.json"
        finding.write(path)
        _print(f"FINDING {path}: {finding.problem[:500]}")
    grown = last > settled * GROWTH_LIMIT
    if grown:
        _print("FINDING: memory has grown")
    return 1 if fuzzer.findings or grown else 0


def _replay(finding: Finding, targets: Sequence[Target]) -> int:
    (target,) = (target for target in targets if target.name == finding.target)
    found = Fuzzer([target], "").check(target, b"".join(finding.pieces), finding.pieces)
    _print("it is gone" if found is None else found.problem)
    return 0 if found is None else 1


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
