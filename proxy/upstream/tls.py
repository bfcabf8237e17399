"""TLS towards upstream hosts: the context of a cluster, kept in step with its files, and whom a certificate is for.

Verification is Envoy's, not a browser's: the chain against the CA file (or the system's authorities), then the subject
alternative names against those configured, if any are; without names any certificate of the CA will do. A cluster
without `sni` sends the request's host and demands a certificate for it, as Istio has Envoy do (`auto_sni`,
`auto_san_validation`). Ports `DefaultCertValidator` and `Utility::dnsNameMatch` (Envoy, source/common/tls).
"""

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import attrs
import structlog

from proxy.config.cluster_config import TlsMode, UpstreamTls

log = structlog.get_logger()

# BoringSSL's numbers, which Envoy shows: library 16 in the upper byte, and the reason. OpenSSL's own differ.
_SSL_LIBRARY = 16 << 24
_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": 125,
    "UNSUPPORTED_PROTOCOL": 240,
    "WRONG_VERSION_NUMBER": 247,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": 1040,
    "SSLV3_ALERT_BAD_CERTIFICATE": 1042,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": 1045,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": 1046,
    "TLSV1_ALERT_UNKNOWN_CA": 1048,
    "TLSV1_ALERT_PROTOCOL_VERSION": 1070,
    "TLSV1_ALERT_INTERNAL_ERROR": 1080,
    "TLSV1_UNRECOGNIZED_NAME": 1112,
}

_NAME_KINDS = frozenset({"DNS", "URI", "email", "IP Address"})


class TlsUnavailableError(OSError):
    """Raised when there is no context to connect with: a file is missing or wrong, or never was to be had."""


class UntrustedNameError(ssl.SSLCertVerificationError):
    """Raised in a handshake when a certificate is valid, but for somebody else."""


