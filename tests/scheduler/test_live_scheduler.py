"""The scheduler on a cluster: what it asks for, what it says, and what survives lost answers and restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Node, Pod
from bosket.api.core.event import Event
from bosket.api.kai import BindRequest, PodGroup, Queue, SubGroup
from bosket.api.kai.podgroup import SchedulingCondition
from bosket.api.object import KubeObject
from bosket.api.time import parse_time
from bosket.kube.client import Client, PatchType
from bosket.kube.informer import Informers
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.scheduler.loop import Scheduler, rest_seconds, service
from bosket.scheduler.options import Options
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.faults import FaultyTransport, delay, hang_up, matching, refuse
from tests.rig import NAMESPACE, Lagging, Rig, make_rig

pytestmark = pytest.mark.looptime


def scheduler(env: Environment) -> Scheduler:
    return service(env, Options())


async def a_cluster(*objects: KubeObject, gpus: int = 8) -> Rig:
    return await make_rig([node("n1", gpus=gpus), queue("q"), *objects])


def members(name: str, size: int, gpus: int = 1) -> list[Pod]:
    return gang(name, size, gpus=gpus, namespace=NAMESPACE)


def group(name: str, size: int, **options: Any) -> PodGroup:
    return pod_group(name, min_member=size, namespace=NAMESPACE, **options)


async def requests(rig: Rig) -> dict[str, BindRequest]:
    return {each.metadata.name: each for each in (await rig.client.list(BindRequest, NAMESPACE)).items}


async def the_group(rig: Rig, name: str) -> PodGroup:
    return await rig.client.get(PodGroup, name, NAMESPACE)


async def run_pod(rig: Rig, name: str, node_name: str) -> None:
    """What binder and kubelet do."""
    client: Client = rig.client
    await client.bind(await client.get(Pod, name, NAMESPACE), node_name)
    await client.patch(Pod, name, {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status")


async def test_a_gang_gets_a_bind_request_for_each_pod() -> None:
    rig = await a_cluster(group("g", 2), *members("g", 2))
    async with rig.running(scheduler):
        found = await rig.until(lambda: requests(rig))
    request = found["g-0"]
    owner = request.metadata.ownerReferences[0]
    assert set(found) == {"g-0", "g-1"}
    assert (request.spec.podName, request.spec.selectedNode, request.spec.receivedGPU.count) == ("g-0", "n1", 1)
    assert request.metadata.labels == {"selected-node": "n1"}
    assert request.metadata.annotations == {"bosket.dev/charged": '{"pod-group-name":"g"}'}
    assert (owner.kind, owner.name) == ("Pod", "g-0")


async def test_every_bound_pod_has_an_event() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    async with rig.running(scheduler):
        (event,) = await rig.until(lambda: rig.events("Scheduled"))
    assert event.message == f"Successfully assigned pod {NAMESPACE}/g-0 to node n1 at node-pool default"


async def test_a_group_has_its_start_where_a_minimum_run_time_is_in_force() -> None:
    protected = queue("protected", reclaim_min_runtime="10m")
    rig = await a_cluster(protected, group("g", 1), *members("g", 1))
    async with rig.running(scheduler):
        await rig.until(lambda: started(rig, "g"))


async def test_a_start_that_concerns_nobody_costs_no_write_until_it_does() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/podgroups/g")
    async with rig.running(scheduler, transport):
        await rig.until(lambda: requests(rig))
        moment = rig.clock.now()
        await rig.clock.sleep(60)
        assert not any(map(writes, transport.requests))
        await rig.apply(queue("protected", preempt_min_runtime="10m"))
        since = await rig.until(lambda: started(rig, "g"))
    assert abs(parse_time(since) - moment) <= 2


async def test_what_others_write_into_a_groups_status_wakes_nobody() -> None:
    """And doesn't keep the group from getting its reason."""
    rig = await a_cluster(group("g", 3), *members("g", 3), gpus=2)
    state = ClusterState(Options().state())
    for kind in (Node, Queue, PodGroup, Pod):
        for each in (await rig.client.list(kind)).items:
            state.put(each)
    before = state.snapshot(rig.clock.now())
    patch = {"status": {"phase": "Pending", "pending": 3}}
    state.put(await rig.client.patch(PodGroup, "g", patch, namespace=NAMESPACE, subresource="status"))
    assert state.snapshot(rig.clock.now()) is before
    async with rig.running(scheduler):
        await rig.clock.sleep(0.5)
        await rig.client.patch(PodGroup, "g", {"status": {"pending": 2}}, namespace=NAMESPACE, subresource="status")
        (condition,) = await rig.until(lambda: conditions(rig, "g"))
    assert condition.status == "True"


