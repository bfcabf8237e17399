"""One effective setting of a cluster, and who decided it."""

import enum

import attrs

from proxy.config.durations import NS_PER_MS, format_duration


class OriginKind(enum.Enum):
    """Who decided a value."""

    RULE = "rule"
    MESH = "mesh"
    ISTIO = "istio"
    ENVOY = "envoy"


@attrs.frozen(kw_only=True)
class Origin:
    """Where a value comes from: a field of a resource, the mesh's settings, Istio's conversion, or Envoy's default.

    `text` says it in words. For a rule, `field` is the path in its body, `file` and `line` its place.
    """

    kind: OriginKind
    text: str
    resource: str = ""
    field: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.text}{place}"


ENVOY_DEFAULT = Origin(kind=OriginKind.ENVOY, text="Envoy's default")
ISTIO_DEFAULT = Origin(kind=OriginKind.ISTIO, text="Istio's default")


@attrs.frozen(kw_only=True)
class Setting:
    """One effective value under Envoy's name: text, number, boolean, or a list of such.

    `inert` is whether it can make no difference here; `applied` is false for what the sidecar does not do.
    """

    name: str
    value: object
    origin: Origin
    inert: bool = False
    applied: bool = True

    @property
    def value_text(self) -> str:
        """The value as in Envoy's JSON; durations with a unit."""
        if self.name.endswith("_ms") and isinstance(self.value, int):
            return format_duration(self.value * NS_PER_MS)
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, float):
            return f"{self.value:g}"
        return str(self.value)

    @property
    def envoy_name(self) -> str:
        """The name without our unit."""
        return self.name.removesuffix("_ms")
