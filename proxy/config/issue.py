"""What is wrong, or surprising, in a configuration: where, which value, which rule.

A reader or a validator reports to a `Report` by path; `locate` (in `document`) adds file and line when there is
something to say.
"""

import difflib
import enum
import reprlib
from collections.abc import Iterable, Iterator
from itertools import islice

import attrs

Path = tuple[str | int, ...]


class Severity(enum.Enum):
    """An ERROR refuses the resource; a WARNING does not."""

    ERROR = "error"
    WARNING = "warning"


def format_path(path: Path) -> str:
    """Return `subsets[0].trafficPolicy.tls`; `.` for the empty path.

    >>> format_path(("subsets", 0, "name"))
    'subsets[0].name'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "."


class _FlowStyle(reprlib.Repr):
    """Writes values as YAML's flow style does, shortened."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = self.maxtuple = 6
        self.maxstring = self.maxother = 80
        self.maxlevel = 4

    def repr_str(self, x: str, level: int) -> str:
        return x if _is_plain(x, self.maxstring) else super().repr_str(x, level)

    def repr_bool(self, x: bool, _level: int) -> str:
        return str(x).lower()

    def repr_NoneType(self, _x: None, _level: int) -> str:  # noqa: N802 - reprlib looks it up by type name
        return "null"

    def repr_dict(self, x: dict[object, object], level: int) -> str:
        if level <= 0 and x:
            return "{...}"
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return "{" + ", ".join(shown + (["..."] if len(x) > self.maxdict else [])) + "}"


def _is_plain(text: str, longest: int) -> bool:
    """Whether a string can stand without quotes: not empty, printable, short, no outer blanks."""
    return 0 < len(text) <= longest and text.isprintable() and text == text.strip()


_flow_style = _FlowStyle()


class _Marker:
    """A value that stands for another."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


ABSENT = _Marker("(absent)")
"""The value of a field that is missing."""

AS_WRITTEN = _Marker("...")
"""The value that the text has at the path of the finding; whoever has the text puts it in."""


@attrs.frozen(kw_only=True)
class Issue:
    """One finding.

    `path` leads from the document's top to the field. `source` is the file, or the peer that sent the resource; `line`
    is 1-based, None when unknown. `resource` is `Kind namespace/name`. `origin` tells whose rule it is: `istio`, `crd`
    or `outlier`.
    """

    severity: Severity
    path: Path
    value: object
    rule: str
    source: str = ""
    line: int | None = None
    resource: str = ""
    origin: str = "istio"

    @property
    def message(self) -> str:
        """`field.path = value; rule`; only the rule for a finding on a text as a whole."""
        if not self.path:
            return self.rule
        return f"{format_path(self.path)} = {self.value_text}; {self.rule}"

    @property
    def value_text(self) -> str:
        """The value as a person would write it, shortened; a long one is cut in the middle."""
        return _flow_style.repr(self.value)

    def __str__(self) -> str:
        details = ", ".join(
            [*([self.resource] if self.resource else []), *([f"line {self.line}"] if self.line else [])]
        )
        text = f"{self.source}: {self.message}" if self.source else self.message
        return f"{text} ({details})" if details else text


class Report:
    """The findings on one document, in the order of discovery."""

    __slots__ = ("issues",)

    def __init__(self) -> None:
        self.issues: list[Issue] = []

    def __iter__(self) -> Iterator[Issue]:
        return iter(self.issues)

    def error(self, path: Path, value: object, rule: str, *, origin: str = "istio") -> None:
        """Refuse the resource for that field."""
        self.issues.append(Issue(severity=Severity.ERROR, path=path, value=value, rule=rule, origin=origin))

    def warn(self, path: Path, value: object, rule: str, *, origin: str = "istio") -> None:
        """Accept the field, and say what will surprise."""
        self.issues.append(Issue(severity=Severity.WARNING, path=path, value=value, rule=rule, origin=origin))

    def unknown(self, path: Path, value: object, owner: str, known: Iterable[str]) -> None:
        """Leave out a field that its owner, with those known ones, does not have, as Istio does."""
        self.warn(path, value, f"unknown field of {owner}, ignored{_suggestion(path, known)}")

    @property
    def has_errors(self) -> bool:
        """Whether anything refuses the resource."""
        return any(issue.severity is Severity.ERROR for issue in self.issues)


class StrictReport(Report):
    """The findings on a text of our own format, where an unknown field is refused: it can only be a mistake."""

    __slots__ = ()

    def unknown(self, path: Path, value: object, owner: str, known: Iterable[str]) -> None:
        """Refuse a field that its owner does not have."""
        self.error(path, value, f"unknown field of {owner}{_suggestion(path, known)}")


def _suggestion(path: Path, known: Iterable[str]) -> str:
    """Return a question after the known name that the last one of the path is likeliest to mean, if any is near."""
    lowered = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(str(path[-1]).lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]}?" if close else ""
