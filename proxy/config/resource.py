"""The one envelope in which every source delivers configuration: MCP's `Resource`, with a typed body.

Files bring it in Kubernetes' shape (apiVersion, kind, metadata, spec) or in MCP's (a `Resources` message, or one bare
`Resource`); the shapes are told apart by content, document by document. Whatever cannot be used is reported and left
out; nothing is raised for it.
"""

from collections.abc import Callable, Mapping

import attrs

from proxy.config.destination_rule import DestinationRule
from proxy.config.document import Document, DocumentError, locate, read_documents, value_at
from proxy.config.envelope import (
    KUBERNETES_FIELDS,
    METADATA_FIELDS,
    McpMetadata,
    McpResources,
    read_conditions,
    read_strings,
    read_text,
    read_time_ms,
    report_unknown,
)
from proxy.config.issue import ABSENT, AS_WRITTEN, Issue, Path, Report, Severity
from proxy.config.message import Message
from proxy.config.service_entry import ServiceEntry, WorkloadEntry
from proxy.config.validate_destination_rule import check_destination_rule
from proxy.config.validate_service_entry import check_service_entry, check_workload_entry
from proxy.config.validate_virtual_service import check_virtual_service
from proxy.config.virtual_service import VirtualService

Body = DestinationRule | ServiceEntry | VirtualService | WorkloadEntry
Key = tuple[str, str, str]

_GROUP = "networking.istio.io"
_API_VERSIONS = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha3"))
_TYPE_URL = "type.googleapis.com/istio.networking.v1alpha3."
_COLLECTION = "istio/networking/v1alpha3/"


@attrs.frozen
class Kind:
    """One kind of resource that the sidecar uses."""

    name: str
    collection: str
    message: type[Message]
    check: Callable[..., None]

    @property
    def type_url(self) -> str:
        """The `@type` of a body in MCP's shape."""
        return _TYPE_URL + self.name


