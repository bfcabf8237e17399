"""Certificates made for one run of the tests: an authority, whom it vouches for, and files of them."""

import ssl
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import attrs
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization


@cache
def authority(name: str) -> trustme.CA:
    """Return the authority of that name; the same one each time, since making one takes a while."""
    return trustme.CA(organization_name=name)


def issued(*names: str, by: str = "ours") -> trustme.LeafCert:
    """Return the certificate for these names; the same one each time."""
    return _issued(names, by)


@cache
def _issued(names: tuple[str, ...], by: str) -> trustme.LeafCert:
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


def write_crl(folder: Path, *revoked: trustme.LeafCert, by: str = "ours") -> Path:
    """Write what an authority has revoked and return the file."""
    ca = authority(by)
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    key = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(datetime(2000, 1, 1, tzinfo=UTC))
        .next_update(datetime(3000, 1, 1, tzinfo=UTC))
    )
    for leaf in revoked:
        serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial)
        builder = builder.add_revoked_certificate(entry.revocation_date(datetime(2000, 1, 1, tzinfo=UTC)).build())
    path = folder / f"{by}.crl"
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path
