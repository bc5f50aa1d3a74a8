"""GPUs that can't be had, and requests that make no sense: what is said about them, and that nothing is left behind."""

from __future__ import annotations

import pytest

from bosket.api import keys
from bosket.api.core import ConfigMap, Container, Namespace, Pod, PodCondition, PodSpec, ResourceRequirements
from bosket.api.kai import BindRequest, PluginConfig
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.services.binder import Attempt, BindPlugin, Options
from bosket.services.binder.reservation_pod import reservation_name
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.binder.scene import binder, finished
from tests.binder.sharing_scene import (
    NODE,
    NOTHING,
    RESERVATIONS,
    bound,
    maps_of,
    node_running,
    settled_to,
    share,
    sharing_pod,
    sharing_rig,
    the_pod,
    traces,
)
from tests.rig import NAMESPACE, Lagging, Rig

pytestmark = pytest.mark.looptime


async def failed(rig: Rig, name: str = "a") -> str:
    """Why the request failed; what it had made must be gone by then."""
    request = await finished(rig, name, phase="Failed")
    return request.status.reason


async def test_a_reservation_that_names_no_device_in_time_fails_the_bind(looptime: float) -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig, with_devices=False), rig.running(binder()):
        reason = await failed(rig)
    assert reason == (
        f"failed waiting for GPU reservation pod to allocate: {RESERVATIONS}/{reservation_name(NODE, 'g')} "
        f"on node {NODE} named no device within 40 s"
    )
    assert 40 <= looptime < 42
    assert await traces(rig) == NOTHING
    assert (await the_pod(rig)).metadata.labels == {"kept": "yes"}
    assert keys.RECEIVED_RESOURCE_TYPE_ANNOTATION not in (await the_pod(rig)).metadata.annotations


async def test_a_watch_that_lags_does_not_fail_a_bind() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder(), Lagging(rig.server.transport(), "pods", 300.0)):
        await finished(rig)


async def test_a_reservation_that_the_node_refuses_fails_the_bind_at_once_with_the_nodes_words(looptime: float) -> None:
    whole = Pod(
        metadata=ObjectMeta(name="whole", namespace=NAMESPACE),
        spec=PodSpec(
            nodeName=NODE,
            containers=(
                Container(name="main", image="img", resources=ResourceRequirements(limits={"nvidia.com/gpu": "1"})),
            ),
        ),
    )
    rig = await sharing_rig(sharing_pod(), whole, gpus=1)
    async with node_running(rig), rig.running(binder()):
        await rig.clock.sleep(1)
        await share(rig, "a", "g")
        reason = await failed(rig)
    assert looptime < 5
    assert reason.startswith(
        f"reservation pod {RESERVATIONS}/{reservation_name(NODE, 'g')} could not run on node {NODE}"
    )
    assert "OutOfnvidia.com/gpu" in reason
    assert await traces(rig) == NOTHING


def scaling_pod(*, finalizers: tuple[str, ...] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="scaling", namespace=keys.SCALE_ADJUST_NAMESPACE, finalizers=finalizers),
        spec=PodSpec(containers=(Container(name="main", image="img"),)),
    )


async def scaling_rig(pod: Pod) -> Rig:
    rig = await sharing_rig()
    await rig.apply(Namespace(metadata=ObjectMeta(name=keys.SCALE_ADJUST_NAMESPACE)), pod)
    waiting = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    await rig.client.patch(
        Pod,
        "scaling",
        {"status": {"conditions": [waiting]}},
        namespace=keys.SCALE_ADJUST_NAMESPACE,
        subresource="status",
    )
    await share(rig, "a", "g")
    return rig


async def test_no_gpu_is_reserved_while_the_cluster_grows() -> None:
    rig = await scaling_rig(scaling_pod())
    async with node_running(rig), rig.running(binder()):
        reason = await failed(rig)
    assert reason == (
        "cluster is scaling up, could not create reservation pod: kai-scale-adjust/scaling waits for a node"
    )
    assert await traces(rig) == NOTHING


async def test_a_scaling_pod_that_is_being_deleted_holds_nobody_up() -> None:
    rig = await scaling_rig(scaling_pod(finalizers=("x.io/later",)))
    await rig.client.delete(Pod, "scaling", keys.SCALE_ADJUST_NAMESPACE)
    async with node_running(rig), rig.running(binder()):
        await finished(rig)


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (
            sharing_pod(annotations={keys.SHARED_GPU_CONFIG_MAP_ANNOTATION: ""}),
            "pod ml/a has no annotation runai/shared-gpu-configmap",
        ),
        (
            sharing_pod(annotations={keys.GPU_FRACTION_CONTAINER_ANNOTATION: "nobody"}),
            'annotation gpu-fraction-container-name names "nobody", no container',
        ),
        (sharing_pod(devices=2), "asks for parts of 2 devices"),
        (
            sharing_pod(annotations={keys.GPU_FRACTION_DEVICES_ANNOTATION: "many"}),
            'annotation gpu-fraction-num-devices is "many", not a positive number',
        ),
    ],
)
async def test_a_pod_that_does_not_say_how_it_shares_is_refused_with_a_sentence(pod: Pod, words: str) -> None:
    rig = await sharing_rig(pod)
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        assert words in await failed(rig)
    assert await traces(rig) == NOTHING


