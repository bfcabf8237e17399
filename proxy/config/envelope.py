"""What stands around the body of a resource, in Kubernetes' shape and in MCP's."""

import datetime as dt
from collections.abc import Collection, Mapping

import attrs

from proxy.config.issue import Path, Report
from proxy.config.message import Message, boolean, mapping, read_string, repeated, string

KUBERNETES_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA_FIELDS = (
    "annotations",
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


@attrs.frozen(kw_only=True)
class _Condition(Message):
    type: str = string()
    status: str = string()


@attrs.frozen(kw_only=True)
class McpMetadata(Message):
    """Metadata in MCP's shape."""

    name: str = string()
    create_time: str = string()
    version: str = string()
    labels: Mapping[str, str] = mapping()
    annotations: Mapping[str, str] = mapping()


def _read_anything(value: object, _path: Path, _report: Report) -> object:
    return value


@attrs.frozen(kw_only=True)
class McpResources(Message):
    """An MCP `Resources` message, its resources still raw."""

    system_version_info: str = string()
    collection: str = string()
    resources: tuple[object, ...] = repeated(_read_anything)
    removed_resources: tuple[str, ...] = repeated(read_string)
    nonce: str = string()
    incremental: bool = boolean()


def report_unknown(value: Mapping[str, object], known: Collection[str], path: Path, owner: str, report: Report) -> None:
    """Report the fields of an object that nobody knows: a misspelled one would be missed in silence."""
    for name in value:
        if name not in known:
            report.unknown((*path, str(name)), value[name], owner, known)


def read_text(metadata: Mapping[str, object], name: str, path: Path, report: Report) -> str:
    """Return a text of an object's, empty when it is not there."""
    value = metadata.get(name)
    return "" if value is None else read_string(value, (*path, name), report)


def read_strings(metadata: Mapping[str, object], name: str, path: Path, report: Report) -> Mapping[str, str]:
    """Return the labels or annotations of metadata; empty when they are not there."""
    value = metadata.get(name)
    return {} if value is None else getattr(McpMetadata.read({name: value}, path, report), name)


def read_conditions(status: object) -> Mapping[str, str]:
    """Return the status conditions by type; those that cannot be read are left out."""
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    if not isinstance(conditions, list):
        return {}
    ignored = Report()  # the status is the server's, not the user's
    read = [_Condition.read(entry, (), ignored) for entry in conditions if isinstance(entry, Mapping)]
    return {condition.type: condition.status for condition in read}


def read_time_ms(value: object, path: Path, report: Report) -> int:
    """Return a point in time in milliseconds since the epoch, 0 for none."""
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
            return int(moment.timestamp() * 1000)
    report.error(path, value, "must be a time such as 2019-03-19T14:00:00Z")
    return 0
