"""`/certs` in Envoy's format."""

import json
from datetime import UTC, datetime

from proxy.admin.certs import certificate_details
from proxy.upstream.tls import CertificateFile, LoadedTls, read_certificates
from tests.proxy.certificates import issued, server_context, write_ca, write_pair

NOW = datetime(2026, 11, 30, tzinfo=UTC)


async def test_nothing_without_tls(admin):
    assert await (await admin.get("/certs")).json() == {}


async def test_every_context_has_authorities_and_chain(sidecar, admin, tmp_path):
    ca, pair = write_ca(tmp_path, "ours"), write_pair(tmp_path, "a.test", "127.0.0.1", "*.wild.test")
    sidecar.certificates = [
        LoadedTls(
            context=server_context("a.test"),
            ca=read_certificates(str(ca)),
            chain=read_certificates(str(pair.certificate)),
        ),
        LoadedTls(context=server_context("a.test")),
    ]

    first, second = json.loads(await (await admin.get("/certs")).text())["certificates"]

    assert second == {"ca_cert": [], "cert_chain": []}
    (authority,), (chain,) = first["ca_cert"], first["cert_chain"]
    assert (authority["path"], authority["subject_alt_names"]) == (str(ca), [])
    assert chain["subject_alt_names"] == [{"dns": "a.test"}, {"dns": "*.wild.test"}, {"ip_address": "127.0.0.1"}]
    assert list(chain) == [
        "path",
        "serial_number",
        "subject_alt_names",
        "days_until_expiration",
        "valid_from",
        "expiration_time",
    ]


def test_times_and_days_left():
    pem = issued("a.test").cert_chain_pems[0].bytes()

    (details,) = certificate_details(CertificateFile("a.pem", b"# words\n" + pem), NOW)

    assert (details["valid_from"], details["expiration_time"]) == ("2000-01-01T00:00:00Z", "3000-01-01T00:00:00Z")
    assert details["days_until_expiration"] == "355413"


def test_expired_certificate_has_no_days_left():
    pem = issued("a.test").cert_chain_pems[0].bytes()

    (details,) = certificate_details(CertificateFile("a.pem", pem), datetime(3001, 1, 1, tzinfo=UTC))

    assert details["days_until_expiration"] == "0"


def test_file_of_several_certificates_shows_each():
    pem = b"".join(issued(name).cert_chain_pems[0].bytes() for name in ("a.test", "b.test"))

    names = [details["subject_alt_names"] for details in certificate_details(CertificateFile("a.pem", pem), NOW)]

    assert names == [[{"dns": "a.test"}], [{"dns": "b.test"}]]
