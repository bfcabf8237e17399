"""Which namespaces see a resource.

`exportTo` holds `.` (the own namespace), `*` (all), `~` (none) or namespaces; an empty list means the mesh's default.
"""

from collections.abc import Collection

PRIVATE = "."
PUBLIC = "*"
NONE = "~"


def exported_to(export_to: Collection[str], owner: str, namespace: str, default: str = PUBLIC) -> bool:
    """Whether a resource of namespace `owner` is visible in `namespace`.

    Args:
        export_to: The resource's list.
        owner: Its namespace.
        namespace: Who looks.
        default: The mesh's default for an empty list, `*` or `.`.
    """
    targets = export_to or (default,)
    if NONE in targets:
        return False
    return PUBLIC in targets or namespace in targets or (PRIVATE in targets and owner == namespace)
