"""Webhooks of ours: somebody answers, who asks trusts them, and nobody else's pods depend on them.

Ours are those whose service is in the system namespace, or that are asked about our kinds.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from bosket.api.admission import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from bosket.api.apps import Deployment
from bosket.api.core import Endpoints, Service
from bosket.api.grove.naming import BINDINGS_VALIDATED, SETS_DEFAULTED, SETS_VALIDATED
from bosket.api.grove.operator_configuration import WebhookServerConfiguration
from bosket.tools.doctor.finding import Finding, Severity, named
from bosket.tools.doctor.installation import Installation

Configuration: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration
Webhook: TypeAlias = MutatingWebhook | ValidatingWebhook

_GROUPS: Final = frozenset({"scheduling.run.ai", "kai.scheduler"})
_SOON: Final = timedelta(days=14)
_ADMISSION: Final = "admission"
_GROVE_ADMISSION: Final = "grove-admission"
#: How names of Grove's webhooks end.
_GROVES: Final = ".webhooks.grove.io"


def check(installation: Installation) -> Iterator[Finding]:
    """Webhooks that nobody answers, that aren't trusted, or that reach too far; certificates that end."""
    configurations: list[Configuration] = [
        *installation.bundle.of(MutatingWebhookConfiguration),
        *installation.bundle.of(ValidatingWebhookConfiguration),
    ]
    ours = [(each, hook) for each in configurations for hook in each.webhooks if is_ours(hook, installation.namespace)]
    for configuration, hook in ours:
        name = named(configuration)
        yield from _check_service(installation, name, hook)
        yield from _check_trust(installation, name, hook)
        yield from _check_reach(installation, name, hook)
    yield from _check_certificates(installation)
    yield from _check_groves(installation, configurations)
    kais = [hook for _, hook in ours if _server(hook) == _ADMISSION]
    if not kais and installation.config is not None and _is_admission_asked(installation):
        yield Finding(
            "webhooks-missing",
            Severity.ERROR,
            named(installation.config),
            "spec.admission",
            "admission is enabled, but no webhook is registered: pods that share GPUs run without what they need, and "
            "wrong queues are accepted",
            "see whether the admission service runs, and may register its webhooks",
            f"kubectl logs -n {installation.namespace} deployment/admission",
        )


def _check_groves(installation: Installation, configurations: list[Configuration]) -> Iterator[Finding]:
    """Whether Grove's webhooks, whose configurations come empty with the chart, are registered where they should be."""
    deployed = [
        each
        for each in installation.bundle.of(Deployment)
        if each.metadata.name == _GROVE_ADMISSION and each.metadata.namespace == installation.namespace
    ]
    there = {each.metadata.name for each in configurations if each.webhooks}
    missing = [name for name in (SETS_DEFAULTED, SETS_VALIDATED, BINDINGS_VALIDATED) if name not in there]
    if deployed and missing:
        yield Finding(
            "webhooks-missing",
            Severity.ERROR,
            named(deployed[0]),
            "",
            f"it is deployed, but {', '.join(missing)} names no webhook: PodCliqueSets are accepted unchecked, and "
            "without what they leave out",
            "see whether it runs, and may register its webhooks",
            f"kubectl logs -n {installation.namespace} deployment/{_GROVE_ADMISSION}",
        )


def _server(hook: Webhook) -> str:
    """The Deployment that answers it."""
    return _GROVE_ADMISSION if hook.name.endswith(_GROVES) else _ADMISSION


def _restart(installation: Installation, deployment: str) -> str:
    return f"kubectl rollout restart -n {installation.namespace} deployment/{deployment}"


def is_ours(hook: Webhook, namespace: str) -> bool:
    """Whether a webhook belongs to KAI or Bosket."""
    service = hook.clientConfig.service
    in_ours = any(group in _GROUPS for rule in hook.rules for group in rule.apiGroups)
    return in_ours or (service is not None and service.namespace == namespace)


def _is_admission_asked(installation: Installation) -> bool:
    """Whether the API server should ask it: it is enabled, and not a part of the server's own process."""
    section = installation.spec.admission
    enabled = section is None or section.service is None or section.service.enabled is not False
    return enabled and not installation.bundle.runs_in_process


def _consequence(hook: Webhook) -> str:
    """What happens while it doesn't answer."""
    if hook.failurePolicy == "Ignore":
        return "what it should check is accepted unchecked"
    return f"{_asked_about(hook)} can't be written at all (failurePolicy Fail)"


def _asked_about(hook: Webhook) -> str:
    return ", ".join(dict.fromkeys(resource for rule in hook.rules for resource in rule.resources)) or "objects"


def _severity(hook: Webhook) -> Severity:
    return Severity.WARNING if hook.failurePolicy == "Ignore" else Severity.ERROR


