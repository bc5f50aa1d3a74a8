"""Reads a `Bundle` from a cluster: every kind once, in pages. What can't be read is noted, and never ends the reading.

Only what is needed is kept: of Secrets the serving certificate, of leases those in the system namespace.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import msgspec

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import DaemonSet, Deployment
from bosket.api.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from bosket.api.coordination import Lease
from bosket.api.core import ConfigMap, Endpoints, Namespace, Node, Pod, Secret, Service, ServiceAccount
from bosket.api.grove.operator_configuration import WebhookServerConfiguration
from bosket.api.kai import BindRequest, Config, PodGroup, Queue, SchedulingShard, Topology
from bosket.api.node_k8s import RuntimeClass
from bosket.api.object import KubeObject
from bosket.api.policy import PodDisruptionBudget
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.table import resource_of
from bosket.install.right import Right, read_rights
from bosket.kube.client import Client
from bosket.kube.codec import untyped
from bosket.kube.errors import ApiError, Forbidden, KubeError, NotFound, TransportError
from bosket.services.admission.options import Options as AdmissionOptions
from bosket.tools.doctor.bundle import AccessNeed, Bundle, Obstacle, Refused, Unread, bundle_of
from bosket.tools.doctor.checks.deployment import runs_bosket
from bosket.tools.doctor.installation import Installation

#: Read in the whole cluster.
_EVERYWHERE: Final[tuple[type[KubeObject], ...]] = (
    Node,
    Pod,
    Namespace,
    Queue,
    PodGroup,
    BindRequest,
    Topology,
    SchedulingShard,
    Config,
    PriorityClass,
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    RuntimeClass,
    PodDisruptionBudget,
)
#: Read where the system lives.
_IN_SYSTEM: Final[tuple[type[KubeObject], ...]] = (Deployment, DaemonSet, Lease, Service, Endpoints, ConfigMap)
#: Everything that a bundle may know; those of which there is none are known, too.
KINDS: Final[tuple[type[KubeObject], ...]] = (*_EVERYWHERE, *_IN_SYSTEM, ServiceAccount)

#: Where webhooks keep their certificates: ours, Grove's, and KAI's, whose operator never renews them.
_CERTIFICATES: Final = (
    AdmissionOptions().secret_name,
    WebhookServerConfiguration().secretName,
    "queue-webhook-tls-secret",
    "podgroup-webhook-tls-secret",
)
#: So many requests are on their way at a time.
_AT_A_TIME: Final = 8
#: Kinds of which a migration asks about every field, also such as nobody knows.
SETTINGS: Final[tuple[type[KubeObject], ...]] = (Config, SchedulingShard)
#: Kinds of others that a migration asks about: group and kind.
FOREIGN_KINDS: Final = (("kueue.x-k8s.io", "Topology"),)

_Read = tuple[type[KubeObject], list[KubeObject], Unread | None, list[str]]


async def collect(client: Client, *, foreign: bool = False, runs_in_process: bool = False) -> Bundle:
    """All that is needed of the cluster; with `foreign` also other projects' kinds. Raises only if nobody answers."""
    version = await _server_version(client)
    gate = asyncio.Semaphore(_AT_A_TIME)
    read = list(await _at_once([_list(client, kind, None, gate) for kind in _EVERYWHERE]))
    # Where the system lives, the Config says.
    installation = Installation(_bundle(read))
    system, reservation = installation.namespace, installation.reservation_namespace
    namespaced = [(kind, system) for kind in _IN_SYSTEM]
    namespaced += [(ServiceAccount, system), (ServiceAccount, reservation)]
    read += await _at_once([_list(client, kind, namespace, gate) for kind, namespace in namespaced])
    partial = _bundle(read)
    return replace(
        partial,
        certificates=await _certificates(client, system),
        refused=await _refused(client, Installation(partial), gate),
        foreign=await _foreign(client) if foreign else {},
        settings=await _settings(client) if foreign else {},
        server_version=version,
        now=time.time(),
        runs_in_process=runs_in_process,
    )


async def _at_once(readings: Sequence[Awaitable[_Read]]) -> list[_Read]:
    return list(await asyncio.gather(*readings))


async def _list(client: Client, kind: type[KubeObject], namespace: str | None, gate: asyncio.Semaphore) -> _Read:
    async with gate:
        try:
            page = await client.list(kind, namespace)
        except NotFound:
            return kind, [], Unread(Obstacle.NOT_SERVED), []
        except Forbidden as error:
            return kind, [], Unread(Obstacle.FORBIDDEN, error.message), []
        except ApiError as error:
            return kind, [], Unread(Obstacle.FAILED, str(error)), []
    malformed = [f"{kind.__name__} {key}: a field has a value of the wrong type" for key in page.left_out]
    return kind, list(page.items), None, malformed


