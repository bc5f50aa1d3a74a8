"""What happens to KAI's Deployments and DaemonSets, webhooks, leases, definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import DaemonSet, Deployment
from bosket.api.coordination import Lease
from bosket.api.kai import RESOURCES
from bosket.tools.doctor.checks import definition
from bosket.tools.doctor.checks.deployment import kai_deployments, runs_bosket
from bosket.tools.doctor.checks.lease import KAI_LEASES
from bosket.tools.doctor.checks.version import tag_of
from bosket.tools.doctor.checks.webhook import Configuration, is_ours
from bosket.tools.doctor.finding import named, some
from bosket.tools.doctor.installation import Installation
from bosket.tools.migrate.item import Item, Outlook

#: The Deployment of KAI's chart; it would make whatever is missing again.
OPERATOR: Final = "kai-operator"
#: Webhooks that change though their names stay.
_OPEN: Final = ("kai-queue-validation-v2", "kai-podgroup-validation-v2alpha2")


def kai_version(installation: Installation) -> str:
    """The tag of KAI's images; empty if there are none."""
    tags = {
        tag_of(container.image)
        for each in kai_deployments(installation)
        for container in each.spec.template.spec.containers
    }
    return ", ".join(sorted(filter(None, tags)))


def of_running(installation: Installation) -> Iterator[Item]:
    """Whatever KAI's chart and operator have put into the cluster and that isn't a setting."""
    yield from _of_definitions(installation)
    for deployment in kai_deployments(installation):
        yield from _of_deployment(installation, deployment)
    for daemons in installation.bundle.of(DaemonSet):
        if daemons.metadata.namespace == installation.namespace and not runs_bosket(daemons.spec.template):
            yield Item(Outlook.CHANGES, named(daemons), "", "is replaced by Bosket's of the same name")
    yield from _of_webhooks(installation)
    for lease in installation.bundle.of(Lease):
        if lease.metadata.namespace == installation.namespace and lease.metadata.name in KAI_LEASES:
            who = KAI_LEASES[lease.metadata.name]
            yield Item(
                Outlook.CHANGES,
                named(lease),
                "",
                f"KAI's {who} competes for it, Bosket's for another: it doesn't keep them apart, and is left over",
            )


def _of_definitions(installation: Installation) -> Iterator[Item]:
    ours = {resource.group_resource for resource in RESOURCES}
    findings = {each.object: each for each in definition.check(installation)}
    for each in installation.bundle.of(CustomResourceDefinition):
        if each.metadata.name not in ours:
            continue
        finding = findings.get(named(each))
        if finding is None:
            yield Item(Outlook.KEEP, named(each), "", "has all that Bosket needs")
        else:
            yield Item(
                Outlook.CHANGES,
                named(each),
                finding.field,
                f"is brought up to date; its objects stay as they are ({finding.problem})",
            )


def _of_deployment(installation: Installation, deployment: Deployment) -> Iterator[Item]:
    name, namespace = deployment.metadata.name, deployment.metadata.namespace
    image = some(container.image for container in deployment.spec.template.spec.containers)
    stopped = deployment.spec.replicas == 0
    if name == OPERATOR and not stopped:
        yield Item(
            Outlook.ACTION,
            named(deployment),
            "spec.replicas",
            f"KAI's operator ({image}) would undo what Bosket's does: the two can't run beside each other",
            "stop it first",
            f"kubectl scale -n {namespace} deployment/{name} --replicas=0",
        )
    elif name.startswith(installation.scheduler_name) and not stopped:
        yield Item(
            Outlook.ACTION,
            named(deployment),
            "spec.replicas",
            f"KAI's scheduler ({image}) must not decide beside Bosket's; pods that run go on while none of them does",
            "stop it before Bosket's starts",
            f"kubectl scale -n {namespace} deployment/{name} --replicas=0",
        )
    else:
        yield Item(Outlook.CHANGES, named(deployment), "", f"is replaced: {image} by Bosket's image")


def _of_webhooks(installation: Installation) -> Iterator[Item]:
    configurations: list[Configuration] = [
        *installation.bundle.of(MutatingWebhookConfiguration),
        *installation.bundle.of(ValidatingWebhookConfiguration),
    ]
    for each in configurations:
        if not any(is_ours(hook, installation.namespace) for hook in each.webhooks):
            continue
        if each.metadata.name in _OPEN:
            sentence = (
                "is asked by the service admission instead of three services, may refuse more (circles, limits below "
                "quotas), and lets everything pass while that is down (failurePolicy Ignore)"
            )
        else:
            sentence = (
                "says all that is wrong with a pod at once; its certificate is made anew, and renewed from then on"
            )
        yield Item(Outlook.CHANGES, named(each), "", sentence)
