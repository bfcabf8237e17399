import pytest
from hypothesis import given

from proxy.config.feed_mode import FeedMode
from proxy.config.issue import Report
from proxy.config.resource import KINDS
from proxy.mcp.bodies import UndecodableError, decode_resource, encode_body, split_name
from proxy.mcp.messages import Envelope, Packed
from proxy.testing.strategies import destination_rules

RULE = KINDS["DestinationRule"]

VIRTUAL_SERVICE = {
    "hosts": ["shop"],
    "gateways": ["mesh"],
    "exportTo": ["."],
    "http": [
        {
            "name": "all",
            "match": [
                {
                    "uri": {"regex": "/a.*"},
                    "headers": {"x": {"exact": "1"}, "present": {}},
                    "queryParams": {"q": {"prefix": "p"}},
                    "ignoreUriCase": True,
                    "sourceLabels": {"app": "web"},
                    "withoutHeaders": {"y": {"exact": "2"}},
                }
            ],
            "route": [
                {
                    "destination": {"host": "shop", "subset": "v1", "port": {"number": 80}},
                    "weight": 90,
                    "headers": {"request": {"set": {"a": "b"}, "add": {"c": "d"}, "remove": ["e"]}},
                },
                {"destination": {"host": "shop", "subset": "v2"}, "weight": 10},
            ],
            "timeout": "1.5s",
            "retries": {"attempts": 3, "perTryTimeout": "2s", "retryOn": "5xx", "retryRemoteLocalities": False},
            "fault": {"delay": {"fixedDelay": "5s", "percentage": {"value": 0.1}}, "abort": {"httpStatus": 503}},
            "mirrors": [{"destination": {"host": "mirror"}, "percentage": {"value": 50}}],
            "corsPolicy": {"allowOrigins": [{"exact": "a"}], "maxAge": "24h", "unmatchedPreflights": "IGNORE"},
            "rewrite": {"uriRegexRewrite": {"match": "a", "rewrite": "b"}},
        },
        {"redirect": {"uri": "/x", "derivePort": "FROM_REQUEST_PORT", "redirectCode": 302}},
        {"directResponse": {"status": 200, "body": {"bytes": "aGVsbG8="}}},
    ],
}
SERVICE_ENTRY = {
    "hosts": ["a.example", "b.example"],
    "location": "MESH_INTERNAL",
    "resolution": "STATIC",
    "ports": [{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}],
    "endpoints": [
        {
            "address": "10.0.0.1",
            "ports": {"http": 8081},
            "labels": {"version": "v1"},
            "locality": "r/z/s",
            "weight": 3,
        },
        {"address": "10.0.0.2"},
    ],
    "exportTo": ["*"],
}


def body_of(kind, fields):
    report = Report()
    body = kind.message.read(fields, (), report)
    assert not report.issues
    return body


def over_the_wire(kind, body):
    envelope = Envelope(name="ns/a", version="1", body=encode_body(kind, body))
    contents = decode_resource(envelope, kind, "peer")
    assert contents.errors == ()
    [resource] = contents.resources.values()
    return resource


@pytest.mark.parametrize(
    ("kind_name", "fields"),
    [
        ("VirtualService", VIRTUAL_SERVICE),
        ("ServiceEntry", SERVICE_ENTRY),
        ("WorkloadEntry", {"address": "10.0.0.1", "network": "n", "serviceAccount": "a", "ports": {"http": 1}}),
    ],
)
def test_a_body_comes_back_as_it_was_sent(kind_name, fields):
    kind = KINDS[kind_name]
    body = body_of(kind, fields)

    assert over_the_wire(kind, body).body == body


@given(destination_rules())
def test_any_rule_comes_back_as_it_was_sent(rule):
    body = body_of(RULE, rule)

    assert over_the_wire(RULE, body).body == body


def test_metadata_comes_through():
    envelope = Envelope(
        name="shop/reviews",
        version="7",
        create_time_ms=1_234_567,
        labels={"a": "b"},
        annotations={"c": "d"},
        body=encode_body(RULE, body_of(RULE, {"host": "reviews"})),
    )

    [resource] = decode_resource(envelope, RULE, "mcp://peer:1").resources.values()

    assert (resource.namespace, resource.name, resource.version) == ("shop", "reviews", "7")
    assert (resource.created_ms, dict(resource.labels), dict(resource.annotations)) == (
        1_234_567,
        {"a": "b"},
        {"c": "d"},
    )
    assert resource.source == "mcp://peer:1"


def test_fields_of_a_newer_source_are_ignored():
    """Field 10 of OutlierDetection came in 2026; 99 does not exist."""
    known = encode_body(RULE, body_of(RULE, {"host": "a"})).value
    unknown = known + b"\x9a\x06\x03new"

    [resource] = decode_resource(
        Envelope(name="ns/a", body=Packed(RULE.type_url, unknown)), RULE, "peer"
    ).resources.values()

    assert resource.body.host == "a"


def test_a_bad_rule_is_named_with_field_value_and_rule():
    body = body_of(RULE, {"host": "a", "trafficPolicy": {"outlierDetection": {"maxEjectionPercent": 150}}})

    contents = decode_resource(Envelope(name="ns/a", body=encode_body(RULE, body)), RULE, "mcp://peer:1")

    assert contents.resources == {}
    assert contents.rejected == {(RULE.collection, "ns", "a")}
    assert str(contents.errors[0]).startswith(
        "mcp://peer:1: body.trafficPolicy.outlierDetection.maxEjectionPercent = 150; "
    )
    assert contents.errors[0].resource == "DestinationRule ns/a"
    assert contents.errors[0].line is None


@pytest.mark.parametrize(
    "body",
    [
        Packed(RULE.type_url, b"\xff"),
        Packed("type.googleapis.com/istio.networking.v1alpha3.ServiceEntry", b""),
        Packed("", b""),
    ],
    ids=["garbage", "another type", "no type"],
)
def test_a_body_of_another_type_cannot_be_decoded(body):
    with pytest.raises(UndecodableError, match="ns/a: body"):
        decode_resource(Envelope(name="ns/a", body=body), RULE, "peer")


@pytest.mark.parametrize(
    ("name", "spec", "pilot"),
    [
        ("ns/a", ("ns", "a"), ("ns", "a")),
        ("a", ("", "a"), ("", "a")),
        ("/a", ("", "a"), ("", "a")),
        ("x/y/z", ("x/y", "z"), ("", "x")),
    ],
)
def test_names_are_split_as_each_side_does(name, spec, pilot):
    assert split_name(name) == spec
    assert split_name(name, FeedMode.PILOT) == pilot