@attrs.define
class TlsStats:
    """Handshakes of a cluster's connections: `ssl.<name>` among its statistics."""

    connection_error: int = 0
    fail_verify_error: int = 0
    fail_verify_san: int = 0
    handshake: int = 0

    def count_failure(self, error: ssl.SSLError) -> None:
        """Count a handshake that has failed, once, by its cause."""
        if isinstance(error, UntrustedNameError):
            self.fail_verify_san += 1
        elif isinstance(error, ssl.SSLCertVerificationError):
            self.fail_verify_error += 1
        else:
            self.connection_error += 1

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield name and value of each counter."""
        yield from attrs.asdict(self).items()

    def reset_counters(self) -> None:
        """Set every counter to 0."""
        for field in attrs.fields(TlsStats):
            setattr(self, field.name, 0)


@attrs.frozen
class CertificateFile:
    """A file of certificates as it was loaded; `pem` is its content."""

    path: str
    pem: bytes


@attrs.frozen(kw_only=True)
class LoadedTls:
    """A context and what it was made of; `ca` is None for the system's authorities, `chain` without a certificate.

    `http2_context` is the same for connections that are to speak HTTP/2, None where there are none.
    """

    context: ssl.SSLContext
    http2_context: ssl.SSLContext | None = None
    ca: CertificateFile | None = None
    chain: CertificateFile | None = None


class WatchedTls:
    """A context made of files, made anew when one of them has changed.

    The files are looked at with every new connection: a `stat` each, which costs a thousandth of a handshake, and saves
    a timer.

    Args:
        owner: Whose they are, for the log: a cluster's name, or `listeners`.
        paths: The files.
        load: Makes the context; raises OSError (`ssl.SSLError` is one) if a file is not fit.
    """

    def __init__(self, owner: str, paths: Sequence[str], load: Callable[[], LoadedTls]) -> None:
        self._owner = owner
        self._paths = tuple(paths)
        self._load = load
        self._seen: tuple[object, ...] | None = None
        self._error = ""
        self.loaded: LoadedTls | None = None

    def refresh(self) -> LoadedTls:
        """Return the context of the files as they are; files that are not fit leave the one before in force.

        Raises:
            TlsUnavailableError: No fit files have been there yet.
        """
        seen = tuple(_fingerprint(path) for path in self._paths)
        if seen != self._seen or self.loaded is None:
            self._reload(first=self._seen is None, changed=seen != self._seen)
            self._seen = seen
        if self.loaded is None:
            raise TlsUnavailableError(self._error)
        return self.loaded

    def _reload(self, *, first: bool, changed: bool) -> None:
        try:
            self.loaded = self._load()
        except OSError as exc:
            self._error = _load_error(exc)
            if changed:
                log.warning("tls.files_not_loaded", owner=self._owner, files=list(self._paths), error=self._error)
            return
        if not first:
            log.info("tls.files_reloaded", owner=self._owner, files=list(self._paths))


class UpstreamContext(ssl.SSLContext):
    """A client's context that knows whose certificate it wants.

    `names` are the subject alternative names of which one must be there; empty demands none. `any_host` demands one for
    the name the connection asks for instead.
    """

    names: tuple[str, ...] = ()
    any_host = False


class _CheckedConnection(ssl.SSLObject):
    """Ends its handshake with Envoy's check of names, so that a stranger fails to connect."""

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises:
            ssl.SSLError: It cannot succeed; or would block, as for any other `SSLObject`.
        """
        super().do_handshake()
        context = self.context
        if not isinstance(context, UpstreamContext):
            return
        expected = context.names
        if context.any_host and self.server_hostname:
            expected = (self.server_hostname,)
        if expected:
            certificate: Mapping[str, Any] = self.getpeercert() or {}
            check_names(certificate, expected, listed=context.any_host)


class UpstreamTlsSocket:
    """How a cluster's connections are secured (Envoy's transport socket); `http2` says that some speak HTTP/2."""

    def __init__(self, cluster_name: str, config: UpstreamTls, *, http2: bool = False) -> None:
        self.config = config
        self._http2 = http2
        self.stats = TlsStats()
        self.auto_sni = not config.sni
        named = (config.ca_certificates, config.ca_crl, config.client_certificate, config.private_key)
        paths = [path for path in named if path]
        self._watched = WatchedTls(cluster_name, paths, self._load)
        if paths or config.credential_name:
            with suppress(TlsUnavailableError):  # said in the log; the files may still come
                self._watched.refresh()

    @property
    def loaded(self) -> LoadedTls | None:
        """What connections are made with; None before the first, or if the files are not fit."""
        return self._watched.loaded

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection.

        Raises:
            TlsUnavailableError: There is none.
        """
        return self._watched.refresh().context

    def http2_context(self) -> ssl.SSLContext:
        """Return the context for a new connection that is to speak HTTP/2.

        Raises:
            TlsUnavailableError: There is none.
        """
        context = self._watched.refresh().http2_context
        assert context is not None, "made for a cluster that speaks HTTP/2"
        return context

    def _load(self) -> LoadedTls:
        loaded = self._load_context()
        if self._http2:
            http2_context = self._load_context().context
            http2_context.set_alpn_protocols(["h2"])
            loaded = attrs.evolve(loaded, http2_context=http2_context)
        return loaded

    def _load_context(self) -> LoadedTls:
        config = self.config
        if config.credential_name:
            raise TlsUnavailableError(f"credentialName {config.credential_name} needs a mesh; use files")
        context = UpstreamContext(ssl.PROTOCOL_TLS_CLIENT)
        context.sslobject_class = _CheckedConnection
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        ca = chain = None
        if not config.verify:
            context.verify_mode = ssl.CERT_NONE
        else:
            context.names = config.subject_alt_names
            context.any_host = self.auto_sni and not config.subject_alt_names
            if config.ca_certificates:
                ca = read_certificates(config.ca_certificates)
                context.load_verify_locations(config.ca_certificates)
            else:
                context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            if config.ca_crl:
                context.load_verify_locations(config.ca_crl)
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
        if config.mode is TlsMode.MUTUAL:
            chain = load_key_pair(context, config.client_certificate, config.private_key)
        return LoadedTls(context=context, ca=ca, chain=chain)


