"""Certificates made for one run of the tests: an authority, whom it vouches for, and files of them."""

import ssl
from functools import cache
from pathlib import Path

import attrs
import trustme


@cache
def authority(name: str) -> trustme.CA:
    """Return the authority of that name; the same one each time, since making one takes a while."""
    return trustme.CA(organization_name=name)


@cache
def issued(*names: str, by: str = "ours") -> trustme.LeafCert:
    """Return a certificate for these names."""
    return authority(by).issue_cert(*names)


@attrs.frozen
class KeyPair:
    """A certificate and its key in files."""

    certificate: Path
    key: Path


def write_ca(folder: Path, name: str = "ours") -> Path:
    """Write an authority's certificate and return its file."""
    path = folder / f"{name}.pem"
    authority(name).cert_pem.write_to_path(path)
    return path


def write_pair(folder: Path, *names: str, by: str = "ours", stem: str = "pair") -> KeyPair:
    """Write a certificate for these names and its key."""
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    leaf = issued(*names, by=by)
    certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(key)
    return KeyPair(certificate, key)


def server_context(*names: str, by: str = "ours", client_ca: str = "") -> ssl.SSLContext:
    """Return the context of a server with a certificate for these names; `client_ca` makes it ask for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued(*names, by=by).configure_cert(context)
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        authority(client_ca).configure_trust(context)
    return context


def client_context(*names: str, ca: str = "ours") -> ssl.SSLContext:
    """Return the context of a client that trusts an authority, and has a certificate if names are given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority(ca).configure_trust(context)
    if names:
        issued(*names).configure_cert(context)
    return context
