"""The generated modules are those of the `.proto` files, and the bytes are those that field numbers demand."""

from pathlib import Path

import pytest

from proxy.config.issue import Report
from proxy.config.message import json_name
from proxy.config.resource import KINDS
from proxy.mcp import protos
from proxy.mcp.bodies import encode_body
from proxy.mcp.compile_protos import compile_protos
from proxy.mcp.messages import Envelope, Packed, RequestResources, Resources, Status
from proxy.mcp.protos import destination_rule_pb2, service_entry_pb2, virtual_service_pb2
from proxy.mcp.wire import pack_envelope, request_to_bytes, resources_to_bytes


def body_bytes(kind_name, fields):
    kind = KINDS[kind_name]
    return encode_body(kind, kind.message.read(fields, (), Report())).value


FOLDER = Path(protos.__file__).parent


@pytest.mark.slow
def test_the_generated_modules_are_current(tmp_path):
    pytest.importorskip("grpc_tools")
    compile_protos(tmp_path)
    generated = sorted(tmp_path.rglob("*_pb2.py*"))

    assert generated
    for path in generated:
        assert path.read_text() == (FOLDER / path.name).read_text(), path.name


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # 1 sink_node, empty; 2 collection; 4 response_nonce
        (request_to_bytes(RequestResources(collection="c", response_nonce="1")), b'\n\x00\x12\x01c"\x011'),
        # 5 error_detail {1 code, 2 message}
        (
            request_to_bytes(RequestResources(collection="c", error_detail=Status(3, "m"))),
            b"\n\x00\x12\x01c*\x05\x08\x03\x12\x01m",
        ),
        # 3 initial_resource_versions, a map; 6 incremental
        (
            request_to_bytes(RequestResources(collection="c", incremental=True, initial_resource_versions={"n": "1"})),
            b"\n\x00\x12\x01c\x1a\x06\n\x01n\x12\x0110\x01",
        ),
        # 1 system_version_info, 2 collection, 4 removed_resources, 5 nonce, 6 incremental
        (
            resources_to_bytes(
                Resources(
                    collection="c", nonce="1", system_version_info="v", removed_resources=("r",), incremental=True
                )
            ),
            b'\n\x01v\x12\x01c"\x01r*\x0110\x01',
        ),
        # 1 metadata {1 name, 2 create_time {1 seconds, 2 nanos}, 3 version}, 2 body {1 type_url, 2 value}
        (
            pack_envelope(Envelope(name="n/a", version="1", create_time_ms=1_002, body=Packed("t", b"x"))).value,
            b"\n\x10\n\x03n/a\x12\x06\x08\x01\x10\x80\x89z\x1a\x011\x12\x06\n\x01t\x12\x01x",
        ),
        # DestinationRule 1 host, 2 traffic_policy {3 outlier_detection {7 consecutive_5xx_errors {1 value}}}
        (
            body_bytes(
                "DestinationRule", {"host": "a", "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 5}}}
            ),
            b"\n\x01a\x12\x06\x1a\x04:\x02\x08\x05",
        ),
        # ServiceEntry 1 hosts, 3 ports {1 number, 2 protocol, 3 name}, 5 resolution
        (
            body_bytes(
                "ServiceEntry",
                {
                    "hosts": ["a"],
                    "resolution": "STATIC",
                    "ports": [{"number": 80, "name": "h", "protocol": "HTTP"}],
                },
            ),
            b"\n\x01a\x1a\x0b\x08P\x12\x04HTTP\x1a\x01h(\x01",
        ),
        # VirtualService 1 hosts, 3 http {6 timeout {1 seconds}}: 90s is written as Go does
        (
            body_bytes("VirtualService", {"hosts": ["a"], "http": [{"timeout": "1m30s"}]}),
            b"\n\x01a\x1a\x042\x02\x08Z",
        ),
    ],
)
def test_bytes_are_those_that_the_field_numbers_demand(data, expected):
    assert data == expected


def _names(descriptor) -> set[str]:
    return {field.json_name for field in descriptor.fields}


@pytest.mark.parametrize("name", KINDS)
def test_each_field_that_the_sidecar_reads_is_on_the_wire(name):
    """Walks the message classes beside the descriptors, so that neither side forgets a field."""
    modules = (destination_rule_pb2, service_entry_pb2, virtual_service_pb2)
    descriptor = next(getattr(module, name).DESCRIPTOR for module in modules if hasattr(module, name))

    assert {json_name(field) for field in _attributes(KINDS[name].message)} == _names(descriptor)


def _attributes(cls) -> list[str]:
    return [field.name for field in cls.__attrs_attrs__]
