"""A pod is bound when its volumes are: claims that waited for a node get a volume there, or nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from bosket.api.kai import BindRequest, PluginConfig
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.storage import StorageClass
from bosket.kube.volume import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    choice_annotations,
)
from bosket.services.binder import Attempt, BindPlugin, Options
from bosket.testing.faults import FaultyTransport, hang_up, matching, refuse
from tests.binder.scene import NODE, Ledger, ask, binder, finished, node, pod
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime

LOCAL = StorageClass(
    metadata=ObjectMeta(name="local"),
    provisioner="kubernetes.io/no-provisioner",
    volumeBindingMode="WaitForFirstConsumer",
)
MADE = StorageClass(
    metadata=ObjectMeta(name="made"), provisioner="example.com/disk", volumeBindingMode="WaitForFirstConsumer"
)
CLAIM = matching("PATCH", "/persistentvolumeclaims/data")
DISK = matching("PATCH", "/persistentvolumes/disk")


def user(name: str = "a", claim: str = "data") -> Pod:
    source = PersistentVolumeClaimVolumeSource(claimName=claim)
    plain = pod(name)
    return replace(plain, spec=replace(plain.spec, volumes=(Volume(name="v", persistentVolumeClaim=source),)))


def claim(storage_class: str = "local", *, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace=NAMESPACE),
        spec=PersistentVolumeClaimSpec(
            storageClassName=storage_class,
            accessModes=modes,
            resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
        ),
    )


def disk(name: str = "disk", *, on: str = NODE, size: str = "1Gi") -> PersistentVolume:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(on,))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchFields=(field,)),))
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            storageClassName="local",
            accessModes=("ReadWriteOnce",),
            capacity={"storage": size},
            nodeAffinity=VolumeNodeAffinity(required=required),
        ),
    )


async def scene(*objects: KubeObject) -> Rig:
    rig = await make_rig([node(), LOCAL, MADE, *objects])
    for each in objects:
        if isinstance(each, PersistentVolume):
            found = await rig.client.get(PersistentVolume, each.metadata.name)
            free = replace(found, status=PersistentVolumeStatus(phase="Available"))
            await rig.client.modify(found, free, subresource="status")
    return rig


async def choosing(rig: Rig, volume: str, pod_name: str = "a", **fields: Any) -> BindRequest:
    """A request with the scheduler's choice."""
    request = await ask(rig, pod_name, **fields)
    meta = replace(request.metadata, annotations=choice_annotations({"data": volume}))
    return await rig.client.modify(request, replace(request, metadata=meta))


async def read(rig: Rig, name: str = "data") -> PersistentVolumeClaim:
    return await rig.client.get(PersistentVolumeClaim, name, NAMESPACE)


async def reference(rig: Rig, name: str = "disk") -> ObjectReference | None:
    return (await rig.client.get(PersistentVolume, name)).spec.claimRef