def load_key_pair(context: ssl.SSLContext, certificate: str, key: str) -> CertificateFile:
    """Give `context` a certificate and its key.

    Raises:
        OSError: A file is missing, not PEM, encrypted, or they do not belong together.
    """
    chain = read_certificates(certificate)
    # Without an answer OpenSSL would ask the terminal for the password of an encrypted key.
    context.load_cert_chain(certificate, key, password=lambda: "")
    return chain


def read_certificates(path: str) -> CertificateFile:
    """Return a file of certificates.

    Raises:
        OSError: It cannot be read; the message names it.
    """
    return CertificateFile(path, Path(path).read_bytes())


def check_names(certificate: Mapping[str, Any], expected: Sequence[str], *, listed: bool = False) -> None:
    """Demand that one of the certificate's subject alternative names is one of `expected`.

    Args:
        certificate: As `SSLSocket.getpeercert` returns it.
        expected: DNS names, URIs, addresses of mail or IP addresses, exact; a DNS name of the certificate may hold a
            wildcard in its first label.
        listed: The names are those of the request's host, for which Envoy has other words.

    Raises:
        UntrustedNameError: None is; the message is that of Envoy.
    """
    names = [(kind, name) for kind, name in certificate.get("subjectAltName", ()) if kind in _NAME_KINDS]
    if any(_is_for(kind, name, wanted) for wanted in expected for kind, name in names):
        return
    shown = ", ".join(name for _, name in names)
    said = (
        f"verify SAN list, expected SANs: [{', '.join(expected)}], certificate SANs: [{shown}]"
        if listed
        else f"SAN matcher, certificate SANs are [{shown}]"
    )
    error = UntrustedNameError(1, said)
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    raise error


def dns_name_matches(pattern: str, name: str) -> bool:
    """Return whether a certificate's DNS name is for `name`; case does not count.

    One `*` in the first label stands for one or more characters of one label.

    >>> dns_name_matches("*.example.com", "a.example.com"), dns_name_matches("*.example.com", "a.b.example.com")
    (True, False)
    """
    pattern, name = pattern.lower(), name.lower()
    if pattern == name:
        return True
    pattern_label, _, pattern_rest = pattern.partition(".")
    label, _, rest = name.partition(".")
    if pattern_label.count("*") != 1 or not pattern_rest or rest != pattern_rest:
        return False
    if pattern_label.startswith("xn--"):
        return False  # a wildcard inside an encoded label would match something else than it shows
    before, _, after = pattern_label.partition("*")
    return len(label) > len(before) + len(after) and label.startswith(before) and label.endswith(after)


def failure_reason(error: ssl.SSLError) -> str:
    """Return Envoy's text of a failed handshake, `%UPSTREAM_TRANSPORT_FAILURE_REASON%`."""
    reason = error.reason or "UNKNOWN"
    number = _SSL_LIBRARY + _REASONS.get(reason, 0)
    text = f"TLS error:|{number}:SSL routines:OPENSSL_internal:{reason}"
    if isinstance(error, UntrustedNameError):
        text += f":verify cert failed: {error.strerror}"
    elif isinstance(error, ssl.SSLCertVerificationError):
        text += f":verify cert failed: X509_verify_cert: certificate verification error: {error.verify_message}"
    return text + ":TLS error end"


def _is_for(kind: str, name: str, wanted: str) -> bool:
    if kind == "DNS":
        return dns_name_matches(name, wanted)
    if kind == "IP Address":
        try:
            return ip_address(name.strip()) == ip_address(wanted)
        except ValueError:
            return False
    return name == wanted


def _fingerprint(path: str) -> tuple[int, ...] | None:
    """Return what changes when a file does, or when a link to it turns to another."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _load_error(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not usable: {error.reason or error}"
    return str(error.args[0]) if isinstance(error, TlsUnavailableError) else f"{error.filename}: {error.strerror}"
