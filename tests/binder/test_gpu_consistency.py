"""Reservations without users, users without reservations: whoever is left alone goes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api import keys
from bosket.api.core import ConfigMap, Container, Pod, PodSpec, ResourceRequirements
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.kube.errors import NotFound
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.services.binder import ReservationOptions
from bosket.services.binder.reservation_pod import reservation_name, reservation_pod
from tests.binder.scene import ask, binder, finished
from tests.binder.sharing_scene import (
    NODE,
    NOTHING,
    RESERVATIONS,
    bound,
    delete_pod,
    gone,
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


def reservation(group: str = "g") -> Pod:
    return reservation_pod(sharing_pod(), NODE, group, ReservationOptions())


async def running(rig: Rig, name: str = "a") -> None:
    async def look() -> bool:
        return (await the_pod(rig, name)).status.phase == "Running"

    await rig.until(look)


async def test_a_reservation_that_nobody_uses_is_taken_away_at_start_up() -> None:
    rig = await sharing_rig()
    await rig.apply(reservation())
    async with node_running(rig), rig.running(binder()):
        await settled_to(rig, NOTHING)


async def test_a_reservation_goes_when_its_last_pod_has_ended() -> None:
    once = sharing_pod(annotations={keys.RUN_DURATION_ANNOTATION: "1m"})
    rig = await sharing_rig(replace(once, spec=replace(once.spec, restartPolicy="Never")))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await gone(rig, reservation_name(NODE, "g"), RESERVATIONS)
    assert (await the_pod(rig)).status.phase == "Succeeded"


async def test_pods_whose_reservation_is_gone_are_deleted_and_told_why() -> None:
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"))
    for name in ("a", "b"):
        await share(rig, name, "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a", "b")
        await running(rig, "a")
        await running(rig, "b")
        await delete_pod(rig, reservation_name(NODE, "g"), RESERVATIONS)
        await gone(rig, "a")
        await gone(rig, "b")
        events = await rig.until(lambda: rig.events("GPUReservationLost"))
        assert "GPU of group g" in events[0].message
        await settled_to(rig, NOTHING)


async def test_a_pod_on_another_device_than_its_group_reserves_now_is_deleted() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await running(rig)
        other = {"metadata": {"annotations": {keys.RESERVED_GPU_ANNOTATION: "GPU-another"}}}
        await rig.client.patch(Pod, reservation_name(NODE, "g"), other, namespace=RESERVATIONS)
        await gone(rig, "a")


async def test_a_pod_that_has_not_started_yet_is_left_alone_without_its_reservation() -> None:
    rig = await sharing_rig(sharing_pod(annotations={keys.START_DELAY_ANNOTATION: "10m"}))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await delete_pod(rig, reservation_name(NODE, "g"), RESERVATIONS)
        await rig.clock.sleep(300)
        assert (await the_pod(rig)).status.phase == "Pending"


async def test_a_bind_whose_request_was_deleted_while_no_binder_ran_is_undone() -> None:
    """The pod is labelled and has ConfigMaps, and nobody is going to bind it."""
    rig = await sharing_rig()
    await rig.client.patch(Pod, "a", {"metadata": {"labels": {"runai-gpu-group": "g"}}}, namespace=NAMESPACE)
    pod = await the_pod(rig)
    owner = OwnerReference(apiVersion="v1", kind="Pod", name="a", uid=pod.metadata.uid)
    for name in ("a-shared-gpu-0", "a-shared-gpu-0-evar"):
        meta = ObjectMeta(name=name, namespace=NAMESPACE, ownerReferences=(owner,))
        await rig.apply(ConfigMap(metadata=meta))
    await rig.apply(reservation())
    async with node_running(rig), rig.running(binder()):
        await settled_to(rig, NOTHING)
    after = await the_pod(rig)
    assert after.metadata.labels == {"kept": "yes"}
    assert after.metadata.annotations == pod.metadata.annotations


async def test_deleting_the_request_of_a_bind_that_waits_lets_its_reservation_go() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g", to="nowhere", limit=100)
    await rig.apply(reservation_pod(sharing_pod(), "nowhere", "g", ReservationOptions()))
    async with rig.running(binder()), node_running(rig):
        await rig.clock.sleep(30)
        assert list((await traces(rig)).reservations) == ["g"]
        await rig.client.delete(BindRequest, "a", NAMESPACE)
        await settled_to(rig, NOTHING)


async def test_a_pod_that_the_watch_has_not_shown_yet_keeps_its_reservation() -> None:
    """Which is why the API server is asked before a reservation is taken away."""
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"))
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
    reserved = (await traces(rig)).reservations
    # This one sees that the first pod goes, and not that the second one came.
    async with rig.running(binder(), Lagging(rig.server.transport(), "pods", 120.0)), node_running(rig):
        await rig.clock.sleep(1)
        await rig.client.patch(Pod, "b", {"metadata": {"labels": {"runai-gpu-group": "g"}}}, namespace=NAMESPACE)
        await rig.client.bind(await the_pod(rig, "b"), NODE)
        await delete_pod(rig, "a")
        await rig.clock.sleep(600)
        assert (await traces(rig)).reservations == reserved


async def test_a_whole_gpu_that_a_dead_reservation_holds_is_freed_before_the_next_bind() -> None:
    rig = await sharing_rig(sharing_pod("a"), sharing_pod("b"), gpus=1)
    await share(rig, "a", "g1")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
    await delete_pod(rig, "a")
    await share(rig, "b", "g2")
    async with node_running(rig), rig.running(binder()):
        await finished(rig, "b")
        assert list((await traces(rig)).reservations) == ["g2"]


async def test_where_a_gpu_seems_to_be_missing_the_api_server_is_asked_who_still_uses_theirs() -> None:
    """The scheduler may hear before the binder that the last user of a shared GPU is gone."""
    wanted = ResourceRequirements(limits={"nvidia.com/gpu": "1"})
    whole = Pod(
        metadata=ObjectMeta(name="whole", namespace=NAMESPACE),
        spec=PodSpec(containers=(Container(name="main", image="img", resources=wanted),), schedulerName="s"),
    )
    rig = await sharing_rig(sharing_pod("a"), whole, gpus=1)
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await running(rig)
    async with rig.running(binder(), Lagging(rig.server.transport(), "pods", 300.0)), node_running(rig):
        await rig.clock.sleep(1)
        await delete_pod(rig, "a")
        await ask(rig, "whole", to=NODE)
        await finished(rig, "whole")
        await running(rig, "whole")
        assert await traces(rig) == NOTHING


async def test_what_belongs_to_others_stays() -> None:
    rig = await sharing_rig()
    await rig.apply(ConfigMap(metadata=ObjectMeta(name="theirs", namespace=NAMESPACE)))
    plain = reservation().spec
    await rig.apply(Pod(metadata=ObjectMeta(name="other", namespace=RESERVATIONS), spec=plain))
    async with node_running(rig), rig.running(binder()):
        await rig.clock.sleep(60)
    await rig.client.get(ConfigMap, "theirs", NAMESPACE)
    await rig.client.get(Pod, "other", RESERVATIONS)
    with pytest.raises(NotFound):
        await rig.client.get(Pod, reservation_name(NODE, "g"), RESERVATIONS)


# --- what others write on their pods


def foreign_pod(labels: dict[str, str], *, scheduler: str = "theirs", **annotations: str) -> Pod:
    """A pod without GPUs that somebody put on the node past the binder."""
    return Pod(
        metadata=ObjectMeta(
            name="foreign",
            namespace=NAMESPACE,
            labels=labels,
            annotations={key.replace("_", "-"): value for key, value in annotations.items()},
        ),
        spec=PodSpec(containers=(Container(name="main", image="img"),), schedulerName=scheduler, nodeName=NODE),
    )


class Refusing:
    """A transport on which lists by one selector are refused."""

    def __init__(self, inner: Transport, selector: str) -> None:
        self._inner = inner
        self._selector = selector
        self.refused = 0

    async def request(self, request: Request) -> Response:
        if ("labelSelector", self._selector) in request.query:
            self.refused += 1
            return Response(400)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize("key", ["runai-gpu-group", "runai-gpu-group/g"])
async def test_a_label_that_names_no_group_keeps_nobody_from_the_node(key: str) -> None:
    rig = await sharing_rig()
    await rig.apply(foreign_pod({key: ""}))
    async with node_running(rig):
        await running(rig, "foreign")
        await share(rig, "a", "g")
        async with rig.running(binder()):
            await bound(rig, "a")
            await the_pod(rig, "foreign")


async def test_a_group_that_cannot_be_settled_stops_no_bind_to_its_node() -> None:
    """Whatever the reason is: here the API server refuses to list the pods of that group."""
    rig = await sharing_rig()
    await rig.apply(reservation("broken"))
    await share(rig, "a", "g")
    refusing = Refusing(rig.server.transport(), "runai-gpu-group=broken")
    async with node_running(rig), rig.running(binder(), refusing):
        await bound(rig, "a")
    assert refusing.refused


@pytest.mark.parametrize(
    "pinning",
    [
        foreign_pod({"runai-gpu-group": "g"}),
        foreign_pod({"runai-gpu-group/g": "g"}, gpu_fraction="0.5"),
        foreign_pod({"runai-gpu-group": "g"}, scheduler="kai-scheduler"),
        foreign_pod({}, received_resource_type="Fraction"),
        foreign_pod({}, **{keys.SHARED_DEVICES_ANNOTATION: "GPU-0"}),
    ],
)
async def test_a_pod_that_was_given_no_gpu_keeps_nobodys_reservation(pinning: Pod) -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await rig.apply(pinning)
        await running(rig, "foreign")
        await delete_pod(rig, "a")
        await gone(rig, reservation_name(NODE, "g"), RESERVATIONS)
        await rig.clock.sleep(60)
        await the_pod(rig, "foreign")  # nor is it taken for a user that has lost its reservation


async def test_a_running_pod_of_ours_without_label_and_request_keeps_its_reservation() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with node_running(rig), rig.running(binder()):
        await bound(rig, "a")
        await running(rig)
        await rig.client.delete(BindRequest, "a", NAMESPACE)
        await rig.client.patch(Pod, "a", {"metadata": {"labels": {"runai-gpu-group": None}}}, namespace=NAMESPACE)
        await rig.clock.sleep(120)
        assert list((await traces(rig)).reservations) == ["g"]