async def started(rig: Rig, name: str) -> str | None:
    return (await the_group(rig, name)).metadata.annotations.get("kai.scheduler/last-start-timestamp")


async def conditions(rig: Rig, name: str) -> tuple[SchedulingCondition, ...]:
    return (await the_group(rig, name)).status.schedulingConditions


async def test_a_gang_that_waits_is_told_why_on_the_group_and_on_each_pod() -> None:
    rig = await a_cluster(group("g", 3), *members("g", 3), gpus=2)
    async with rig.running(scheduler):
        (condition,) = await rig.until(lambda: conditions(rig, "g"))
        warnings = await rig.until(lambda: rig.events("Unschedulable"))
        waiting = await rig.client.get(Pod, "g-2", NAMESPACE)
    assert (condition.type, condition.nodePool, condition.status) == ("UnschedulableOnNodePool", "default", "True")
    assert condition.reasons[0].reason == "PodSchedulingErrors"
    assert "Resources were found for 2 pods while 3 are required" in condition.reasons[0].message
    (scheduled,) = (each for each in waiting.status.conditions if each.type == "PodScheduled")
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert warnings[0].message == scheduled.message


async def test_what_runs_at_once_is_never_called_unschedulable() -> None:
    """Pods come one by one; until the last is there the gang isn't ready, which is no news."""
    rig = await a_cluster(group("g", 3))
    async with rig.running(scheduler):
        for each in members("g", 3):
            await rig.client.create(each)
            await rig.clock.sleep(0.1)
        await rig.until(lambda: requests(rig))
        await rig.clock.sleep(30)
        assert await rig.events("NotReady") == []
        assert await rig.events("Unschedulable") == []


async def test_a_gang_that_misses_pods_for_long_says_how_many() -> None:
    rig = await a_cluster(group("g", 3), *members("g", 2))
    async with rig.running(scheduler):
        (event,) = await rig.until(lambda: rig.events("NotReady"))
    assert event.message.splitlines() == [
        "waits for pods that don't exist yet: 3 are needed, 2 exist",
        "Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated",
    ]


def test_the_loop_rests_longer_the_longer_a_cycle_took() -> None:
    """At least the least; short cycles are gathered, long ones leave two thirds of the time to others."""
    assert [rest_seconds(spent, 0.02) for spent in (0.0, 0.0005, 0.002, 0.03, 1.0)] == [0.02, 0.02, 0.04, 0.1, 2.0]
    assert rest_seconds(1.0, 0.02, 0.2) == 0.2


async def test_the_same_thing_is_not_written_twice() -> None:
    rig = await a_cluster(group("g", 3), *members("g", 3), gpus=2)
    async with rig.running(scheduler):
        await rig.until(lambda: conditions(rig, "g"))
        await rig.clock.sleep(10)
        before = await the_group(rig, "g"), await rig.client.get(Pod, "g-0", NAMESPACE)
        for number in range(5):  # things happen elsewhere
            await rig.client.create(pod(f"other-{number}", NAMESPACE).cpu("1m").build())
            await rig.clock.sleep(10)
        after = await the_group(rig, "g"), await rig.client.get(Pod, "g-0", NAMESPACE)
    assert [each.metadata.resourceVersion for each in after] == [each.metadata.resourceVersion for each in before]


async def test_conditions_go_when_the_gang_runs() -> None:
    rig = await a_cluster(group("g", 3), *members("g", 3), gpus=2)
    async with rig.running(scheduler):
        await rig.until(lambda: conditions(rig, "g"))
        await rig.client.create(node("n2"))
        for name, request in (await rig.until(lambda: requests(rig))).items():
            await run_pod(rig, name, request.spec.selectedNode)

        async def cleared() -> bool:
            return not await conditions(rig, "g")

        await rig.until(cleared)


async def test_a_job_of_which_something_runs_gets_an_event_but_no_condition() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 2), gpus=1)
    async with rig.running(scheduler):
        (event, *_) = await rig.until(lambda: group_events(rig, "Unschedulable"))
        await rig.clock.sleep(30)
        assert not await conditions(rig, "g")
    assert "Resources were not found for pod" in event.message


async def group_events(rig: Rig, reason: str) -> list[Event]:
    return [event for event in await rig.events(reason) if event.involvedObject.kind == "PodGroup"]


