"""Gangs and their surroundings, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from bosket.api import keys
from bosket.api.core import Container, Pod, PodCondition, PodSpec, PodStatus
from bosket.api.crd import crd_manifests
from bosket.api.grove import (
    GangPackConstraint,
    GangPodGroup,
    GangTopologyConstraint,
    NamespacedName,
    PodCliqueScalingGroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplateSpec,
    PodCliqueSpec,
    PodCliqueTemplateSpec,
    PodGang,
    PodGangSpec,
)
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.ownership import controller_reference
from bosket.api.table import resource_of
from bosket.grove.backends import SchedulerBackend, Surroundings
from tests.rig import NAMESPACE, Rig, make_rig


def pack(required: str | None = None, preferred: str | None = None) -> GangTopologyConstraint:
    return GangTopologyConstraint(packConstraint=GangPackConstraint(required=required, preferred=preferred))


def part(
    name: str, minimum: int = 1, *, pods: int | None = None, topology: GangTopologyConstraint | None = None
) -> GangPodGroup:
    """A pod group with so many pods, by default its minimum."""
    references = tuple(
        NamespacedName(namespace=NAMESPACE, name=f"{name}-{index}")
        for index in range(minimum if pods is None else pods)
    )
    return GangPodGroup(name=name, podReferences=references, minReplicas=minimum, topologyConstraint=topology)


def pod_gang(
    name: str,
    *parts: GangPodGroup,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: PodCliqueSet | None = None,
    uid: str = "u1",
    **spec: object,
) -> PodGang:
    metadata = ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        uid=uid,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        ownerReferences=(controller_reference(owner),) if owner is not None else (),
    )
    return PodGang(metadata=metadata, spec=msgspec.structs.replace(PodGangSpec(podgroups=parts), **spec))


def clique(name: str, *, labels: Mapping[str, str] | None = None, **spec: object) -> PodCliqueTemplateSpec:
    pod_spec = PodSpec(containers=(Container(name="main", image="example.test/app:1"),))
    return PodCliqueTemplateSpec(
        name=name,
        labels=dict(labels or {}),
        spec=PodCliqueSpec(roleName=name, replicas=1, podSpec=msgspec.structs.replace(pod_spec, **spec)),
    )


def clique_set(
    name: str,
    *cliques: PodCliqueTemplateSpec,
    labels: Mapping[str, str] | None = None,
    groups: tuple[PodCliqueScalingGroupConfig, ...] = (),
) -> PodCliqueSet:
    template = PodCliqueSetTemplateSpec(cliques=cliques, podCliqueScalingGroups=groups)
    metadata = ObjectMeta(name=name, namespace=NAMESPACE, uid=f"uid-{name}", labels=dict(labels or {}))
    return PodCliqueSet(metadata=metadata, spec=PodCliqueSetSpec(replicas=1, template=template))


def member(gang: str, part_name: str, index: int = 0, *, node: str = "", ready: bool = False, **spec: object) -> Pod:
    """A pod of a gang; on a node it runs."""
    conditions = (PodCondition(type="Ready", status="True" if ready else "False"),)
    labels = {keys.GROVE_POD_GANG_LABEL: gang, keys.GROVE_POD_CLIQUE_LABEL: part_name}
    base = PodSpec(containers=(Container(name="main", image="example.test/app:1"),), nodeName=node)
    return Pod(
        metadata=ObjectMeta(name=f"{part_name}-{index}", namespace=NAMESPACE, labels=labels),
        spec=msgspec.structs.replace(base, **spec),
        status=PodStatus(phase="Running" if node else "Pending", conditions=conditions),
    )


def serving(*kinds: type[KubeObject]) -> frozenset[tuple[str, str]]:
    return frozenset((resource.api_version, resource.kind) for resource in map(resource_of, kinds))


def around(backend: SchedulerBackend, **about: object) -> Surroundings:
    """A cluster that serves what the backend needs."""
    return Surroundings(**{"served": serving(*backend.kinds, *backend.reads), **about})  # type: ignore[arg-type]


@cache
def _definitions() -> list[dict[str, Any]]:
    return [each for each in crd_manifests() if each["spec"]["group"].endswith("grove.io")]


async def grove_rig(*objects: KubeObject) -> Rig:
    """A rig with Grove's kinds beside KAI's."""
    rig = await make_rig()
    for manifest in _definitions():
        await rig.client.create(manifest)
    await rig.apply(*objects)
    return rig
