"""A configuration that is looked at once, as `outlier check`, `explain` and `envoy` do.

Unlike a start of the sidecar, it takes the good resources of a set that has bad ones, so that everything can be said
at once.
"""

from collections.abc import Iterator, Mapping

import attrs

from proxy.config.document import Document, DocumentError, locate, read_documents, repeated_keys, value_at
from proxy.config.issue import ABSENT, Issue, Path, Severity
from proxy.config.resource import Contents, Key, Resource, read_resources
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.config.store import Store


@attrs.define
class StaticConfig:
    """What a set of texts comes to.

    `texts` are the sources by name; `contents` what was read from each. `builder` holds the snapshot of the good
    resources.
    """

    texts: Mapping[str, str]
    contents: Mapping[str, Contents]
    builder: SnapshotBuilder
    resources: Mapping[Key, Resource]
    _documents: dict[str, dict[int, Document]] = attrs.field(factory=dict, init=False)

    @property
    def issues(self) -> list[Issue]:
        """Every finding of reading and validating, by source."""
        found = [issue for contents in self.contents.values() for issue in contents.issues]
        return found + list(self._repeated())

    def _repeated(self) -> Iterator[Issue]:
        """Yield the resources that another text defines again."""
        seen: dict[Key, Resource] = {}
        for contents in self.contents.values():
            for key, resource in contents.resources.items():
                if key in seen:
                    yield self.issue(seen[key], (), f"is defined again in {resource.source}, which counts")
                seen[key] = resource

    def written(self, resource: Resource, path: Path) -> object:
        """Return what the resource's text has at a path of its body; `ABSENT` when the field is not there."""
        document = self._document(resource)
        return ABSENT if document is None else value_at(document, (*resource.body_path, *path))

    def line(self, resource: Resource) -> int | None:
        """Return where the resource itself stands; it may be one of many in its document."""
        document = self._document(resource)
        return resource.line if document is None else locate(document, resource.body_path[:-1])

    def repeated_keys(self, resource: Resource) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """Yield the path in its body of each key that the resource's text has more than once, and its lines."""
        document = self._document(resource)
        if document is not None:
            for path, lines in repeated_keys(document, resource.body_path):
                yield path[len(resource.body_path) :], lines

    def issue(self, resource: Resource, path: Path, rule: str, severity: Severity = Severity.WARNING) -> Issue:
        """Return a finding of our own on a field of a resource, with its place and its value as written."""
        document = self._document(resource)
        where = (*resource.body_path, *path)
        return Issue(
            severity=severity,
            path=where,
            value=self.written(resource, path),
            rule=rule,
            source=resource.source,
            line=resource.line if document is None else locate(document, where),
            resource=str(resource),
            origin="outlier",
        )

    def _document(self, resource: Resource) -> Document | None:
        documents = self._documents.get(resource.source)
        if documents is None:
            try:
                read = read_documents(self.texts.get(resource.source, ""))
            except DocumentError:
                read = []
            documents = self._documents[resource.source] = {document.index: document for document in read}
        return documents.get(resource.document)


def static_config(texts: Mapping[str, str], context: ConversionContext) -> StaticConfig:
    """Return what texts come to for one sidecar.

    Args:
        texts: Sources by name, in their order of precedence.
        context: The sidecar, the mesh, the release.
    """
    contents = {source: read_resources(text, source) for source, text in texts.items()}
    store = Store()
    for source, read in contents.items():
        store.put("static", source, read)
    builder = SnapshotBuilder(context)
    builder.update([(None, resource) for resource in store.resources.values()])
    return StaticConfig(texts=texts, contents=contents, builder=builder, resources=store.resources)