async def test_a_queue_that_does_not_exist_is_named_and_the_rest_goes_on() -> None:
    rig = await a_cluster(group("lost", 1, queue="nowhere"), group("g", 1), *members("lost", 1), *members("g", 1))
    async with rig.running(scheduler):
        (condition,) = await rig.until(lambda: conditions(rig, "lost"))
        assert set(await rig.until(lambda: requests(rig))) == {"g-0"}
    assert condition.reasons[0].reason == "QueueDoesNotExist"
    assert condition.reasons[0].message == "Queue 'nowhere' does not exist"


async def test_a_bind_request_whose_answer_was_lost_is_taken_for_what_it_is() -> None:
    rig = await a_cluster(group("g", 2), *members("g", 2))
    broken = FaultyTransport(rig.server.transport())
    broken.add(hang_up(matching("POST", "/bindrequests"), after_effect=True))
    async with rig.running(scheduler, broken):
        await rig.until(lambda: both(rig))


async def both(rig: Rig) -> bool:
    return len(await requests(rig)) == 2


async def test_a_bind_request_that_is_refused_is_tried_again() -> None:
    rig = await a_cluster(group("g", 2), *members("g", 2))
    broken = FaultyTransport(rig.server.transport())
    broken.add(refuse(matching("POST", "/bindrequests"), 403, times=3))
    async with rig.running(scheduler, broken):
        await rig.until(lambda: both(rig))
        assert (await rig.events("FailedBinding"))[0].type == "Warning"


async def test_a_failed_bind_request_makes_way_for_a_new_one() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    async with rig.running(scheduler):
        first = (await rig.until(lambda: requests(rig)))["g-0"]
        await rig.client.patch(
            BindRequest, "g-0", {"status": {"phase": "Failed"}}, namespace=NAMESPACE, subresource="status"
        )

        async def renewed() -> bool:
            found = (await requests(rig)).get("g-0")
            return found is not None and found.metadata.uid != first.metadata.uid

        await rig.until(renewed)


async def test_a_request_of_a_former_pod_of_that_name_makes_way() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    async with rig.running(scheduler):
        first = (await rig.until(lambda: requests(rig)))["g-0"]
    await rig.client.delete(Pod, "g-0", NAMESPACE, grace_seconds=0)
    await rig.apply(*members("g", 1))  # its old bind request is still there
    async with rig.running(scheduler):

        async def renewed() -> bool:
            found = (await requests(rig)).get("g-0")
            return found is not None and found.metadata.uid != first.metadata.uid

        await rig.until(renewed)


async def test_a_late_watch_makes_nobody_decide_twice() -> None:
    rig = await a_cluster(*(group(f"g{i}", 2) for i in range(4)), gpus=4)
    for i in range(4):
        await rig.apply(*members(f"g{i}", 2))
    async with rig.running(scheduler, Lagging(rig.server.transport(), "bindrequests", 0.5)):
        await rig.until(lambda: requests(rig))
        await rig.clock.sleep(20)
        assert len(await requests(rig)) == 4  # two gangs of two, on four GPUs


async def test_a_restart_goes_on_where_it_was() -> None:
    rig = await a_cluster(group("a", 2), *members("a", 2), gpus=3)
    async with rig.running(scheduler):
        before = await rig.until(lambda: requests(rig))
    await rig.apply(group("b", 2), *members("b", 2))
    async with rig.running(scheduler):
        await rig.until(lambda: conditions(rig, "b"))
        after = await requests(rig)
    assert {name: each.metadata.uid for name, each in after.items()} == {
        name: each.metadata.uid for name, each in before.items()
    }


async def test_status_patches_leave_other_conditions_alone() -> None:
    rig = await a_cluster(group("g", 3), *members("g", 3), gpus=2)
    foreign = {"status": {"conditions": [{"type": "Example", "status": "True"}]}}
    await rig.client.patch(Pod, "g-0", foreign, namespace=NAMESPACE, type=PatchType.STRATEGIC, subresource="status")
    async with rig.running(scheduler):
        await rig.until(lambda: rig.events("Unschedulable"))
        await rig.clock.sleep(5)
        found = await rig.client.get(Pod, "g-0", NAMESPACE)
    assert {each.type for each in found.status.conditions} == {"Example", "PodScheduled"}