def _bundle(read: Sequence[_Read]) -> Bundle:
    unread = {kind: obstacle for kind, _, obstacle, _ in read if obstacle is not None}
    objects = [obj for kind, items, _, _ in read for obj in items if kind not in unread]
    known = [kind for kind, _, _, _ in read if kind not in unread]
    return bundle_of(objects, known, unread=unread, malformed=tuple(each for read_ in read for each in read_[3]))


async def _server_version(client: Client) -> str:
    """Also whether anybody answers: if not, that is all there is to say."""
    try:
        answer = msgspec.json.decode((await client.raw("GET", "/version")).body)
    except TransportError:
        raise
    except (KubeError, msgspec.MsgspecError):
        return ""
    return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""


async def _certificates(client: Client, namespace: str) -> dict[tuple[str, str], bytes]:
    """What webhooks show to those who connect; public, unlike what else is in their Secrets, which is dropped here."""
    found: dict[tuple[str, str], bytes] = {}
    for name in _CERTIFICATES:
        try:
            secret = await client.get(Secret, name, namespace)
            found[namespace, name] = base64.b64decode(secret.data["tls.crt"], validate=True)
        except (ApiError, KeyError, binascii.Error):
            continue  # there is none, or we may not see it: the result of a connection is unknown
    return found


async def _refused(client: Client, installation: Installation, gate: asyncio.Semaphore) -> tuple[Refused, ...] | None:
    """What services may not do though they must; None if we may not ask. Services of KAI have needs of their own."""
    bundle, namespace = installation.bundle, installation.namespace
    foreign = {
        each.spec.template.spec.serviceAccountName
        for each in bundle.of(Deployment)
        if each.metadata.namespace == namespace and not runs_bosket(each.spec.template)
    }
    accounts = [each.metadata.name for each in bundle.of(ServiceAccount) if each.metadata.namespace == namespace]
    needs = [need for account in accounts if account not in foreign for need in needs_of(account, installation)]

    async def ask(need: AccessNeed) -> Refused | None:
        async with gate:
            attributes = ResourceAttributes(
                namespace=need.namespace,
                verb=need.verb,
                group=need.group,
                resource=need.resource.partition("/")[0],
                subresource=need.subresource,
                name=need.name,
            )
            user = f"system:serviceaccount:{namespace}:{need.service_account}"
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            review = await client.create(
                SubjectAccessReview(
                    spec=SubjectAccessReviewSpec(resourceAttributes=attributes, user=user, groups=groups)
                )
            )
            return None if review.status.allowed else Refused(need, review.status.reason)

    try:
        answers = await asyncio.gather(*(ask(need) for need in needs))
    except ApiError:
        return None
    return tuple(answer for answer in answers if answer is not None)


async def _settings(client: Client) -> dict[type[KubeObject], tuple[dict[str, Any], ...]]:
    """Config and shards as they are on the wire."""
    found: dict[type[KubeObject], tuple[dict[str, Any], ...]] = {}
    for kind in SETTINGS:
        try:
            found[kind] = tuple((await client.list(untyped(resource_of(kind)))).items)
        except ApiError:
            continue
    return found


async def _foreign(client: Client) -> dict[tuple[str, str], tuple[dict[str, Any], ...]]:
    """Objects of other projects' kinds, where they are installed."""
    try:
        resources = await client.discover()
    except KubeError:
        return {}
    found: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {}
    for group, kind in FOREIGN_KINDS:
        resource = next((each for each in resources if (each.group, each.kind) == (group, kind)), None)
        if resource is None:
            continue
        try:
            found[(group, kind)] = tuple((await client.list(resource)).items)
        except ApiError:
            continue
    return found


@cache
def _rights() -> Mapping[str, frozenset[Right]]:
    return read_rights()


def needs_of(service_account: str, installation: Installation) -> Iterator[AccessNeed]:
    """What is asked about for this service account; nothing for one that isn't a service's."""
    namespaces = {
        "cluster": "",
        "own": installation.namespace,
        "reservation": installation.reservation_namespace,
        "scale": installation.scale_namespace,
    }
    for right in sorted(_rights().get(service_account, ())):
        yield AccessNeed(
            service_account, right.verb, right.group, right.resource, namespaces[right.scope], name=right.name
        )