async def complete(rig: Rig, volume: str) -> None:
    """What the volume controller does in the end."""
    before = await read(rig)
    meta = replace(before.metadata, annotations={**before.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"})
    await rig.client.modify(before, replace(before, metadata=meta, spec=replace(before.spec, volumeName=volume)))
    bound = await read(rig)
    await rig.client.modify(
        bound, replace(bound, status=PersistentVolumeClaimStatus(phase="Bound")), subresource="status"
    )


async def selected(rig: Rig) -> str | None:
    return (await read(rig)).metadata.annotations.get(SELECTED_NODE_ANNOTATION)


async def test_the_volume_that_was_chosen_is_promised_to_the_claim_and_then_the_pod_is_bound() -> None:
    rig = await scene(user(), claim(), disk(), disk("other"))
    await choosing(rig, "other")
    async with rig.running(binder()):
        await rig.until(lambda: reference(rig, "other"))
        assert (await rig.client.get(Pod, "a", NAMESPACE)).spec.nodeName == ""
        found = await rig.client.get(PersistentVolume, "other")
        assert found.spec.claimRef is not None
        assert found.spec.claimRef.uid == (await read(rig)).metadata.uid
        assert BOUND_BY_CONTROLLER_ANNOTATION in found.metadata.annotations
        await complete(rig, "other")
        await finished(rig)
    assert (await rig.client.get(Pod, "a", NAMESPACE)).spec.nodeName == NODE
    assert await reference(rig) is None


async def test_where_a_volume_is_to_be_made_the_claim_is_told_the_node() -> None:
    rig = await scene(user(), claim("made"))
    await choosing(rig, "")
    async with rig.running(binder()):
        await rig.until(lambda: selected(rig))
        assert await selected(rig) == NODE
        await rig.apply(disk("new"))
        await complete(rig, "new")
        await finished(rig)


async def test_a_scheduler_that_says_nothing_leaves_the_choice_to_the_binder() -> None:
    rig = await scene(user(), claim(), disk("far", on="elsewhere"), disk("large", size="5Gi"), disk("right"))
    await ask(rig)
    async with rig.running(binder()):
        await rig.until(lambda: reference(rig, "right"))
        await complete(rig, "right")
        await finished(rig)
    assert await reference(rig, "large") is None


async def test_waiting_for_volumes_holds_up_nobody_else() -> None:
    rig = await scene(user(), user("b"), claim("made"), pod("c"))
    await choosing(rig, "")
    await choosing(rig, "", "b")
    await ask(rig, "c")
    async with rig.running(binder(options=Options(max_concurrent_reconciles=1))):
        await finished(rig, "c")
        assert (await rig.client.get(BindRequest, "a", NAMESPACE)).status.phase == ""
        await rig.apply(disk("new"))
        await complete(rig, "new")
        await finished(rig, "a")
        await finished(rig, "b")


async def test_a_provisioner_that_gives_the_node_up_fails_the_attempt() -> None:
    rig = await scene(user(), claim("made"))
    await choosing(rig, "")
    async with rig.running(binder()):
        await rig.until(lambda: selected(rig))
        before = await read(rig)
        await rig.client.modify(before, replace(before, metadata=replace(before.metadata, annotations={})))
        request = await finished(rig, phase="Failed")
    assert f"no volume could be made for persistentvolumeclaim {NAMESPACE}/data on node {NODE}" in request.status.reason
    assert await selected(rig) is None


TIMEOUTS = {
    "flag": Options(volume_binding_timeout_seconds=30),
    "argument": Options(plugins={"volumebinding": PluginConfig(arguments={"bindTimeoutSeconds": "30"})}),
}


@pytest.mark.parametrize("said_by", TIMEOUTS)
@pytest.mark.parametrize("volume", ["disk", ""])
async def test_volumes_that_take_too_long_fail_the_attempt_and_nothing_is_left_of_it(volume: str, said_by: str) -> None:
    rig = await scene(user(), claim("local" if volume else "made"), disk())
    await choosing(rig, volume)
    async with rig.running(binder(options=TIMEOUTS[said_by])):
        request = await finished(rig, phase="Failed")
    assert "persistentvolumeclaims data were not bound within 30 s" in request.status.reason
    assert await selected(rig) is None
    assert await reference(rig) is None


class Failing(BindPlugin):
    name = "failing"

    async def pre_bind(self, attempt: Attempt) -> None:
        raise RuntimeError("it was not meant to be")


async def test_what_is_bound_stays_so_when_another_plugin_fails() -> None:
    rig = await scene(user(), claim(), disk())
    await choosing(rig, "disk")
    async with rig.running(binder(Failing())):
        await rig.until(lambda: reference(rig))
        await complete(rig, "disk")
        await finished(rig, phase="Failed")
    assert await reference(rig) is not None


async def test_a_claim_that_another_pod_of_the_node_waits_for_is_not_taken_from_it() -> None:
    rig = await scene(user(), user("b"), claim("made"))
    await choosing(rig, "")
    async with rig.running(binder(options=Options(volume_binding_timeout_seconds=30))):
        await rig.until(lambda: selected(rig))
        await rig.clock.sleep(20)
        await choosing(rig, "", "b")
        await finished(rig, "a", phase="Failed")
        assert await selected(rig) == NODE
        await rig.apply(disk("new"))
        await complete(rig, "new")
        await finished(rig, "b")


async def test_a_claim_for_which_a_volume_is_made_elsewhere_is_refused_unless_many_nodes_may_use_it() -> None:
    for mode in ("ReadWriteOnce", "ReadWriteMany"):
        wanted = claim("made", modes=(mode,))
        meta = replace(wanted.metadata, annotations={SELECTED_NODE_ANNOTATION: "elsewhere"})
        rig = await scene(user(), replace(wanted, metadata=meta))
        await choosing(rig, "")
        async with rig.running(binder()):
            if mode == "ReadWriteOnce":
                request = await finished(rig, phase="Failed")
                assert "is being made for persistentvolumeclaim" in request.status.reason
                assert await selected(rig) == "elsewhere", "what others wrote was taken back"
            else:
                await rig.apply(disk("new"))
                await complete(rig, "new")
                await finished(rig)


REFUSED: dict[str, tuple[list[KubeObject], str, str]] = {
    "no claim": ([disk()], "disk", f"persistentvolumeclaim {NAMESPACE}/data was not found"),
    "volume gone": ([claim()], "disk", "persistentvolume disk, chosen for persistentvolumeclaim"),
    "volume elsewhere": ([claim(), disk(on="elsewhere")], "disk", f"can't be reached from node {NODE}"),
    "volume too small": ([claim(), disk(size="1Mi")], "disk", "is not what persistentvolumeclaim"),
    "class gone": ([claim("gone"), disk()], "", "is not bound, and its class doesn't wait for a pod"),
    "nothing can be made": ([claim(), disk()], "", "there is no persistentvolume for persistentvolumeclaim"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_what_can_not_be_is_a_failure_that_names_the_object(kind: str) -> None:
    objects, volume, reason = REFUSED[kind]
    rig = await scene(user(), *objects)
    await choosing(rig, volume)
    async with rig.running(binder()):
        request = await finished(rig, phase="Failed")
    assert reason in request.status.reason
    volumes = (await rig.client.list(PersistentVolume)).items
    assert all(each.spec.claimRef is None for each in volumes)


FAULTS = {
    "claim, answer lost": lambda: hang_up(CLAIM, after_effect=True),
    "claim, conflict": lambda: refuse(CLAIM, 409, reason="Conflict"),
    "claim, errors": lambda: refuse(CLAIM, 500, times=2),
    "volume, answer lost": lambda: hang_up(DISK, after_effect=True),
    "volume, conflict": lambda: refuse(DISK, 409, reason="Conflict"),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_lost_answer_or_a_conflict_changes_nothing_in_the_end(kind: str) -> None:
    chosen = "" if kind.startswith("claim") else "disk"
    rig = await scene(user(), claim("local" if chosen else "made"), disk())
    await choosing(rig, chosen, limit=5)
    fault = FAULTS[kind]()
    async with rig.running(binder(), FaultyTransport(Ledger(rig.server.transport()), [fault])):
        await rig.until(lambda: reference(rig) if chosen else selected(rig))
        if not chosen:
            await rig.apply(disk("new"))
        await complete(rig, chosen or "new")
        await finished(rig)
    assert fault.struck > 0


@pytest.mark.parametrize("volume", ["disk", ""])
async def test_another_binder_goes_on_where_one_was_cut_short(volume: str) -> None:
    rig = await scene(user(), claim("local" if volume else "made"), disk())
    await choosing(rig, volume)
    async with rig.running(binder()):
        await rig.until(lambda: reference(rig) if volume else selected(rig))
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        if not volume:
            await rig.apply(disk("new"))
        await complete(rig, volume or "new")
        await finished(rig)
    assert not [each for each in ledger.writes() if "persistentvolume" in each], "what was there was written again"


async def test_a_volume_that_cannot_be_reached_any_more_is_not_bound_to() -> None:
    rig = await scene(user(), claim(), disk(on="elsewhere"))
    await complete(rig, "disk")
    await ask(rig)
    async with rig.running(binder()):
        request = await finished(rig, phase="Failed")
    assert "can't be reached" in request.status.reason
