"""Where the values of one cluster come from, worked out from the same plan that built it."""

from proxy.config.destination_rule import TrafficPolicy
from proxy.config.explain_setting import Origin, OriginKind
from proxy.config.issue import ABSENT, Path, format_path
from proxy.config.message import json_name
from proxy.config.resource import Resource
from proxy.config.service_clusters import ClusterPlan
from proxy.config.static_config import StaticConfig
from proxy.config.traffic_policy import MESH_DEFAULT

_EMPTY_POLICY = TrafficPolicy()


class Origins:
    """The origins of the settings of one cluster; `policy` is the one in force, empty when there is none."""

    def __init__(self, config: StaticConfig, plan: ClusterPlan) -> None:
        self.mesh = config.builder.context.mesh
        self.policy = plan.policy.policy if plan.policy is not None else _EMPTY_POLICY
        self._config = config
        self._plan = plan
        self._paths = plan.policy.origins if plan.policy is not None else {}

    def field(self, block: str, *names: str, text: str = "") -> Origin:
        """Return the origin of a field of a block of the policy in force, which must have the block.

        Args:
            block: Attribute of `TrafficPolicy`.
            names: Attributes that lead to the field; none is the block itself.
            text: What there is to say after the path.
        """
        path = self._paths[block]
        resource = self._owner(path)
        where = (*path, json_name(block), *(json_name(name) for name in names))
        said = f"{format_path(where)}{text}"
        if resource is None:
            return self.of_mesh(said)
        return self._in_resource(resource, where, said)

    def of_mesh(self, text: str) -> Origin:
        """Return the origin of what a field of the mesh's configuration decides."""
        return Origin(kind=OriginKind.MESH, text=text)

    def of_service(self, *path: str | int, text: str) -> Origin:
        """Return the origin of what a field of the service decides."""
        return self._in_resource(self._plan.service.resources[0], path, text)

    def is_written_zero(self, block: str, name: str) -> bool:
        """Whether a rule's text has 0 in a field of a block, which reading alone cannot tell from an absent one."""
        path = self._paths[block]
        resource = self._owner(path)
        if resource is None:
            return False
        written = self._config.written(resource, (*path, json_name(block), json_name(name)))
        return written is not ABSENT and written == 0

    def _owner(self, path: Path) -> Resource | None:
        if path == MESH_DEFAULT or self._plan.rule is None:
            return None
        if path[0] == "subsets" and self._plan.subset is not None:
            return self._plan.subset.resource
        return self._plan.rule.policy_from

    def _in_resource(self, resource: Resource, path: Path, text: str) -> Origin:
        return Origin(
            kind=OriginKind.RULE,
            text=text,
            resource=str(resource),
            field=format_path(path),
            file=resource.source,
            line=self._config.issue(resource, path, "").line,
        )
