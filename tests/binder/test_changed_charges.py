"""Whoever may edit a pod may edit its labels: what the pod was charged with is put back, and its GPU stays reserved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bosket.api import keys
from bosket.api.charge import as_charged, charge_annotations
from bosket.api.core import ConfigMap, EnvVar, EnvVarSource, Pod
from bosket.api.core.container import ConfigMapKeySelector
from bosket.api.kai import BindRequest, BindRequestSpec, ReceivedGPU
from bosket.api.object import ObjectMeta
from bosket.api.shared_gpu import gpu_groups
from bosket.services.binder.reservation_pod import reservation_name
from tests.binder.scene import ask, binder
from tests.binder.sharing_scene import (
    NODE,
    RESERVATIONS,
    bound,
    delete_pod,
    gone,
    node_running,
    share,
    sharing_pod,
    sharing_rig,
    the_pod,
)
from tests.rig import NAMESPACE, Lagging, Rig

GROUP = keys.GPU_GROUP_LABEL


async def reservation_uid(rig: Rig, group: str = "g") -> str:
    return (await rig.client.get(Pod, reservation_name(NODE, group), RESERVATIONS)).metadata.uid


async def edit(rig: Rig, name: str = "a", **metadata: Any) -> None:
    await rig.client.patch(Pod, name, {"metadata": metadata}, namespace=NAMESPACE)


async def restored(rig: Rig, name: str, groups: tuple[str, ...]) -> None:
    async def look() -> bool:
        return gpu_groups((await the_pod(rig, name)).metadata.labels) == groups

    await rig.until(look)


@pytest.mark.looptime
@pytest.mark.parametrize("value", [None, "", "another"])
async def test_a_running_pod_keeps_its_gpu_when_its_label_is_taken_off_or_changed(value: str | None) -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        before = await reservation_uid(rig)
        await edit(rig, labels={GROUP: value})
        await restored(rig, "a", ("g",))
        await rig.clock.sleep(120)
        assert await reservation_uid(rig) == before
        events = await rig.until(lambda: rig.events("ChargeRestored"))
        assert 'label runai-gpu-group="g"' in events[0].message
        assert f"{NAMESPACE}/a" in events[0].message
        await delete_pod(rig, "a")
        await gone(rig, reservation_name(NODE, "g"), RESERVATIONS)


@pytest.mark.looptime
async def test_labels_of_several_devices_that_were_taken_off_while_no_binder_ran_are_put_back() -> None:
    rig = await sharing_rig(sharing_pod("a", devices=2))
    await share(rig, "a", "g", "h")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        before = await reservation_uid(rig, "h")
    await edit(rig, labels={f"{GROUP}/g": None, f"{GROUP}/h": None}, annotations={"gpu-fraction-num-devices": None})
    async with node_running(rig), rig.running(binder()):
        await restored(rig, "a", ("g", "h"))
        assert (await the_pod(rig)).metadata.annotations["gpu-fraction-num-devices"] == "2"
        assert await reservation_uid(rig, "h") == before


@pytest.mark.looptime
async def test_a_pod_whose_group_nobody_can_tell_any_more_keeps_what_is_reserved_on_its_node() -> None:
    """Label, annotations and request are gone; that it reads its devices from a ConfigMap is in its spec."""
    reads = EnvVar(
        name="NVIDIA_VISIBLE_DEVICES",
        valueFrom=EnvVarSource(configMapKeyRef=ConfigMapKeySelector(name="a-shared-gpu-0", key="K", optional=True)),
    )
    rig = await sharing_rig(sharing_pod("a", env=(reads,)))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        before = await reservation_uid(rig)
        await rig.client.delete(BindRequest, "a", NAMESPACE)
        said = (await the_pod(rig)).metadata.annotations
        await edit(rig, labels={GROUP: None}, annotations=dict.fromkeys(said))
        await rig.clock.sleep(120)
        assert await reservation_uid(rig) == before
        await delete_pod(rig, "a")
        await gone(rig, reservation_name(NODE, "g"), RESERVATIONS)


@pytest.mark.looptime
async def test_a_binder_whose_watch_is_late_does_not_let_go_of_the_gpu_of_a_pod_without_its_label() -> None:
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"), gpus=1)
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
    before = await reservation_uid(rig)
    async with rig.running(binder(), Lagging(rig.server.transport(), "pods", 120.0)), node_running(rig):
        await rig.clock.sleep(1)
        await edit(rig, labels={GROUP: None})
        await share(rig, "b", "h", limit=1)  # finds no GPU free, and has every reservation of the node looked at
        await rig.clock.sleep(60)
        assert await reservation_uid(rig) == before


@pytest.mark.looptime
async def test_a_pod_that_shares_nothing_cannot_join_a_group_by_a_label() -> None:
    rig = await sharing_rig(
        sharing_pod("a"), replace(sharing_pod("b"), metadata=ObjectMeta(name="b", namespace=NAMESPACE))
    )
    await share(rig, "a", "g")
    await ask(rig, "b", to=NODE)
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a", "b")
        await edit(rig, "b", labels={GROUP: "g"})
        await restored(rig, "b", ())


@pytest.mark.looptime
async def test_a_pod_cannot_leave_its_pod_group_or_ask_for_less_once_it_runs() -> None:
    """The scheduler's requests say by which annotations a pod was charged."""
    charged = {keys.POD_GROUP_ANNOTATION: "pg-a"}
    rig = await sharing_rig(sharing_pod("a", fraction="0.5", annotations=charged))
    said = (await the_pod(rig)).metadata.annotations
    request = await share(rig, "a", "g", portion="0.50")
    note = {"metadata": {"annotations": charge_annotations(await the_pod(rig))}}
    await rig.client.patch(BindRequest, "a", note, namespace=NAMESPACE)
    async with node_running(rig), rig.running(binder()):
        await bound(rig, request.metadata.name)
        changes = {"gpu-fraction": "0.01", "pod-group-name": None, "received-resource-type": "Regular"}
        await edit(rig, annotations=changes)

        async def look() -> bool:
            now = (await the_pod(rig)).metadata.annotations
            return said.items() <= now.items() and now["received-resource-type"] == "Fraction"

        await rig.until(look)


