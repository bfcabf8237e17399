# ruff: noqa: RUF009 - the field functions return attrs.field()
"""The ServiceEntry and WorkloadEntry messages, whole."""

import enum
from collections.abc import Mapping

import attrs

from proxy.config.message import (
    Message,
    enumeration,
    mapping,
    message,
    read_string,
    read_uint32,
    repeated,
    string,
    uint32,
)


class Resolution(enum.Enum):
    """How the endpoints of a service are found."""

    NONE = 0
    STATIC = 1
    DNS = 2
    DNS_ROUND_ROBIN = 3
    DYNAMIC_DNS = 4


class Location(enum.Enum):
    """Whether the service is part of the mesh; without effect as long as there is no mutual TLS."""

    MESH_EXTERNAL = 0
    MESH_INTERNAL = 1


@attrs.frozen(kw_only=True)
class ServicePort(Message):
    """A port that clients use; `target_port` is where endpoints listen, 0 for the same number."""

    number: int = uint32()
    protocol: str = string()
    name: str = string()
    target_port: int = uint32()


@attrs.frozen(kw_only=True)
class WorkloadEntry(Message):
    """One endpoint; `ports` maps names of service ports to its own numbers."""

    address: str = string()
    ports: Mapping[str, int] = mapping(read_uint32)
    labels: Mapping[str, str] = mapping()
    network: str = string()
    locality: str = string()
    weight: int = uint32()
    service_account: str = string()


@attrs.frozen(kw_only=True)
class WorkloadSelector(Message):
    """The WorkloadEntries of the same namespace that belong to the service."""

    labels: Mapping[str, str] = mapping()


@attrs.frozen(kw_only=True)
class ServiceEntry(Message):
    """A service by its hosts."""

    hosts: tuple[str, ...] = repeated(read_string)
    addresses: tuple[str, ...] = repeated(read_string)
    ports: tuple[ServicePort | None, ...] = repeated(ServicePort)
    location: Location = enumeration(Location, Location.MESH_EXTERNAL)
    resolution: Resolution = enumeration(Resolution, Resolution.NONE)
    endpoints: tuple[WorkloadEntry | None, ...] = repeated(WorkloadEntry)
    export_to: tuple[str, ...] = repeated(read_string)
    subject_alt_names: tuple[str, ...] = repeated(read_string)
    workload_selector: WorkloadSelector | None = message(WorkloadSelector)
