"""Pods that get parts of GPUs: what the binder makes for them, and tells their containers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api import keys
from bosket.api.core import (
    ConfigMap,
    ConfigMapKeySelector,
    Container,
    EnvVar,
    EnvVarSource,
    Pod,
    ResourceRequirements,
    SecurityContext,
    Toleration,
)
from bosket.api.kai import PluginConfig
from bosket.embedded.gpu_devices import device_uuid
from bosket.services.binder import Options, ReservationOptions
from bosket.services.binder.reservation_pod import reservation_name, reservation_pod
from tests.binder.scene import Ledger, binder, finished
from tests.binder.sharing_scene import (
    NODE,
    NOTHING,
    RESERVATIONS,
    Traces,
    bound,
    delete_pod,
    maps_of,
    node_running,
    settled_to,
    share,
    sharing_pod,
    sharing_rig,
    the_pod,
    traces,
)
from tests.rig import NAMESPACE

pytestmark = pytest.mark.looptime

FIRST = device_uuid(NODE, 0)
SECOND = device_uuid(NODE, 1)


async def test_four_quarters_share_one_gpu_whose_reservation_goes_with_the_last_of_them() -> None:
    names = ["a", "b", "c", "d"]
    rig = await sharing_rig(*map(sharing_pod, names))
    for name in names:
        await share(rig, name, "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, *names)
        assert (await traces(rig)).reservations == {"g": FIRST}
        for name in names:
            assert (await maps_of(rig, name))[1] == {"NVIDIA_VISIBLE_DEVICES": FIRST}
        for name in names[:-1]:
            await delete_pod(rig, name)
        await rig.clock.sleep(60)
        assert (await traces(rig)).reservations == {"g": FIRST}
        await delete_pod(rig, names[-1])
        await settled_to(rig, NOTHING)


async def test_a_bind_leaves_labels_annotations_and_config_maps_that_go_with_the_pod() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g", portion="0.25")
    ledger = Ledger(rig.server.transport())
    async with node_running(rig), rig.running(binder(), ledger):
        await finished(rig)
        pod = await the_pod(rig)
        assert pod.spec.nodeName == NODE
        assert pod.metadata.labels == {"kept": "yes", "runai-gpu-group": "g"}
        assert pod.metadata.annotations["received-resource-type"] == "Fraction"
        assert pod.metadata.annotations[keys.SHARED_DEVICES_ANNOTATION] == FIRST
        assert await maps_of(rig) == (
            {"GPU_PORTION": "0.25", "RUNAI_NUM_OF_GPUS": "0.25"},
            {"NVIDIA_VISIBLE_DEVICES": FIRST},
        )
        for each in (await rig.client.list(ConfigMap, NAMESPACE)).items:
            (owner,) = each.metadata.ownerReferences
            assert (owner.apiVersion, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "a", pod.metadata.uid)
    assert ledger.writes() == [
        "PATCH pods/a",
        f"POST /api/v1/namespaces/{RESERVATIONS}/pods",
        "POST configmaps",
        "POST configmaps",
        "POST pods/a/binding",
        "PATCH bindrequests/a/status",
    ]


async def test_the_second_pod_of_a_group_makes_no_reservation() -> None:
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await finished(rig, "a")
    ledger = Ledger(rig.server.transport())
    await share(rig, "b", "g")
    async with node_running(rig), rig.running(binder(), ledger):
        await finished(rig, "b")
    assert not [each for each in ledger.writes() if RESERVATIONS in each]


async def test_a_container_that_names_the_key_finds_its_devices_there() -> None:
    source = EnvVarSource(configMapKeyRef=ConfigMapKeySelector(key="NVIDIA_VISIBLE_DEVICES", name="a-shared-gpu-0"))
    rig = await sharing_rig(sharing_pod(env=(EnvVar(name="NVIDIA_VISIBLE_DEVICES", valueFrom=source),)))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await finished(rig)
    assert await maps_of(rig) == (
        {"GPU_PORTION": "0.25", "RUNAI_NUM_OF_GPUS": "0.25", "NVIDIA_VISIBLE_DEVICES": FIRST},
        {},
    )


async def test_several_devices_are_several_groups_with_a_label_each() -> None:
    rig = await sharing_rig(sharing_pod(devices=2))
    await share(rig, "a", "g1", "g2")
    async with node_running(rig), rig.running(binder()):
        await finished(rig)
        reservations = (await traces(rig)).reservations
        assert sorted(reservations.values()) == sorted([FIRST, SECOND])
        labels = (await the_pod(rig)).metadata.labels
        assert labels == {"kept": "yes", "runai-gpu-group/g1": "g1", "runai-gpu-group/g2": "g2"}
        visible = (await maps_of(rig))[1]["NVIDIA_VISIBLE_DEVICES"]
        assert visible == f"{reservations['g1']},{reservations['g2']}"
        await delete_pod(rig, "a")
        await settled_to(rig, NOTHING)


async def test_an_init_container_may_be_the_one_that_shares() -> None:
    pod = sharing_pod(annotations={keys.GPU_FRACTION_CONTAINER_ANNOTATION: "warm-up"})
    pod = replace(pod, spec=replace(pod.spec, initContainers=(Container(name="warm-up", image="img"),)))
    rig = await sharing_rig(pod)
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await finished(rig)
    assert (await maps_of(rig, index="i0"))[1] == {"NVIDIA_VISIBLE_DEVICES": FIRST}


async def test_devices_have_the_names_of_the_container_device_interface_where_that_is_used() -> None:
    rig = await sharing_rig(sharing_pod(devices=2))
    await share(rig, "a", "g1", "g2")
    options = Options(plugins={"gpusharing": PluginConfig(arguments={"cdiEnabled": "true"})})
    async with node_running(rig), rig.running(binder(options=options)):
        await finished(rig)
    visible = (await maps_of(rig))[1]["NVIDIA_VISIBLE_DEVICES"].split(",")
    assert sorted(visible) == sorted(f"k8s.device-plugin.nvidia.com/gpu={each}" for each in (FIRST, SECOND))


async def test_hami_core_is_told_how_much_memory_there_is_if_it_is_switched_on() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g", portion="0.30")
    options = Options(plugins={"hamicore": PluginConfig(enabled=True)})
    async with node_running(rig), rig.running(binder(options=options)):
        await finished(rig)
    assert (await maps_of(rig))[0] == {
        "GPU_PORTION": "0.30",
        "RUNAI_NUM_OF_GPUS": "0.30",
        "CUDA_DEVICE_MEMORY_LIMIT": "12000m",
    }


async def test_a_reservation_that_has_ended_is_replaced() -> None:
    rig = await sharing_rig()
    left = reservation_pod(sharing_pod(), NODE, "g", ReservationOptions())
    await rig.apply(left)
    await rig.client.patch(
        type(left), left.metadata.name, {"status": {"phase": "Failed"}}, namespace=RESERVATIONS, subresource="status"
    )
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await finished(rig)
    assert await traces(rig) == Traces(
        {"g": FIRST}, {"a": ("g",)}, frozenset({"a-shared-gpu-0", "a-shared-gpu-0-evar"})
    )


async def test_a_reservation_that_an_older_kai_named_is_used() -> None:
    rig = await sharing_rig()
    old = reservation_pod(sharing_pod(), NODE, "g", ReservationOptions())
    elsewhere = replace(old, spec=replace(old.spec, nodeName="node-9"))
    for name, pod in (("gpu-reservation-node-000-x7k2p", old), ("gpu-reservation-node-9-aaaaa", elsewhere)):
        await rig.apply(replace(pod, metadata=replace(pod.metadata, name=name)))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await finished(rig)
        reserved = [
            pod.metadata.name for pod in (await rig.client.list(Pod, RESERVATIONS)).items if pod.spec.nodeName == NODE
        ]
        assert reserved == ["gpu-reservation-node-000-x7k2p"]
        assert (await maps_of(rig))[1] == {"NVIDIA_VISIBLE_DEVICES": FIRST}


def test_a_reservation_pod_is_what_kai_makes() -> None:
    toleration = Toleration(key="gpu", operator="Exists")
    source = sharing_pod()
    source = replace(source, spec=replace(source.spec, tolerations=(toleration,)))
    options = ReservationOptions(
        pod_resources=ResourceRequirements(requests={"cpu": "10m", "nvidia.com/gpu": "4"}, limits={"cpu": "1"}),
        container_security_context=SecurityContext(runAsUser=1000),
        runtime_class_name="nvidia",
        pod_image="reservation:1",
    )
    pod = reservation_pod(source, "node-7", "group", options)
    # printf node-7/group | sha256sum | cut -c-16
    assert pod.metadata.name == "gpu-reservation-" + "997c1735205c26fb"
    assert pod.metadata.namespace == "kai-resource-reservation"
    assert pod.metadata.labels == {"app": "kai-resource-reservation", "runai-gpu-group": "group"}
    assert pod.metadata.annotations == {"karpenter.sh/do-not-disrupt": "true"}
    assert (pod.spec.nodeName, pod.spec.serviceAccountName) == ("node-7", "kai-resource-reservation")
    assert pod.spec.schedulerName == "default-scheduler"  # KAI leaves that to the API server
    assert (pod.spec.runtimeClassName, pod.spec.tolerations) == ("nvidia", (toleration,))
    (container,) = pod.spec.containers
    assert (container.name, container.image) == ("resource-reservation", "reservation:1")
    assert container.imagePullPolicy == "IfNotPresent"
    assert container.resources.requests == {"cpu": "10m", "nvidia.com/gpu": "1"}
    assert container.resources.limits == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert container.securityContext == SecurityContext(runAsUser=1000)
    fields = {
        each.name: each.valueFrom.fieldRef.fieldPath
        for each in container.env
        if each.valueFrom is not None and each.valueFrom.fieldRef is not None
    }
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_on_nodes_without_real_gpus_a_reservation_only_sleeps() -> None:
    pod = reservation_pod(sharing_pod(), NODE, "g", ReservationOptions(fake_gpu_nodes=True))
    (container,) = pod.spec.containers
    assert (container.image, container.args) == ("ubuntu", ("sleep", "infinity"))


def test_reservations_of_a_group_on_two_nodes_have_two_names() -> None:
    assert reservation_name("n1", "g") != reservation_name("n2", "g") != reservation_name("n2", "h")
