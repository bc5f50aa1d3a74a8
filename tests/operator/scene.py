"""A cluster with an operator on it, and what tests ask of it."""

from __future__ import annotations

from typing import Any

from bosket.api.apps import Deployment
from bosket.api.core import Namespace
from bosket.api.crd import crd_manifests
from bosket.api.kai.config import CONFIG_NAME, Config, ConfigSpec
from bosket.api.kai.shard import SchedulingShard, SchedulingShardSpec
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.object import Condition, ObjectMeta
from bosket.kube.codec import codec_of, untyped
from tests.rig import Rig, make_rig


async def make_scene() -> Rig:
    rig = await make_rig([Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE))])
    for manifest in crd_manifests():
        if manifest["spec"]["names"]["kind"] in ("Config", "SchedulingShard"):
            await rig.client.create(manifest)
    return rig


def config(**spec: Any) -> Config:
    return Config(metadata=ObjectMeta(name=CONFIG_NAME), spec=ConfigSpec(**spec))


def shard(name: str = "default", **spec: Any) -> SchedulingShard:
    return SchedulingShard(metadata=ObjectMeta(name=name), spec=SchedulingShardSpec(**spec))


async def names(rig: Rig, kind: Any) -> list[str]:
    """Of the operator's objects of a kind."""
    page = await rig.client.list(untyped(codec_of(kind).resource), labels="app.kubernetes.io/managed-by=kai-operator")
    return sorted(each["metadata"]["name"] for each in page.items)


async def raw(rig: Rig, kind: Any, name: str) -> dict[str, Any]:
    resource = untyped(codec_of(kind).resource)
    return await rig.client.get(resource, name, SYSTEM_NAMESPACE if resource.namespaced else None)


async def become_available(rig: Rig, *deployments: str) -> None:
    """As the Deployment controller and kubelets would."""
    for name in deployments:
        found = await rig.client.get(Deployment, name, SYSTEM_NAMESPACE)
        status = {
            "observedGeneration": found.metadata.generation,
            "replicas": found.spec.replicas,
            "updatedReplicas": found.spec.replicas,
            "readyReplicas": found.spec.replicas,
            "availableReplicas": found.spec.replicas,
            "conditions": [{"type": "Available", "status": "True"}],
        }
        await rig.client.patch(Deployment, name, {"status": status}, namespace=SYSTEM_NAMESPACE, subresource="status")


async def conditions_of(rig: Rig, owner: Config | SchedulingShard) -> dict[str, Condition]:
    found = await _again(rig, owner)
    return {each.type: each for each in found.status.conditions}


async def _again(rig: Rig, owner: Config | SchedulingShard) -> Config | SchedulingShard:
    if isinstance(owner, Config):
        return await rig.client.get(Config, owner.metadata.name)
    return await rig.client.get(SchedulingShard, owner.metadata.name)


async def condition(rig: Rig, owner: Config | SchedulingShard, type_: str, status: str) -> Condition:
    """As soon as it is so, for the generation that there is."""

    async def so() -> Condition | None:
        found = await _again(rig, owner)
        told = {each.type: each for each in found.status.conditions}.get(type_)
        if told is None or told.status != status or told.observedGeneration != found.metadata.generation:
            return None
        return told

    result: Condition = await rig.until(so)
    return result
