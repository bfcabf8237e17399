"""Surprises of a `tls` block: what needs a mesh, and what is verified less than it looks."""

from collections.abc import Iterator

from proxy.config.advice.policies import placed_policies
from proxy.config.destination_rule import DestinationRule, TlsMode
from proxy.config.issue import Issue, Severity
from proxy.config.resource import Resource
from proxy.config.static_config import StaticConfig


def tls_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what a rule's `tls` blocks ask for in vain, and what they let through."""
    rule = resource.body
    if not isinstance(rule, DestinationRule):
        return
    for placed in placed_policies(rule):
        tls = placed.policy.tls
        if tls is None or tls.mode is TlsMode.DISABLE:
            continue
        path = (*placed.path, "tls")
        if tls.mode is TlsMode.ISTIO_MUTUAL:
            said = "is not applied: the sidecar has no certificate of the mesh, and sends plain text"
            yield config.issue(resource, (*path, "mode"), said)
        elif tls.credential_name:
            said = "is not to be had outside a mesh, so that every connection fails; name files instead"
            yield config.issue(resource, (*path, "credentialName"), said, Severity.ERROR)
        elif tls.insecure_skip_verify:
            yield config.issue(resource, (*path, "insecureSkipVerify"), "lets anybody answer for the service")
        elif tls.sni and not tls.subject_alt_names:
            said = "is asked for and not verified: without subjectAltNames any certificate of the authority will do"
            yield config.issue(resource, (*path, "sni"), said)
