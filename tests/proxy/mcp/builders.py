"""Resources and messages for the tests of this folder."""

from proxy.config.issue import Report
from proxy.config.resource import KINDS, Contents
from proxy.config.store import Store
from proxy.mcp.bodies import UndecodableError, decode_resource, encode_body
from proxy.mcp.messages import Envelope, Packed, Resources

RULE = KINDS["DestinationRule"]
SERVICE = KINDS["ServiceEntry"]
RULES = RULE.collection
SERVICES = SERVICE.collection


def rule(name="ns/a", version="1", *, max_ejection_percent=50, host="a.example"):
    """Return a DestinationRule; more than 100 percent is not valid."""
    spec = {"host": host, "trafficPolicy": {"outlierDetection": {"maxEjectionPercent": max_ejection_percent}}}
    return Envelope(name=name, version=version, body=encode_body(RULE, RULE.message.read(spec, (), Report())))


def garbage(name="ns/a", version="1"):
    """Return a DestinationRule whose body is none."""
    return Envelope(name=name, version=version, body=Packed(RULE.type_url, b"\xff"))


def service(name="ns/s", version="1", *, address="10.0.0.1"):
    """Return a ServiceEntry with one endpoint."""
    spec = {
        "hosts": [name.rpartition("/")[2] + ".example"],
        "resolution": "STATIC",
        "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
        "endpoints": [{"address": address}],
    }
    return Envelope(name=name, version=version, body=encode_body(SERVICE, SERVICE.message.read(spec, (), Report())))


def whole(*resources, nonce="1", collection=RULES):
    return Resources(collection=collection, nonce=nonce, resources=resources)


def delta(*resources, removed=(), nonce="1"):
    return Resources(collection=RULES, nonce=nonce, resources=resources, removed_resources=removed, incremental=True)


class Receiver:
    """A sink with the store that its answers are for; counts what is decoded."""

    def __init__(self, sink, mode):
        self.sink = sink
        self.store = Store()
        self.decoded = 0
        self._mode = mode

    def receive(self, message):
        """Return the request that answers a response."""
        outcomes, bad = {}, None
        for envelope in self.sink.fresh(message):
            self.decoded += 1
            try:
                outcomes[envelope.name] = decode_resource(envelope, RULE, "peer", self._mode)
            except UndecodableError as exc:
                bad = bad or exc
        answer = self.sink.receive(message, bad or outcomes)
        self.put(answer.changes)
        return answer.request

    def put(self, changes):
        for name in changes.removed:
            self.store.remove("peer", name)
        for name, contents in changes.parts.items():
            assert isinstance(contents, Contents)
            self.store.put("peer", name, contents)

    def versions(self):
        return {resource.full_name: resource.version for resource in self.store.resources.values()}

    def errors(self):
        return [issue.resource for issue in self.store.issues("peer")]