@pytest.mark.looptime
async def test_a_bound_pod_that_names_another_pod_group_is_put_back_whoever_owns_it() -> None:
    """The pod grouper, which groups pods by their owners, leaves bound pods alone."""
    charged = {keys.POD_GROUP_ANNOTATION: "pg-a"}
    rig = await sharing_rig(sharing_pod("a", annotations=charged))
    await share(rig, "a", "g")
    note = {"metadata": {"annotations": charge_annotations(await the_pod(rig))}}
    await rig.client.patch(BindRequest, "a", note, namespace=NAMESPACE)
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        made = await rig.client.create(ConfigMap(metadata=ObjectMeta(name="decoy", namespace=NAMESPACE)))
        decoy = {"apiVersion": "v1", "kind": "ConfigMap", "name": "decoy", "uid": made.metadata.uid}
        await edit(rig, ownerReferences=[decoy], annotations={keys.POD_GROUP_ANNOTATION: "pg-decoy"})

        async def look() -> bool:
            return charged.items() <= (await the_pod(rig)).metadata.annotations.items()

        await rig.until(look)


_KEYS = st.sampled_from(
    ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "pod-group-name", "received-resource-type", "other"]
)
_LABELS = st.sampled_from([GROUP, f"{GROUP}/g", f"{GROUP}/h", "kept"])
_TEXT = st.sampled_from(["", "0.1", "0.25", "1", "2", "g", "h", "Fraction", "Regular"])


@given(
    labels=st.dictionaries(_LABELS, _TEXT),
    annotations=st.dictionaries(_KEYS, _TEXT),
    groups=st.sampled_from([("g",), ("g", "h")]),
    told=st.booleans(),
)
def test_whatever_is_edited_accounts_are_put_back_and_the_rest_is_left(
    labels: dict[str, str], annotations: dict[str, str], groups: tuple[str, ...], told: bool
) -> None:
    original = sharing_pod("a", devices=len(groups), annotations={"pod-group-name": "pg"})
    request = BindRequest(
        metadata=ObjectMeta(name="a", namespace=NAMESPACE, annotations=charge_annotations(original) if told else {}),
        spec=BindRequestSpec(
            podName="a",
            selectedNode=NODE,
            receivedResourceType="Fraction",
            receivedGPU=ReceivedGPU(count=len(groups), portion="0.25"),
            selectedGPUGroups=groups,
        ),
    )
    meta = replace(original.metadata, labels=labels, annotations=annotations)
    after = as_charged(replace(original, metadata=meta), request)
    assert gpu_groups(after.metadata.labels) == groups
    assert after.metadata.labels.get("kept") == labels.get("kept")
    assert after.metadata.annotations.get("other") == annotations.get("other")
    assert after.metadata.annotations["received-resource-type"] == "Fraction"
    assert as_charged(after, request) is after
    if told:
        kept = {
            key: value
            for key, value in original.metadata.annotations.items()
            if key != keys.SHARED_GPU_CONFIG_MAP_ANNOTATION
        }
        assert kept.items() <= after.metadata.annotations.items()
        assert "gpu-memory" not in after.metadata.annotations
