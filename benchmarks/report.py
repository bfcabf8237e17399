"""Results as tables: on the terminal, in the README, and the list of the parts in `benchmarks/README.md`."""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.claims import Claim
from benchmarks.data_plane import BODIES
from benchmarks.parts import PARTS
from benchmarks.result import MEASURED, ROOT, Result

README = ROOT / "README.md"
PARTS_README = ROOT / "benchmarks" / "README.md"
CLAIMS_BLOCK, PARTS_BLOCK = "claims", "parts"
PROXIES = {
    "sidecar": "sidecar",
    "envoy": "Envoy",
    "haproxy": "HAProxy",
    "nginx": "nginx",
    "aiohttp": "aiohttp proxy",
    "proxy.py": "proxy.py",
}


def number(value: float) -> str:
    """Return a figure with three digits that count.

    >>> number(0.7412), number(12.3), number(1234.5), number(0.0)
    ('0.741', '12.3', '1,234', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def figure(claim: Claim) -> str:
    """Return a claim's value, with one digit more where it would look like the limit that it exceeds."""
    text = number(claim.value)
    return text if claim.kept or claim.limit is None or text != number(claim.limit) else f"{claim.value:.4g}"


def spread(claim: Claim) -> str:
    """Return the least and the most of the rounds; nothing where there was one."""
    return "" if claim.least is None or claim.most is None else f"{number(claim.least)}-{number(claim.most)}"


def verdict(claim: Claim) -> str:
    """Return the limit and whether it is kept; nothing where nothing is promised."""
    if claim.limit is None:
        return ""
    return f"{number(claim.limit)}, {'kept' if claim.kept else 'NOT kept'}"


def day(date: str) -> str:
    """Return a date for people: `30 November 2026`."""
    read = dt.date.fromisoformat(date)
    return f"{read.day} {read:%B %Y}"


def described(machine: dict[str, Any]) -> str:
    """Return a machine in one line."""
    cores, memory = f"{machine['cores']} cores", f"{machine['memory_gb']} GB"
    return ", ".join((machine["processor"], cores, memory, machine["system"], machine["python"]))


def terminal_table(results: Sequence[Result]) -> Table:
    """Return every claim, a row each; below it, where and when they were measured."""
    shown = Table(title="Every claim", caption=_measured_on(results))
    for heading in ("claim", "figure", "unit", "spread", "limit", "python -m benchmarks."):
        shown.add_column(heading, justify="right" if heading in ("figure", "spread") else "left", overflow="fold")
    for result in results:
        command = _command(result)
        for claim in result.claims:
            beside = f" ({claim.beside})" if claim.beside else ""
            cells = (claim.name, figure(claim) + beside, claim.unit, spread(claim), verdict(claim))
            shown.add_row(*cells, command, style=None if claim.kept else "red")
        if result.status != MEASURED:
            shown.add_row(f"{result.part}: {result.status}: {result.message}", *[""] * 4, command, style="yellow")
        for reason in result.skipped.values():
            shown.add_row(f"{result.part}: left out: {reason}", *[""] * 4, command, style="yellow")
        shown.add_section()
    return shown


def _command(result: Result) -> str:
    return result.command.removeprefix("python -m benchmarks.")


def claims_block(results: Sequence[Result]) -> str:
    """Return the README's two tables: the proxies side by side, and, folded, every claim."""
    by_name = {result.part: result for result in results}
    summary = f"Every claim: {sum(len(result.claims) for result in results)} figures"
    folded = f"<details>\n<summary>{summary}</summary>\n\n{_claims(results)}\n\n</details>"
    return "\n\n".join(filter(None, (_measured_on(results), _comparison(by_name), folded)))


def _measured_on(results: Sequence[Result]) -> str:
    """Say when and where; in more than one sentence when not all was measured at once."""
    groups: dict[str, list[str]] = {}
    for result in results:
        busy = ", which was busy with other work: the figures are rough" if result.busy else ""
        groups.setdefault(f"{day(result.date)}, {described(result.machine)}{busy}", []).append(result.part)
    if len(groups) == 1:
        return f"Measured on {next(iter(groups))}."
    return "\n".join(f"Measured on {where}: {', '.join(parts)}." for where, parts in groups.items())


def _comparison(results: dict[str, Result]) -> str:
    """Return CPU per request: a row for each body, a column for each proxy."""
    rows = []
    plain = results.get("data_plane")
    if plain is None or plain.status != MEASURED:
        return ""
    names = [name for name in PROXIES if name in plain.figures["results"]]
    for part, manner in (("data_plane", ""), ("mesh", ", retries and access log")):
        figures = results[part].figures.get("results") if part in results else None
        if not figures:
            continue
        for size in figures["sidecar"]:
            taken = [figures[name][size]["cpu_us"] if name in figures else None for name in names]
            rows.append((BODIES.get(size, size) + manner, *(_cpu(cpu) if cpu else "" for cpu in taken)))
    releases = plain.figures["releases"]
    headings = [f"{PROXIES[name]} {releases.get(name, '')}".rstrip() for name in names]
    return _markdown(("CPU of a request, us", *headings), rows)


def _cpu(taken: dict[str, float]) -> str:
    return f"{number(taken['median'])} ({taken['least']:,.0f}-{taken['most']:,.0f})"


def _claims(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        command = f"`{_command(result)}`"
        for claim in result.claims:
            beside = f" ({claim.beside})" if claim.beside else ""
            shown = f"{figure(claim)} {claim.unit}".rstrip() + beside
            rows.append((claim.name, shown, spread(claim), verdict(claim).replace("NOT kept", "**not kept**"), command))
        if result.status != MEASURED:
            rows.append((f"{result.part}: {result.status}: {result.message}", "", "", "", command))
    return _markdown(("claim", "figure", "spread", "limit", "`python -m benchmarks.`"), rows)


def parts_block() -> str:
    """Return the list of the parts."""
    rows = [
        (f"`python -m {' '.join(part.command(quick=False))}`", part.shows, part.needs, f"{part.seconds} s")
        for part in PARTS
    ]
    total = sum(part.seconds for part in PARTS)
    table = _markdown(("command", "shows", "needs; competitors, left out where missing", "about"), rows)
    return f"{table}\n\nTogether about {total / 60:.0f} minutes."


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    cells = ([cell.replace("|", "/") for cell in line] for line in lines)
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in cells)


def block_in(text: str, name: str) -> str:
    """Return what stands between the markers of a block."""
    return _found(text, name).group(2)


def with_block(text: str, name: str, content: str) -> str:
    """Return a text with another content between the markers of a block."""
    found = _found(text, name)
    return text[: found.start(2)] + content + text[found.end(2) :]


def _found(text: str, name: str) -> re.Match[str]:
    found = re.search(rf"(<!-- benchmarks: {name} -->\n)(.*?)(\n<!-- end -->)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"no block {name!r} between `<!-- benchmarks: {name} -->` and `<!-- end -->`")
    return found


def rewrite_readmes(results: Sequence[Result]) -> None:
    """Write the blocks of both READMEs anew."""
    for path, name, content in (
        (README, CLAIMS_BLOCK, claims_block(results)),
        (PARTS_README, PARTS_BLOCK, parts_block()),
    ):
        _rewrite(path, name, content)


def _rewrite(path: Path, name: str, content: str) -> None:
    path.write_text(with_block(path.read_text(encoding="utf-8"), name, content), encoding="utf-8")