async def test_a_decision_that_was_cut_short_is_made_again_when_the_scheduler_runs_again() -> None:
    """The lease is lost in the middle of a write, and comes back to the same process."""
    rig = await a_cluster(group("g", 2), *members("g", 2))
    broken = FaultyTransport(rig.server.transport())
    broken.add(delay(matching("POST", "/bindrequests"), 1000.0, times=1))
    client = Client(broken, clock=rig.clock)
    environment = Environment(
        client=client,
        informers=Informers(client),
        clock=rig.clock,
        events=EventRecorder(client, rig.clock, "test"),
        metrics=CollectorRegistry(),
    )
    scheduling = service(environment, Options())
    informing = asyncio.create_task(environment.informers.run())
    first = asyncio.create_task(scheduling.run())
    await rig.until(lambda: requests(rig))
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(scheduling.run())
    await rig.until(lambda: both(rig))
    for task in (second, informing):
        task.cancel()
        await asyncio.wait([task])


async def test_a_pod_that_can_never_be_bound_is_tried_less_and_less_often() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    broken = FaultyTransport(rig.server.transport())
    broken.add(refuse(matching("POST", "/bindrequests"), 403, times=None))
    async with rig.running(scheduler, broken):
        await rig.until(lambda: rig.events("FailedBinding"))
        await rig.clock.sleep(60)
    assert sum(each.method == "POST" and "/bindrequests" in each.path for each in broken.requests) < 12


async def test_a_binding_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    rig = await a_cluster(group("g", 1), *members("g", 1))
    seen = set()

    async def fail_every_request() -> bool:
        for each in (await requests(rig)).values():
            seen.add(each.metadata.uid)
            if each.status.phase != "Failed":
                failed = {"status": {"phase": "Failed", "reason": "no"}}
                await rig.client.patch(BindRequest, "g-0", failed, namespace=NAMESPACE, subresource="status")
        return rig.clock.monotonic() > 60

    async with rig.running(scheduler):
        await rig.until(fail_every_request)
    assert 3 < len(seen) < 12


async def test_nodes_with_long_names_are_used_like_any_other() -> None:
    name = "n" * 70
    long = node("short")
    long = msgspec.structs.replace(long, metadata=msgspec.structs.replace(long.metadata, name=name))
    rig = await make_rig([long, queue("q"), group("g", 1), *members("g", 1)])
    async with rig.running(scheduler):
        found = await rig.until(lambda: requests(rig))
    assert found["g-0"].spec.selectedNode == name


async def test_a_late_word_about_a_former_bind_request_frees_nothing() -> None:
    """A pod of a StatefulSet is replaced; its old request goes while the new pod is being bound."""
    rig = await a_cluster(group("g", 1), *members("g", 1), gpus=1)
    async with rig.running(scheduler):
        await rig.until(lambda: requests(rig))
    await rig.client.delete(Pod, "g-0", NAMESPACE, grace_seconds=0)
    await rig.apply(*members("g", 1), group("h", 1), *members("h", 1))
    async with rig.running(scheduler, Lagging(rig.server.transport(), "bindrequests", 3.0)):
        await rig.until(lambda: conditions(rig, "h"))
        await rig.clock.sleep(30)
        assert set(await requests(rig)) == {"g-0"}


async def test_gated_pods_are_not_called_unschedulable() -> None:
    gated = pod("g-0", NAMESPACE).gpu(1).of_group("g").gated_by("example.com/wait").build()
    rig = await a_cluster(group("g", 0), gated)
    async with rig.running(scheduler):
        await rig.clock.sleep(30)
        found = await rig.client.get(Pod, "g-0", NAMESPACE)
    assert not any(each.reason == "Unschedulable" for each in found.status.conditions)


async def test_one_monstrous_pod_group_stops_nobody_else() -> None:
    nested = tuple(
        SubGroup(name=f"s{i}", minMember=1) if i == 1200 else SubGroup(name=f"s{i}", minSubGroup=1) for i in range(1201)
    )
    chain = tuple(msgspec.structs.replace(each, parent=f"s{i - 1}") if i else each for i, each in enumerate(nested))
    deep = pod_group("deep", namespace=NAMESPACE, subgroups=chain)
    lone = pod("deep-0", NAMESPACE).gpu(1).of_group("deep", "s1200").build()
    rig = await a_cluster(deep, lone, group("g", 1), *members("g", 1))
    async with rig.running(scheduler):
        assert "g-0" in await rig.until(lambda: requests(rig))
        (condition,) = await rig.until(lambda: conditions(rig, "deep"))
    assert "nested more than" in condition.message
