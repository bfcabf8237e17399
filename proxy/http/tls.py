"""TLS on the listeners: one certificate, maybe clients' certificates, read anew when their files change.

Ports `ServerContextImpl` as far as one certificate needs it (Envoy, source/common/tls/server_context_impl.cc).
"""

import ssl

from proxy.config.listener_options import ListenerOptions
from proxy.http.protocol_choice import ALPN_PROTOCOLS
from proxy.upstream.tls import LoadedTls, WatchedTls, load_key_pair, read_certificates


class ListenerTls:
    """The context of a sidecar's listeners.

    What the loop listens with is one context for good; each handshake is handed the one that the files make now.
    """

    def __init__(self, certificate: str, key: str, client_ca: str = "") -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        paths = [path for path in (certificate, key, client_ca) if path]
        self._watched = WatchedTls("listeners", paths, self._load)

    @classmethod
    def from_options(cls, options: ListenerOptions) -> "ListenerTls | None":
        """Return what the options ask for; None is plain text."""
        if options.tls_certificate is None or options.tls_key is None:
            return None
        client_ca = "" if options.tls_client_ca is None else str(options.tls_client_ca)
        return cls(str(options.tls_certificate), str(options.tls_key), client_ca)

    @property
    def loaded(self) -> LoadedTls | None:
        """What handshakes are made with; None before the first listener."""
        return self._watched.loaded

    def context(self) -> ssl.SSLContext:
        """Return the context to listen with.

        Raises:
            TlsUnavailableError: A file is missing or not fit.
        """
        return self._watched.refresh().context

    def _load(self) -> LoadedTls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sni_callback = self._on_client_hello
        context.set_alpn_protocols(ALPN_PROTOCOLS)
        chain = load_key_pair(context, self._certificate, self._key)
        ca = None
        if self._client_ca:
            ca = read_certificates(self._client_ca)
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session is not verified anew, so it would outlive a change of the authority.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return LoadedTls(context=context, ca=ca, chain=chain)

    def _on_client_hello(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Hand a handshake the present certificate; every handshake comes here, with a name or without."""
        present = self._watched.refresh().context
        if present is not context:
            connection.context = present
