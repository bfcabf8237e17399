"""Text to plain values, and a path back to its line.

One file may hold several YAML documents, or JSON texts one after another. Only JSON's types are read: dates stay
strings, and YAML tags beyond the core ones are refused. Lines are looked up by parsing the text again, because only a
finding needs one.
"""

import itertools
import json
from collections.abc import Iterator

import attrs
import yaml

from proxy.config.issue import ABSENT, Path
from proxy.config.message import json_name


class DocumentError(ValueError):
    """Raised when a text is neither YAML nor JSON.

    Attributes:
        line: Where, 1-based; None when unknown.
        reason: The parser's words.
    """

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@attrs.define(kw_only=True)
class Document:
    """One document of a text: its value, its number among the text's documents, and its first line (1-based).

    `text` is the document alone.
    """

    value: object
    index: int
    line: int
    text: str = attrs.field(repr=False)
    _root: yaml.Node | None = attrs.field(default=None, init=False, repr=False)

    def root(self) -> yaml.Node | None:
        """Return the document as a tree with positions, parsed at the first call; None when YAML cannot parse it."""
        if self._root is None:
            # A tab may indent JSON, not YAML; lines stay what they are.
            loader = _Loader(self.text.replace("\t", " "))
            try:
                self._root = loader.get_node() if loader.check_node() else None
            except _LOADER_FAULTS:
                return None
            finally:
                loader.dispose()
        return self._root


class _Loader(yaml.CSafeLoader):
    """The C loader with JSON's types only."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._plain: dict[str, str] = {}

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return a node's tag; plain scalars repeat a lot, so each is matched against the patterns once."""
        plain = kind is yaml.ScalarNode and implicit[0]
        tag = self._plain.get(value) if plain else None
        if tag is None:
            tag = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
            if plain:
                self._plain[value] = tag
        return tag


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_CORE_TAGS = {None, *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))}
_Loader.yaml_constructors = {
    tag: constructor for tag, constructor in yaml.CSafeLoader.yaml_constructors.items() if tag in _CORE_TAGS
}

# PyYAML leaks these from its constructors for scalars that its own patterns let through (`0b_`), deep nesting and lone
# surrogates.
_LOADER_FAULTS = (yaml.YAMLError, ValueError, TypeError, RecursionError)


def read_documents(text: str) -> list[Document]:
    """Return the documents of a YAML or JSON text; empty ones are left out.

    Raises:
        DocumentError: The text cannot be parsed; then none of its documents is returned.
    """
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return list(_read_json(text))
        except (ValueError, RecursionError):
            pass  # YAML's flow style starts alike, and its parser knows the line of a fault
    try:
        return list(_read_yaml(text))
    except _LOADER_FAULTS as exc:
        mark = getattr(exc, "problem_mark", None)
        reason = getattr(exc, "problem", None) or str(exc) or type(exc).__name__
        raise DocumentError(mark.line + 1 if mark else None, " ".join(reason.split())) from exc


def _read_json(text: str) -> Iterator[Document]:
    decoder = json.JSONDecoder()
    position, line, counted = _next_token(text, 0), 1, 0
    for index in itertools.count():
        if position == len(text):
            return
        value, end = decoder.raw_decode(text, position)
        line += text.count("\n", counted, position)
        counted = position
        yield Document(value=value, index=index, line=line, text=text[position:end])
        position = _next_token(text, end)


def _next_token(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _read_yaml(text: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        index = 0
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            start, end = node.start_mark, node.end_mark
            value = loader.construct_document(node)
            if value is not None:
                # The first line keeps its indentation, or the lines below would seem to be nested.
                body = " " * start.column + text[start.index : end.index]
                yield Document(value=value, index=index, line=start.line + 1, text=body)
            index += 1
    finally:
        loader.dispose()


def value_at(document: Document, path: Path) -> object:
    """Return the value that the document itself has at `path`; `ABSENT` when there is none."""
    value = document.value
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = next((value[key] for key in reversed(value) if step in {key, json_name(str(key))}), ABSENT)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return ABSENT
    return value


def locate(document: Document, path: Path) -> int:
    """Return the line (1-based) of the field at `path`, or of the nearest enclosing one that is there."""
    line = document.line
    node = document.root()
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        key, node = found
        line = document.line + key.start_mark.line
    return line


def repeated_keys(document: Document, path: Path) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Yield the path of each key below `path` that stands more than once in its mapping, and its lines (1-based).

    Of such keys the last one counts. Both spellings of a proto name are the same key.
    """
    node = document.root()
    for step in path:
        found = _child(node, step)
        node = found[1] if found is not None else None
    seen: set[int] = set()  # anchors let one node stand in several places, also below itself
    waiting: list[tuple[Path, yaml.Node | None]] = [(path, node)]
    while waiting:
        where, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [((*where, index), member) for index, member in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, list[int]] = {}
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    waiting.append(((*where, key.value), value))
                    lines.setdefault(json_name(key.value), []).append(document.line + key.start_mark.line)
            yield from (((*where, name), tuple(found)) for name, found in lines.items() if len(found) > 1)


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    if isinstance(node, yaml.MappingNode) and isinstance(step, str):
        for key, value in reversed(node.value):  # of a key that stands twice the last one counts
            if isinstance(key, yaml.ScalarNode) and step in {key.value, json_name(key.value)}:
                return key, value
    return None
