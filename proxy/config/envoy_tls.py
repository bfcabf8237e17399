"""TLS settings as Envoy 1.40 takes them: proto JSON of `envoy.extensions.transport_sockets.tls.v3`."""

from typing import Any

from proxy.config.cluster_config import TlsMode, UpstreamTls
from proxy.config.listener_options import ListenerOptions

_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_PARAMS = {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"}

# Envoy has no authorities of its own; Istio sends the first of the usual places that is there, this one on Debian.
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def has_tls(tls: UpstreamTls) -> bool:
    """Return whether Envoy can be told: not of certificates that only a mesh would have."""
    return tls.mode is not TlsMode.ISTIO_MUTUAL and not tls.credential_name


def envoy_transport_socket(tls: UpstreamTls) -> dict[str, Any]:
    """Return the transport socket of a cluster."""
    common: dict[str, Any] = {"tls_params": _PARAMS}
    if tls.mode is TlsMode.MUTUAL:
        common["tls_certificates"] = [_certificate(tls.client_certificate, tls.private_key)]
    if tls.verify:
        validation: dict[str, Any] = {"trusted_ca": {"filename": tls.ca_certificates or SYSTEM_AUTHORITIES}}
        if tls.ca_crl:
            validation["crl"] = {"filename": tls.ca_crl}
        if tls.subject_alt_names:
            validation["match_subject_alt_names"] = [{"exact": name} for name in tls.subject_alt_names]
        common["validation_context"] = validation
    return _socket("UpstreamTlsContext", common, **({"sni": tls.sni} if tls.sni else {}))


def envoy_listener_socket(options: ListenerOptions) -> dict[str, Any] | None:
    """Return the transport socket of the listeners; None for plain text."""
    if options.tls_certificate is None or options.tls_key is None:
        return None
    common: dict[str, Any] = {
        "tls_params": _PARAMS,
        "tls_certificates": [_certificate(str(options.tls_certificate), str(options.tls_key))],
        "alpn_protocols": ["h2", "http/1.1"],
    }
    if options.tls_client_ca is None:
        return _socket("DownstreamTlsContext", common)
    common["validation_context"] = {"trusted_ca": {"filename": str(options.tls_client_ca)}}
    return _socket("DownstreamTlsContext", common, require_client_certificate=True)


def _certificate(chain: str, key: str) -> dict[str, Any]:
    return {"certificate_chain": {"filename": chain}, "private_key": {"filename": key}}


def _socket(message: str, common: dict[str, Any], **fields: Any) -> dict[str, Any]:
    config = {"@type": f"{_TYPES}.{message}", "common_tls_context": common, **fields}
    return {"name": "envoy.transport_sockets.tls", "typed_config": config}
