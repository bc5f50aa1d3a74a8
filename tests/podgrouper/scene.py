"""Workloads on a rig, and what the pod grouper made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bosket.api import keys
from bosket.api.batch import Job, JobSpec
from bosket.api.core import Container, Pod, PodSpec, PodTemplateSpec
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.api.scheduling_k8s import PriorityClass
from bosket.runtime.service import Environment, Service
from bosket.services.podgrouper import Options, service
from tests.rig import NAMESPACE, Rig, make_rig


def grouper(environment: Environment) -> Service:
    return service(environment, Options())


def grouper_with(options: Options) -> Callable[[Environment], Service]:
    return lambda environment: service(environment, options)


async def scene() -> Rig:
    """A namespace and KAI's priority classes."""
    return await make_rig(
        PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in keys.PRIORITY_CLASSES.items()
    )


def _spec() -> PodSpec:
    return PodSpec(
        containers=(Container(name="main", image="img"),), schedulerName=keys.SCHEDULER_NAME, restartPolicy="Never"
    )


async def make_pod(
    rig: Rig, name: str, owner: OwnerReference | None = None, group: str | None = None, **labels: str
) -> Pod:
    """`group`: the one that the pod says it belongs to when it arrives."""
    metadata = ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        labels=labels,
        annotations={keys.POD_GROUP_ANNOTATION: group} if group is not None else {},
        ownerReferences=(owner,) if owner is not None else (),
    )
    return await rig.client.create(Pod(metadata=metadata, spec=_spec()))


async def make_job(rig: Rig, name: str = "train", *, minimum: str | None = None, queue: str = "q") -> OwnerReference:
    annotations = {keys.BATCH_MIN_MEMBER_ANNOTATION: minimum} if minimum is not None else {}
    job = await rig.client.create(
        Job(
            metadata=ObjectMeta(
                name=name, namespace=NAMESPACE, labels={keys.QUEUE_LABEL: queue}, annotations=annotations
            ),
            spec=JobSpec(parallelism=4, template=PodTemplateSpec(spec=_spec())),
        )
    )
    return OwnerReference(apiVersion="batch/v1", kind="Job", name=name, uid=job.metadata.uid, controller=True)


async def make_gang(rig: Rig, size: int, **job: str) -> list[str]:
    owner = await make_job(rig, **job)
    names = [f"train-{number}" for number in range(size)]
    for name in names:
        await make_pod(rig, name, owner)
    return names


async def grouped(rig: Rig, names: Sequence[str]) -> PodGroup:
    """The one group of all these pods, as soon as all of them say so."""

    async def look() -> set[str]:
        pods = {each.metadata.name: each for each in (await rig.client.list(Pod, NAMESPACE)).items}
        found = {pods[name].metadata.annotations.get(keys.POD_GROUP_ANNOTATION, "") for name in names}
        return found if "" not in found else set()

    (group,) = await rig.until(look)
    return await rig.client.get(PodGroup, group, NAMESPACE)
