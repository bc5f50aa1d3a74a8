"""Each PodGang that Grove's operator was recorded with becomes the PodGroup that Grove made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import PodCliqueSet, PodGang
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.volcano import PodGroup as VolcanoPodGroup
from bosket.grove.backends import Registry, SchedulerBackend, prepare_pod
from bosket.grove.backends.backend import owned_metadata
from bosket.grove.backends.catalogue import load_backends
from tests.conformance.cases import conformance_folder
from tests.grove_backends.scene import around

FOLDER = conformance_folder("grove/cases")
KINDS: dict[str, type[KubeObject]] = {
    "scheduling.run.ai/v2alpha2": PodGroup,
    "scheduling.volcano.sh/v1beta1": VolcanoPodGroup,
}
pytestmark = pytest.mark.shared("conformance/grove/cases", cases=9)


def dumps() -> Iterator[Any]:
    """The objects after each step of a case whose gangs KAI or Volcano schedules."""
    for file in sorted(FOLDER.glob("*.json")) if FOLDER is not None else ():
        for number, step in enumerate(json.loads(file.read_text())["steps"]):
            if any(each["apiVersion"] in KINDS and each["kind"] == "PodGroup" for each in step["objects"]):
                yield pytest.param(step["objects"], id=f"{file.stem}-{number}")


def of_kind(objects: list[dict[str, Any]], kind: str, struct: type[Any], version: str = "") -> dict[str, Any]:
    found = [each for each in objects if each["kind"] == kind and each["apiVersion"].startswith(version)]
    return {each["metadata"]["name"]: msgspec.convert(each, struct) for each in found}


def backend_of(gang: PodGang) -> SchedulerBackend:
    return Registry(load_backends()).of_gang(gang)


@pytest.mark.parametrize("objects", list(dumps()))
def test_recorded_gangs_become_the_recorded_pod_groups(objects: list[dict[str, Any]]) -> None:
    sets = of_kind(objects, "PodCliqueSet", PodCliqueSet)
    compared = 0
    for gang in of_kind(objects, "PodGang", PodGang).values():
        backend = backend_of(gang)
        (kind,) = backend.kinds
        version = next(version for version, each in KINDS.items() if each is kind)
        recorded = of_kind(objects, "PodGroup", kind, version)[gang.metadata.name]
        owner = sets[gang.metadata.ownerReferences[0].name]
        (made,) = backend.sync(gang, around(backend, owner=owner)).objects
        # A live group keeps what is its own: only then are both the same.
        assert backend.update(recorded, made) == recorded
        assert comparable(made) == comparable(recorded)
        compared += 1
    assert compared


@pytest.mark.parametrize("objects", list(dumps()))
def test_recorded_pods_carry_what_their_scheduler_wants(objects: list[dict[str, Any]]) -> None:
    gangs = of_kind(objects, "PodGang", PodGang)
    sets = of_kind(objects, "PodCliqueSet", PodCliqueSet)
    for pod in of_kind(objects, "Pod", Pod).values():
        gang = gangs[pod.metadata.labels[keys.GROVE_POD_GANG_LABEL]]
        backend = backend_of(gang)
        bare = msgspec.structs.replace(pod, metadata=without_additions(pod.metadata))
        owner = sets[gang.metadata.ownerReferences[0].name]
        # Grove names the group like the gang; where such a one exists, so do we.
        metadata = owned_metadata(gang, gang.metadata.name)
        there = around(backend, owner=owner, owned=(backend.kinds[0](metadata=metadata),))
        there = around(backend, owner=owner, owned=backend.sync(gang, there).objects)
        prepared = prepare_pod(backend, gang, bare, there)
        assert prepared == pod


def without_additions(metadata: ObjectMeta) -> ObjectMeta:
    labels = {key: value for key, value in metadata.labels.items() if key != keys.SUBGROUP_LABEL}
    return msgspec.structs.replace(metadata, labels=labels, annotations={})


def comparable(group: Any) -> object:
    """Without the name and what the server gives; an absent constraint is an empty one; queues stay what they were."""
    spec = msgspec.to_builtins(group.spec)
    spec.pop("queue", None)
    if not spec.get("topologyConstraint"):
        spec.pop("topologyConstraint", None)
    labels = {key: value for key, value in group.metadata.labels.items() if key != keys.QUEUE_LABEL}
    return spec, labels, group.metadata.annotations, group.metadata.ownerReferences