def _check_service(installation: Installation, name: str, hook: Webhook) -> Iterator[Finding]:
    reference, bundle = hook.clientConfig.service, installation.bundle
    if reference is None or reference.namespace != installation.namespace:
        return  # services elsewhere weren't read
    where, field = f"{reference.namespace}/{reference.name}", f"webhooks[{hook.name}].clientConfig.service"
    service = next((each for each in bundle.of(Service) if str(each.key) == where), None)
    if service is None:
        yield Finding(
            "webhook-service-missing",
            _severity(hook),
            name,
            field,
            f"there is no Service {where}, so nobody answers, and {_consequence(hook)}",
            "start the admission service again, or remove the webhook until you do",
            f"kubectl delete {name.partition(' ')[0].lower()} {name.partition(' ')[2]}",
        )
        return
    port = 443 if reference.port is None else reference.port
    if port not in [each.port for each in service.spec.ports]:
        yield Finding(
            "webhook-port-missing",
            _severity(hook),
            name,
            f"{field}.port",
            f"Service {where} has no port {port}, so nobody answers, and {_consequence(hook)}",
            "give the service that port",
            f"kubectl get service -n {reference.namespace} {reference.name} -o yaml",
        )
    endpoints = next((each for each in bundle.of(Endpoints) if str(each.key) == where), None)
    if not bundle.knows(Endpoints) or (endpoints is not None and any(each.addresses for each in endpoints.subsets)):
        return
    yield Finding(
        "webhook-without-endpoints",
        _severity(hook),
        name,
        field,
        f"no ready pod is behind Service {where}, so nobody answers, and {_consequence(hook)}",
        "see why the pods of the service aren't ready",
        f"kubectl get endpoints,pods -n {reference.namespace}",
    )


def _check_trust(installation: Installation, name: str, hook: Webhook) -> Iterator[Finding]:
    field = f"webhooks[{hook.name}].clientConfig.caBundle"
    restart = _restart(installation, _server(hook))
    if not hook.clientConfig.caBundle:
        if hook.clientConfig.service is not None:
            yield Finding(
                "webhook-ca-missing",
                _severity(hook),
                name,
                field,
                f"the API server has no CA bundle for the certificate, so every call fails, and {_consequence(hook)}",
                "let the admission service register its webhooks again",
                restart,
            )
        return
    authorities = _certificates(hook.clientConfig.caBundle)
    if not authorities:
        yield Finding(
            "webhook-ca-unreadable",
            _severity(hook),
            name,
            field,
            f"it holds no certificate that can be read, so every call fails, and {_consequence(hook)}",
            "let the admission service register its webhooks again",
            restart,
        )
        return
    end = max(each.not_valid_after_utc for each in authorities)
    ends = _End("webhook-ca", name, field, end, _server(hook))
    yield from _check_end(installation, ends, _severity(hook), _consequence(hook))
    service = hook.clientConfig.service
    for (namespace, _), pem in installation.bundle.certificates.items():
        leaf = _certificate(pem)
        if leaf is None or service is None or service.namespace != namespace or not _is_for(leaf, service.name):
            continue
        if not any(_issued_by(leaf, each) for each in authorities):
            yield Finding(
                "webhook-ca-mismatch",
                _severity(hook),
                name,
                field,
                f"the certificate that the service shows was issued by somebody else, so every call fails, and "
                f"{_consequence(hook)}",
                "let the admission service register its webhooks again",
                restart,
            )


def _check_certificates(installation: Installation) -> Iterator[Finding]:
    for (namespace, name), pem in installation.bundle.certificates.items():
        leaf = _certificate(pem)
        if leaf is not None:
            server = _GROVE_ADMISSION if name == WebhookServerConfiguration().secretName else _ADMISSION
            end = leaf.not_valid_after_utc
            ends = _End("certificate", f"Secret {namespace}/{name}", "data[tls.crt]", end, server)
            yield from _check_end(installation, ends, Severity.ERROR, "calls of webhooks fail")


class _End(NamedTuple):
    """When a certificate ends, and where it is."""

    code: str
    object: str
    field: str
    time: datetime
    #: The Deployment that renews it.
    server: str


def _check_end(installation: Installation, end: _End, severity: Severity, consequence: str) -> Iterator[Finding]:
    if installation.bundle.now is None:
        return
    left = end.time - datetime.fromtimestamp(installation.bundle.now, UTC)
    if left > _SOON:
        return
    is_over = left <= timedelta()
    when = f"{end.time:%Y-%m-%d %H:%M} UTC"
    yield Finding(
        f"{end.code}-expired" if is_over else f"{end.code}-expires",
        severity if is_over else Severity.WARNING,
        end.object,
        end.field,
        f"the certificate ended on {when}, and {consequence}"
        if is_over
        else f"the certificate ends on {when}; then {consequence}",
        "see why the admission service, which renews it, doesn't run",
        _restart(installation, end.server),
    )


def _check_reach(installation: Installation, name: str, hook: Webhook) -> Iterator[Finding]:
    """A webhook that fails closed must not be asked about everybody's pods."""
    if hook.failurePolicy == "Ignore" or "pods" not in [each for rule in hook.rules for each in rule.resources]:
        return
    narrowed = hook.matchConditions or (hook.objectSelector is not None and hook.objectSelector.matchLabels)
    if narrowed:
        return
    yield Finding(
        "webhook-reaches-all",
        Severity.WARNING,
        name,
        f"webhooks[{hook.name}].matchConditions",
        f"it is asked about every pod: while it is down, no pod of any scheduler can be created in its namespaces, the "
        f"service's own ({installation.namespace}) perhaps among them",
        f"ask only about pods of {installation.scheduler_name}, as Bosket's admission registers itself",
        _restart(installation, _server(hook)),
    )


def _certificates(bundle: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        return []


def _certificate(pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def _is_for(leaf: x509.Certificate, service: str) -> bool:
    """Whether the certificate is shown by the service of this name."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return any(each.partition(".")[0] == service for each in names.get_values_for_type(x509.DNSName))


def _issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
