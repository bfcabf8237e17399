"""A request under way, as header formats see it."""

from types import SimpleNamespace

from proxy.codec.http1_request import RequestHead


def stream(head: RequestHead, **facts: object) -> SimpleNamespace:
    """Return a `StreamInfo`; `facts` replace the defaults of a request that has gone nowhere yet."""
    return SimpleNamespace(
        **{
            "head": head,
            "encoder": SimpleNamespace(remote_address="10.0.0.1:4711", local_address="127.0.0.1:80"),
            "cluster": None,
            "host": None,
            "attempts": 0,
            "flags": (),
            "details": "",
            **facts,
        }
    )
