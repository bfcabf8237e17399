"""Runs vector files: cases as data, each an input and what a real Envoy or Istio made of it.

A *family* knows one folder of vectors: how to recognise its files and how to turn one into cases. A module of this
package that defines `FAMILY` takes part; nothing is registered elsewhere. A case's `run` returns if the product
agrees, raises `Mismatch` if it does not, and `Skipped` where the schema calls a row descriptive or docs/parity.md
names it as a deliberate divergence.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests import conformance


class Mismatch(AssertionError):  # noqa: N818 - says what it is
    """Raised when the product's answer is not the vector's."""

    def __init__(self, expected: object, actual: object, where: str = "") -> None:
        super().__init__(f"{where}\n  expected {expected}\n  actual   {actual}")
        self.expected = expected
        self.actual = actual
        self.where = where


class Skipped(Exception):  # noqa: N818 - an outcome, not an error
    """Raised when a case is not one to be run; the message says why."""


@attrs.frozen
class Case:
    """One vector; `id` is unique within its family."""

    id: str
    run: Callable[[], None]


@attrs.frozen(kw_only=True)
class Family:
    """One kind of vector files.

    Attributes:
        name: The folder's name; a file in a folder of that name belongs to the family.
        recognises: Whether a file elsewhere belongs to it, by what it holds.
        cases: The cases of a file, given its path and content.
    """

    name: str
    recognises: Callable[[Any], bool]
    cases: Callable[[Path, Any], Iterable[Case]]


class UnknownFileError(Exception):
    """Raised when a path holds no vectors of a known family."""


@attrs.frozen
class Outcome:
    """What came of one case: `passed`, `failed` or `skipped`, and the message that goes with it."""

    case_id: str
    result: str
    message: str = ""


def families() -> tuple[Family, ...]:
    """Return every family of this package, in order of module name."""
    found = []
    for module in pkgutil.iter_modules(conformance.__path__):
        if module.name.startswith(("test_", "__")) or module.name == "runner":
            continue
        family = getattr(importlib.import_module(f"{conformance.__name__}.{module.name}"), "FAMILY", None)
        if family is not None:
            found.append(family)
    return tuple(found)


def load_cases(paths: Iterable[Path]) -> Iterator[tuple[Family, Path, Case]]:
    """Yield the cases of each file, and of each `*.yaml` below each folder.

    Raises:
        UnknownFileError: A path does not exist, or a file is of no known family.
    """
    known = families()
    for path in paths:
        files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        if not files:
            raise UnknownFileError(f"{path}: no *.yaml in this folder")
        for file in files:
            try:
                document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            except OSError as exc:
                raise UnknownFileError(f"{file}: {exc.strerror}") from exc
            family = _family_of(known, file, document)
            for case in family.cases(file, document):
                yield family, file, case


def _family_of(known: Iterable[Family], file: Path, document: Any) -> Family:
    for family in known:
        if file.parent.name == family.name:
            return family
    for family in known:
        if family.recognises(document):
            return family
    raise UnknownFileError(f"{file}: of no known family of vectors")


def run(case: Case) -> Outcome:
    """Run one case; anything it raises that is not a skip is a failure."""
    try:
        case.run()
    except Skipped as exc:
        return Outcome(case.id, "skipped", str(exc))
    except Mismatch as exc:
        return Outcome(case.id, "failed", str(exc))
    except Exception as exc:  # noqa: BLE001 - a crash fails its case, not the run
        return Outcome(case.id, "failed", f"{type(exc).__name__}: {exc}")
    return Outcome(case.id, "passed")
