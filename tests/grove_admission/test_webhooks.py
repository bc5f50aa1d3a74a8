"""The webhooks of Grove's operator, served over TLS and asked by an API server that knows of them by registration."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace as replace_dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.core import Namespace, Secret
from bosket.api.crd import crd_manifest
from bosket.api.grove import PodClique, PodCliqueSet
from bosket.api.grove.operator_configuration import (
    AuthorizerConfiguration,
    OperatorConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
    ServerConfiguration,
    WebhookServerConfiguration,
)
from bosket.api.object import ObjectMeta
from bosket.api.table import resource_of
from bosket.api.volcano import Queue, QueueStatus
from bosket.grove.admission import Options
from bosket.grove.admission.webhook_service import admission_service
from bosket.kube.client import Client
from bosket.kube.errors import Forbidden
from bosket.kube.informer import Informers
from bosket.runtime.certificates import make_authority
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, run_services
from tests.grove_admission.sets import clique, pcs
from tests.grove_backends.scene import grove_rig
from tests.rig import NAMESPACE, Rig

OPERATOR = "system:serviceaccount:grove-system:grove-operator"


@asynccontextmanager
async def webhooks(rig: Rig, port: int, configuration: OperatorConfiguration) -> AsyncIterator[Environment]:
    """The service, registered with the server of the rig."""
    client = Client(rig.server.transport())
    clock = SystemClock()
    env = Environment(
        client, Informers(client), clock, EventRecorder(client, clock, "t"), CollectorRegistry(), "grove-system"
    )
    server = WebhookServerConfiguration(port=port)
    if configuration.server.webhooks.certProvisionMode == "manual":
        server = replace(configuration.server.webhooks, port=port)
    configuration = replace(configuration, server=ServerConfiguration(webhooks=server))
    service = admission_service(env, Options(configuration, url=f"https://127.0.0.1:{port}"))
    task = asyncio.create_task(run_services(env, [service], leader_election=False))
    serving = asyncio.create_task(rig.server.run())
    try:
        await rig.until(lambda: is_registered(rig, 3 if configuration.authorizer.enabled else 2))
        assert service.url
        yield env
    finally:
        for each in (task, serving):
            each.cancel()
        await asyncio.wait([task, serving])


async def is_registered(rig: Rig, count: int) -> bool:
    """Whether the last of the configurations is there."""
    return len((await rig.client.list(ValidatingWebhookConfiguration)).items) == count


async def known_annotations(env: Environment, count: int) -> bool:
    """Whether the webhooks have heard of the one set with so many annotations."""
    return [len(each.metadata.annotations) for each in env.informers.of(PodCliqueSet).store.values()] == [count]


async def site() -> Rig:
    rig = await grove_rig()
    await rig.apply(Namespace(metadata=ObjectMeta(name="grove-system")))
    return rig


def document(name: str, **more: Any) -> dict[str, Any]:
    return pcs(clique("a", 2), metadata={"name": name, "namespace": NAMESPACE, **more})


async def test_sets_are_completed_and_refused_through_webhooks(unused_tcp_port: int) -> None:
    rig = await site()
    async with webhooks(rig, unused_tcp_port, OperatorConfiguration()):
        await rig.client.create(document("good"))
        found = await rig.client.get(PodCliqueSet, "good", NAMESPACE)
        assert found.spec.template.cliques[0].spec.minAvailable == 2
        assert found.spec.template.terminationDelay == "4h0m0s"
        bad = document("bad")
        bad["spec"]["template"]["cliques"] = []
        with pytest.raises(Forbidden) as caught:
            await rig.client.create(bad)
        assert caught.value.message == (
            'admission webhook "pcs.validating.webhooks.grove.io" denied the request: spec.template.cliques: '
            "Required value: at least one PodClique must be defined"
        )
    names = {each.metadata.name for each in (await rig.client.list(ValidatingWebhookConfiguration)).items}
    assert names == {"podcliqueset-validating-webhook", "clustertopology-validating-webhook"}
    (mutating,) = (await rig.client.list(MutatingWebhookConfiguration)).items
    assert mutating.metadata.name == "podcliqueset-defaulting-webhook"
    assert (await rig.client.get(Secret, "grove-webhook-server-cert", "grove-system")).data.keys() >= {
        "tls.crt",
        "ca.crt",
    }


async def test_the_authorizer_keeps_others_from_what_the_operator_made(unused_tcp_port: int) -> None:
    rig = await site()
    configuration = OperatorConfiguration(authorizer=AuthorizerConfiguration(enabled=True))
    operator = Client(rig.server.transport(user=OPERATOR))
    async with webhooks(rig, unused_tcp_port, configuration) as env:
        await rig.client.create(document("s"))
        await rig.until(lambda: known_annotations(env, 0))
        labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "s"}
        child: dict[str, Any] = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {"name": "s-0-a", "namespace": NAMESPACE, "labels": labels},
            "spec": {"roleName": "r", "replicas": 1, "podSpec": {"containers": [{"name": "m", "image": "i"}]}},
        }
        with pytest.raises(Forbidden, match="may be created by Grove's operator only"):
            await rig.client.create(copy.deepcopy(child))
        await operator.create(copy.deepcopy(child))
        with pytest.raises(Forbidden, match="may be deleted by Grove's operator only"):
            await rig.client.delete(PodClique, "s-0-a", NAMESPACE)
        await rig.client.scale(PodClique, "s-0-a", NAMESPACE, 3)
        await rig.client.patch(
            PodCliqueSet,
            "s",
            {"metadata": {"annotations": {"grove.io/disable-managed-resource-protection": "true"}}},
            namespace=NAMESPACE,
        )
        await rig.until(lambda: known_annotations(env, 1))
        await rig.client.delete(PodClique, "s-0-a", NAMESPACE)


async def test_a_certificate_that_somebody_else_keeps_is_shown(unused_tcp_port: int, tmp_path: Path) -> None:
    """Whom to trust is then somebody else's to say, and stays said."""
    rig = await site()
    authority = make_authority("somebody else")
    pair = authority.issue("webhooks", server=True, ips=["127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(pair.cert_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    manual = WebhookServerConfiguration(certProvisionMode="manual", serverCertDir=str(tmp_path))
    configuration = OperatorConfiguration(server=ServerConfiguration(webhooks=manual))
    async with webhooks(rig, unused_tcp_port, configuration):
        (mutating,) = (await rig.client.list(MutatingWebhookConfiguration)).items
        assert mutating.webhooks[0].clientConfig.caBundle == ""
    assert (await rig.client.list(Secret, "grove-system")).items == []


async def test_volcanos_queues_are_known_where_sets_may_be_for_it(unused_tcp_port: int) -> None:
    rig = await site()
    await rig.client.create(crd_manifest(replace_dataclass(resource_of(Queue), subresources=())))
    await rig.client.create(Queue(metadata=ObjectMeta(name="default"), status=QueueStatus(state="Open")))
    profiles = (SchedulerProfile(name="volcano"), SchedulerProfile(name="default-scheduler"))
    configuration = OperatorConfiguration(scheduler=SchedulerConfiguration(profiles=profiles))
    async with webhooks(rig, unused_tcp_port, configuration):
        for_volcano = document("s")
        for_volcano["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulerName"] = "volcano"
        await rig.client.create(for_volcano)
        for_volcano["metadata"].update(name="t", annotations={"scheduling.grove.io/volcano-queue": "other"})
        with pytest.raises(Forbidden, match='volcano queue "other" does not exist'):
            await rig.client.create(for_volcano)