_KINDS = (
    Kind("DestinationRule", _COLLECTION + "destinationrules", DestinationRule, check_destination_rule),
    Kind("ServiceEntry", _COLLECTION + "serviceentries", ServiceEntry, check_service_entry),
    Kind("VirtualService", _COLLECTION + "virtualservices", VirtualService, check_virtual_service),
    Kind("WorkloadEntry", _COLLECTION + "workloadentries", WorkloadEntry, check_workload_entry),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
KINDS_BY_COLLECTION: Mapping[str, Kind] = {kind.collection: kind for kind in _KINDS}


@attrs.frozen(kw_only=True)
class Resource:
    """One named piece of configuration.

    `created_ms` is the creation time since the epoch, 0 when unknown: it decides between rules for one host. `version`
    is opaque. `conditions` are a WorkloadEntry's status conditions by type. `source`, `line`, the number of the
    `document` in that text and the path to the body inside it say where the resource was read; they are left out of
    comparisons, so one that only moved inside its file is unchanged.
    """

    kind: Kind
    namespace: str
    name: str
    body: Body
    version: str = ""
    created_ms: int = 0
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    conditions: Mapping[str, str] = attrs.field(factory=dict)
    source: str = attrs.field(default="", eq=False)
    line: int | None = attrs.field(default=None, eq=False)
    document: int = attrs.field(default=0, eq=False)
    body_path: Path = attrs.field(default=(), eq=False)

    @property
    def key(self) -> Key:
        """What identifies the resource: collection, namespace, name."""
        return self.kind.collection, self.namespace, self.name

    @property
    def full_name(self) -> str:
        """MCP's metadata name."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind.name} {self.full_name}"


Change = tuple[Resource | None, Resource | None]
"""The old and the new resource of one key; None where there was, or is, none."""


@attrs.frozen(kw_only=True)
class Contents:
    """What one text brings.

    `resources` are valid, by key, in the order of the text. `removed` are keys that an incremental MCP message takes
    away. `rejected` are keys of resources with errors: their last good version stays in force. `issues` hold every
    error and warning. `readable` is false when the text could not be parsed at all; then everything it brought before
    stays.
    """

    resources: Mapping[Key, Resource] = attrs.field(factory=dict)
    removed: frozenset[Key] = frozenset()
    rejected: frozenset[Key] = frozenset()
    issues: tuple[Issue, ...] = ()
    readable: bool = True

    @property
    def errors(self) -> tuple[Issue, ...]:
        """The issues that refuse something."""
        return tuple(issue for issue in self.issues if issue.severity is Severity.ERROR)


def read_resources(text: str, source: str) -> Contents:
    """Return the resources of one text, and what is wrong with it.

    Args:
        text: YAML or JSON, any number of documents.
        source: Where it comes from, for messages: a path, or the name of a peer.
    """
    try:
        documents = read_documents(text)
    except DocumentError as exc:
        issue = Issue(
            severity=Severity.ERROR,
            path=(),
            value=ABSENT,
            rule=f"cannot be parsed: {exc.reason}",
            source=source,
            line=exc.line,
        )
        return Contents(issues=(issue,), readable=False)
    reader = _Reader(source)
    for document in documents:
        reader.read(document)
    return reader.contents()


class _Reader:
    """Gathers the resources of the documents of one text."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._resources: dict[Key, Resource] = {}
        self._removed: set[Key] = set()
        self._rejected: set[Key] = set()
        self._issues: list[Issue] = []

    def contents(self) -> Contents:
        return Contents(
            resources=self._resources,
            removed=frozenset(self._removed),
            rejected=frozenset(self._rejected),
            issues=tuple(self._issues),
        )

    def read(self, document: Document) -> None:
        value = document.value
        report = Report()
        if not isinstance(value, Mapping):
            rule = (
                f"a document must be a Kubernetes resource, or an MCP Resources or Resource, not {type(value).__name__}"
            )
            report.error((), value, rule)
        elif "kind" in value or "apiVersion" in value:
            self._kubernetes(value, (), document)
        elif "resources" in value or "collection" in value or "removedResources" in value:
            self._mcp_resources(value, document)
        elif "body" in value:
            self._mcp_resource(value, (), document)
        else:
            report.error(
                (), value, "is neither a Kubernetes resource (apiVersion, kind) nor an MCP one (metadata, body)"
            )
        self._publish(report, document)

    def _kubernetes(self, value: Mapping[str, object], path: Path, document: Document) -> None:
        report = Report()
        kind_name = value.get("kind")
        items = value.get("items")
        if isinstance(kind_name, str) and kind_name.endswith("List") and isinstance(items, list):
            for index, item in enumerate(items):
                if isinstance(item, Mapping):
                    self._kubernetes(item, (*path, "items", index), document)
                else:
                    report.error((*path, "items", index), item, "must be an object")
            self._publish(report, document)
            return
        kind = KINDS.get(kind_name) if isinstance(kind_name, str) else None
        if kind is None:
            rule = f"is not used by the sidecar, ignored; it reads {', '.join(KINDS)}"
            report.warn((*path, "kind"), kind_name, rule, origin="outlier")
            self._publish(report, document)
            return
        if value.get("apiVersion") not in _API_VERSIONS:
            report.error(
                (*path, "apiVersion"), value.get("apiVersion", ABSENT), f"must be {' or '.join(_API_VERSIONS)}"
            )
        report_unknown(value, KUBERNETES_FIELDS, path, "a Kubernetes resource", report)
        metadata = value.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        where = (*path, "metadata")
        report_unknown(metadata, METADATA_FIELDS, where, "metadata", report)
        name = metadata.get("name", ABSENT)
        if not isinstance(name, str) or not name:
            report.error((*where, "name"), name, "must be a non-empty string")
            name = ""
        spec = value.get("spec")
        resource = Resource(
            kind=kind,
            namespace=read_text(metadata, "namespace", where, report) or "default",
            name=name,
            version=read_text(metadata, "resourceVersion", where, report),
            created_ms=read_time_ms(metadata.get("creationTimestamp"), (*where, "creationTimestamp"), report),
            labels=read_strings(metadata, "labels", where, report),
            annotations=read_strings(metadata, "annotations", where, report),
            conditions=read_conditions(value.get("status")),
            body=kind.message.read({} if spec is None else spec, (*path, "spec"), report),  # type: ignore[arg-type]
            source=self._source,
            line=document.line,
            document=document.index,
            body_path=(*path, "spec"),
        )
        self._add(resource, (*path, "spec"), report, document)

    def _mcp_resources(self, value: Mapping[str, object], document: Document) -> None:
        report = Report()
        message = McpResources.read(value, (), report)
        kind = KINDS_BY_COLLECTION.get(message.collection)
        if not message.incremental:
            # Full state: what earlier documents of this text put into the collection is gone.
            for key in [key for key in self._resources if key[0] == message.collection]:
                del self._resources[key]
        elif kind is not None:
            for full_name in message.removed_resources:
                namespace, _, name = full_name.rpartition("/")
                key = (kind.collection, namespace, name)
                self._resources.pop(key, None)
                self._removed.add(key)
        if message.collection and kind is None:
            rule = f"is not used by the sidecar, ignored; it reads {', '.join(KINDS_BY_COLLECTION)}"
            report.warn(("collection",), message.collection, rule, origin="outlier")
        self._publish(report, document)
        if message.collection and kind is None:
            return
        for index, entry in enumerate(message.resources):
            self._mcp_resource(entry, ("resources", index), document, kind)

    def _mcp_resource(self, value: object, path: Path, document: Document, expected: Kind | None = None) -> None:
        report = Report()
        if not isinstance(value, Mapping):
            report.error(path, value, "must be an object with metadata and body")
            self._publish(report, document)
            return
        report_unknown(value, ("metadata", "body"), path, "Resource", report)
        metadata = McpMetadata.read(value.get("metadata") or {}, (*path, "metadata"), report)
        namespace, _, name = metadata.name.rpartition("/")
        if not name:
            report.error((*path, "metadata", "name"), metadata.name or ABSENT, "must be namespace/name")
        body = value.get("body")
        body_path = (*path, "body")
        fields = {key: member for key, member in body.items() if key != "@type"} if isinstance(body, Mapping) else None
        type_url = body.get("@type", ABSENT) if isinstance(body, Mapping) else ABSENT
        kind = KINDS.get(str(type_url).removeprefix(_TYPE_URL)) if str(type_url).startswith(_TYPE_URL) else None
        if fields is None or kind is None or (expected is not None and kind is not expected):
            wanted = expected.type_url if expected else f"{_TYPE_URL}<one of {', '.join(KINDS)}>"
            report.error((*body_path, "@type"), type_url, f"must be {wanted}")
            self._publish(report, document)
            return
        resource = Resource(
            kind=kind,
            namespace=namespace,
            name=name,
            version=metadata.version,
            created_ms=read_time_ms(metadata.create_time or None, (*path, "metadata", "createTime"), report),
            labels=metadata.labels,
            annotations=metadata.annotations,
            body=kind.message.read(fields, body_path, report),  # type: ignore[arg-type]
            source=self._source,
            line=document.line,
            document=document.index,
            body_path=body_path,
        )
        self._add(resource, body_path, report, document, mcp=True)

    def _add(
        self, resource: Resource, body_path: Path, report: Report, document: Document, *, mcp: bool = False
    ) -> None:
        checked = Report()
        resource.kind.check(resource.body, resource.namespace, body_path, checked)
        # A field that could not be read is left unset, which the validator may mind: that would say the same twice.
        unread = [issue.path for issue in report if issue.severity is Severity.ERROR]
        report.issues.extend(issue for issue in checked if not any(_nested(issue.path, path) for path in unread))
        if mcp:
            # The CRD's schema guards the Kubernetes API only; over MCP istiod's own checks are all there is.
            report.issues = [
                attrs.evolve(issue, severity=Severity.WARNING) if issue.origin == "crd" else issue
                for issue in report.issues
            ]
        if report.has_errors:
            self._rejected.add(resource.key)
        else:
            if resource.key in self._resources:
                report.warn(body_path[:-1], str(resource), "is defined again; the later one counts", origin="outlier")
            self._removed.discard(resource.key)
            self._resources[resource.key] = resource
        self._publish(report, document, str(resource))

    def _publish(self, report: Report, document: Document, resource: str = "") -> None:
        for issue in report:
            value = value_at(document, issue.path) if issue.value is AS_WRITTEN else issue.value
            line = locate(document, issue.path)
            self._issues.append(attrs.evolve(issue, value=value, source=self._source, resource=resource, line=line))


def _nested(one: Path, other: Path) -> bool:
    """Whether one path leads to, or through, the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