@pytest.mark.parametrize(
    ("groups", "portion", "words"),
    [
        (("g g",), "0.5", 'spec.selectedGPUGroups has "g g"; expected what can be the value of a label'),
        (("",), "0.5", 'spec.selectedGPUGroups has ""'),
        (("g" * 64,), "0.5", "expected what can be the value of a label"),
        (("g", "g"), "0.5", "spec.selectedGPUGroups has a group twice: g, g"),
        (("g",), "", 'spec.receivedGPU.portion is ""; expected a part of a device'),
        (("g",), "half", 'spec.receivedGPU.portion is "half"'),
        (("g",), "NaN", 'spec.receivedGPU.portion is "NaN"'),
        (("g",), "-0.5", 'spec.receivedGPU.portion is "-0.5"'),
        (("g",), "1.5", 'spec.receivedGPU.portion is "1.5"'),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_for_good(
    groups: tuple[str, ...], portion: str, words: str
) -> None:
    rig = await sharing_rig()
    await share(rig, "a", *groups, portion=portion, limit=7)
    async with node_running(rig), rig.running(binder()):
        request = await finished(rig, phase="Failed")
        await rig.clock.sleep(120)
    assert request.status.reason.startswith("BindRequest ml/a: ")
    assert words in request.status.reason
    assert request.status.failedAttempts == 7
    assert await traces(rig) == NOTHING


async def test_a_fraction_without_groups_is_deleted_so_that_the_scheduler_makes_another_one() -> None:
    rig = await sharing_rig()
    await share(rig, "a")
    async with node_running(rig), rig.running(binder()):

        async def no_requests() -> bool:
            return not (await rig.client.list(BindRequest, NAMESPACE)).items

        await rig.until(no_requests)
        (event,) = await rig.until(lambda: rig.events("BindingError"))
    assert event.message.startswith("BindRequest ml/a: spec.selectedGPUGroups is empty")
    assert await traces(rig) == NOTHING


async def test_without_the_plugin_there_are_no_fractions() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    off = Options(plugins={"gpusharing": PluginConfig(enabled=False)})
    async with node_running(rig), rig.running(binder(options=off)):
        assert 'spec.receivedResourceType is "Fraction"' in await failed(rig)


async def test_a_config_map_of_another_pod_is_left_to_it() -> None:
    """Else that pod would find itself on a device that isn't its own."""
    same = {keys.SHARED_GPU_CONFIG_MAP_ANNOTATION: "a-shared-gpu"}
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b", annotations=same))
    await share(rig, "a", "g1")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        before = await maps_of(rig, "a")
        await share(rig, "b", "g2")
        reason = await failed(rig, "b")
        assert reason == "config map ml/a-shared-gpu-0, which pod ml/b is to read, belongs to pod ml/a"
        assert await maps_of(rig, "a") == before
        assert list((await traces(rig)).reservations) == ["g1"]


async def test_a_config_map_that_a_pod_left_behind_is_taken_over() -> None:
    rig = await sharing_rig()
    old = OwnerReference(apiVersion="v1", kind="Pod", name="a", uid="of-its-predecessor")
    meta = ObjectMeta(name="a-shared-gpu-0-evar", namespace=NAMESPACE, ownerReferences=(old,))
    await rig.apply(ConfigMap(metadata=meta, data={"NVIDIA_VISIBLE_DEVICES": "GPU-old", "other": "stays"}))
    await share(rig, "a", "g")
    async with rig.running(binder()), node_running(rig):
        await finished(rig)
    found = await rig.client.get(ConfigMap, "a-shared-gpu-0-evar", NAMESPACE)
    assert found.data["NVIDIA_VISIBLE_DEVICES"] != "GPU-old"
    assert [each.uid for each in found.metadata.ownerReferences] == [(await the_pod(rig)).metadata.uid]


class Late(BindPlugin):
    """Comes after GPU sharing, and fails."""

    name = "late"
    priority = 1

    async def pre_bind(self, attempt: Attempt) -> None:
        raise RuntimeError("too late")


async def test_what_fails_after_the_gpu_was_reserved_leaves_no_trace() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder(Late())):
        assert await failed(rig) == "too late"
        await settled_to(rig, NOTHING)
    assert (await the_pod(rig)).metadata.labels == {"kept": "yes"}


async def test_a_failed_bind_leaves_the_reservation_to_those_who_share_it() -> None:
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        before = (await traces(rig)).reservations
    await share(rig, "b", "g")
    refusal = refuse(matching("POST", "/pods/b/binding"), 403, reason="Forbidden")
    async with node_running(rig), rig.running(binder(), FaultyTransport(rig.server.transport(), [refusal])):
        await failed(rig, "b")
        await rig.clock.sleep(60)
    left = await traces(rig)
    assert left.reservations == before
    assert left.labels == {"a": ("g",)}
    assert left.maps == {"a-shared-gpu-0", "a-shared-gpu-0-evar"}
