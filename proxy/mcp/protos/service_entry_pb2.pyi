from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServiceEntry(_message.Message):
    __slots__ = ("hosts", "addresses", "ports", "location", "resolution", "endpoints", "export_to", "subject_alt_names", "workload_selector")
    class Location(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MESH_EXTERNAL: _ClassVar[ServiceEntry.Location]
        MESH_INTERNAL: _ClassVar[ServiceEntry.Location]
    MESH_EXTERNAL: ServiceEntry.Location
    MESH_INTERNAL: ServiceEntry.Location
    class Resolution(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[ServiceEntry.Resolution]
        STATIC: _ClassVar[ServiceEntry.Resolution]
        DNS: _ClassVar[ServiceEntry.Resolution]
        DNS_ROUND_ROBIN: _ClassVar[ServiceEntry.Resolution]
        DYNAMIC_DNS: _ClassVar[ServiceEntry.Resolution]
    NONE: ServiceEntry.Resolution
    STATIC: ServiceEntry.Resolution
    DNS: ServiceEntry.Resolution
    DNS_ROUND_ROBIN: ServiceEntry.Resolution
    DYNAMIC_DNS: ServiceEntry.Resolution
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    EXPORT_TO_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ALT_NAMES_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    ports: _containers.RepeatedCompositeFieldContainer[ServicePort]
    location: ServiceEntry.Location
    resolution: ServiceEntry.Resolution
    endpoints: _containers.RepeatedCompositeFieldContainer[WorkloadEntry]
    export_to: _containers.RepeatedScalarFieldContainer[str]
    subject_alt_names: _containers.RepeatedScalarFieldContainer[str]
    workload_selector: WorkloadSelector
    def __init__(self, hosts: _Optional[_Iterable[str]] = ..., addresses: _Optional[_Iterable[str]] = ..., ports: _Optional[_Iterable[_Union[ServicePort, _Mapping]]] = ..., location: _Optional[_Union[ServiceEntry.Location, str]] = ..., resolution: _Optional[_Union[ServiceEntry.Resolution, str]] = ..., endpoints: _Optional[_Iterable[_Union[WorkloadEntry, _Mapping]]] = ..., export_to: _Optional[_Iterable[str]] = ..., subject_alt_names: _Optional[_Iterable[str]] = ..., workload_selector: _Optional[_Union[WorkloadSelector, _Mapping]] = ...) -> None: ...

class ServicePort(_message.Message):
    __slots__ = ("number", "protocol", "name", "target_port")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_PORT_FIELD_NUMBER: _ClassVar[int]
    number: int
    protocol: str
    name: str
    target_port: int
    def __init__(self, number: _Optional[int] = ..., protocol: _Optional[str] = ..., name: _Optional[str] = ..., target_port: _Optional[int] = ...) -> None: ...

class WorkloadEntry(_message.Message):
    __slots__ = ("address", "ports", "labels", "network", "locality", "weight", "service_account")
    class PortsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    LOCALITY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    address: str
    ports: _containers.ScalarMap[str, int]
    labels: _containers.ScalarMap[str, str]
    network: str
    locality: str
    weight: int
    service_account: str
    def __init__(self, address: _Optional[str] = ..., ports: _Optional[_Mapping[str, int]] = ..., labels: _Optional[_Mapping[str, str]] = ..., network: _Optional[str] = ..., locality: _Optional[str] = ..., weight: _Optional[int] = ..., service_account: _Optional[str] = ...) -> None: ...

class WorkloadSelector(_message.Message):
    __slots__ = ("labels",)
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ...) -> None: ...
