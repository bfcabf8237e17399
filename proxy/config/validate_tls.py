"""Whether Istio accepts a tls block.

ISTIO_MUTUAL with other fields is documented as wrong but not checked, as in Istio.
Ports `validateTLS` for client settings (Istio, pkg/config/validation).
"""

from proxy.config.destination_rule import ClientTls, TlsMode
from proxy.config.issue import ABSENT, Path, Report

_CONFIG_MAP = "configmap://"


def check_client_tls(tls: ClientTls, namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about ClientTLSSettings of a rule in that namespace."""
    if tls.credential_name.startswith(_CONFIG_MAP):
        owner, slash, _ = tls.credential_name.removeprefix(_CONFIG_MAP).partition("/")
        if slash and owner != namespace:
            report.error((*path, "credentialName"), tls.credential_name, f"must be of namespace {namespace}")
    if tls.mode not in {TlsMode.SIMPLE, TlsMode.MUTUAL}:
        return
    files = [tls.ca_certificates, tls.ca_crl]
    if tls.mode is TlsMode.MUTUAL:
        files += [tls.client_certificate, tls.private_key]
    if tls.credential_name:
        if any(files):
            rule = "must not be set together with certificate files"
            report.error((*path, "credentialName"), tls.credential_name, rule)
    elif tls.mode is TlsMode.MUTUAL:
        if not tls.client_certificate:
            report.error((*path, "clientCertificate"), ABSENT, "is required for MUTUAL without credentialName")
        if not tls.private_key:
            report.error((*path, "privateKey"), ABSENT, "is required for MUTUAL without credentialName")
    if tls.insecure_skip_verify:
        _check_skip_verify(tls, (*path, "insecureSkipVerify"), report)


def _check_skip_verify(tls: ClientTls, path: Path, report: Report) -> None:
    if tls.ca_certificates:
        report.error(path, True, "must not be set together with caCertificates")
    elif tls.credential_name and tls.mode is TlsMode.SIMPLE:
        report.error(path, True, "must not be set together with credentialName")
    elif tls.subject_alt_names:
        report.error(path, True, "must not be set together with subjectAltNames")
