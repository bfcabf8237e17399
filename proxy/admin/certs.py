"""The certificates in use, as `/certs` shows them: authorities and own ones, by context.

Ports `CertsHandler` (Envoy, source/server/admin/certs_handler.cc) and `ContextImpl::certificateDetails`.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.streaming import stream_json
from proxy.upstream.tls import CertificateFile

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_DAY_S = 86_400


async def handle_certs(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/certs`."""
    now = datetime.fromtimestamp(context.time_source.system_ms() / 1000, UTC)
    entries = [
        {"ca_cert": certificate_details(loaded.ca, now), "cert_chain": certificate_details(loaded.chain, now)}
        for loaded in context.certificates()
    ]
    return await stream_json(request, {"certificates": entries} if entries else {})


def certificate_details(file: CertificateFile | None, now: datetime) -> list[dict[str, Any]]:
    """Return the certificates of a file as Envoy's `admin.v3.CertificateDetails`; none for no file."""
    if file is None:
        return []
    # Here, since it takes 8 MB of memory that a sidecar without TLS has no use for.
    from cryptography.x509 import load_der_x509_certificate

    return [_details(file.path, load_der_x509_certificate(der), now) for der in _blocks(file.pem)]


def _blocks(pem: bytes) -> Iterator[bytes]:
    """Yield each certificate of a PEM text, whatever stands around it."""
    text = pem.decode("latin-1")
    start = text.find(ssl.PEM_HEADER)
    while start >= 0:
        end = text.find(ssl.PEM_FOOTER, start)
        if end < 0:
            return
        end += len(ssl.PEM_FOOTER)
        yield ssl.PEM_cert_to_DER_cert(text[start:end])
        start = text.find(ssl.PEM_HEADER, end)


def _details(path: str, certificate: "Certificate", now: datetime) -> dict[str, Any]:
    expires = certificate.not_valid_after_utc
    return {
        "path": path,
        "serial_number": f"{certificate.serial_number:x}",
        "subject_alt_names": list(_names(certificate)),
        "days_until_expiration": str(max(0, int((expires - now).total_seconds() // _DAY_S))),
        "valid_from": _time(certificate.not_valid_before_utc),
        "expiration_time": _time(expires),
    }


def _names(certificate: "Certificate") -> Iterator[dict[str, str]]:
    """Yield names as Envoy does: DNS names first, then URIs, then addresses."""
    from cryptography.x509 import (
        DNSName,
        ExtensionNotFound,
        IPAddress,
        SubjectAlternativeName,
        UniformResourceIdentifier,
    )

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return
    yield from ({"dns": name} for name in names.get_values_for_type(DNSName))
    yield from ({"uri": name} for name in names.get_values_for_type(UniformResourceIdentifier))
    yield from ({"ip_address": str(name)} for name in names.get_values_for_type(IPAddress))


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
