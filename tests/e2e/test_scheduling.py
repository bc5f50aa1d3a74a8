"""A user submits work; gangs are formed, decided on, bound, and run; what has to wait says why."""

from __future__ import annotations

from bosket.api.apps import Deployment
from bosket.api.batch import Job
from bosket.api.core import Event, Pod
from bosket.api.kai import BindRequest, PodGroup
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import deployment, job, pod

SERVICES = ("podgrouper", "scheduler", "binder")


async def pods(cluster: Cluster, workload: str) -> list[Pod]:
    return (await cluster.client.list(Pod, cluster.namespace, labels=f"workload={workload}")).items


async def running(cluster: Cluster, workload: str) -> int:
    return sum(each.status.phase == "Running" for each in await pods(cluster, workload))


async def the_pod_group(cluster: Cluster) -> PodGroup:
    groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
    assert len(groups) == 1
    return groups[0]


async def test_a_job_forms_a_gang_is_bound_and_runs_to_completion(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(2)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("train", pods=4, gpus=4, run_duration="1s"), cluster.namespace)

    async def complete() -> Job:
        found = await cluster.client.get(Job, "train", cluster.namespace)
        assert found.status is not None
        assert found.status.succeeded == 4
        assert any(each.type == "Complete" and each.status == "True" for each in found.status.conditions)
        return found

    done = await cluster.eventually(complete)
    members = await pods(cluster, "train")
    assert {each.spec.nodeName for each in members} == set(nodes)
    group = await the_pod_group(cluster)
    assert group.metadata.name == f"pg-train-{done.metadata.uid}"
    assert group.spec.minMember == 4
    assert group.spec.queue == "default-queue"
    assert {each.metadata.annotations["pod-group-name"] for each in members} == {group.metadata.name}
    requests = (await cluster.client.list(BindRequest, cluster.namespace)).items
    assert {each.metadata.name for each in requests} == {each.metadata.name for each in members}
    assert {each.status.phase for each in requests} == {"Succeeded"}


async def test_a_gang_that_is_larger_than_what_is_free_waits_as_a_whole_says_why_and_runs_when_room_appears(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("large", pods=3, gpus=4), cluster.namespace)

    async def says_why() -> PodGroup:
        group = await the_pod_group(cluster)
        conditions = [each for each in group.status.schedulingConditions if each.status == "True"]
        assert [each.type for each in conditions] == ["UnschedulableOnNodePool"]
        assert any(reason.message for reason in conditions[0].reasons)
        return group

    group = await cluster.eventually(says_why)

    async def events_say_why() -> bool:
        events = (await cluster.client.list(Event, cluster.namespace)).items
        about = {each.involvedObject.kind for each in events if each.reason in ("Unschedulable", "NotReady")}
        messages = [each.message for each in events if each.involvedObject.name == group.metadata.name]
        return bool(about) and any("GPU" in message for message in messages)

    await cluster.eventually(events_say_why)

    async def pods_say_why() -> bool:
        members = await pods(cluster, "large")
        assert len(members) == 3
        told = [
            condition
            for member in members
            for condition in member.status.conditions
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        ]
        return len(told) == 3 and all(condition.message for condition in told)

    await cluster.eventually(pods_say_why)
    assert not any(each.spec.nodeName for each in await pods(cluster, "large")), "a part of the gang was bound"
    await cluster.add_nodes(1)

    async def all_run() -> bool:
        return await running(cluster, "large") == 3

    await cluster.eventually(all_run)


async def test_what_does_not_fit_does_not_stop_what_does(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("large", pods=9, gpus=1), cluster.namespace)
    await cluster.client.create(job("small", pods=8, gpus=1), cluster.namespace)

    async def small_runs() -> bool:
        return await running(cluster, "small") == 8

    await cluster.eventually(small_runs)
    assert await running(cluster, "large") == 0


async def test_a_queue_gets_no_more_than_its_limit_and_another_gets_the_rest(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    parent = await cluster.add_queue()
    limited = await cluster.add_queue(parent=parent, gpu_limit=2)
    free = await cluster.add_queue(parent=parent)
    await cluster.start_services(*SERVICES)
    for index in range(3):
        await cluster.client.create(job(f"limited-{index}", pods=1, gpus=1, queue=limited), cluster.namespace)
    await cluster.client.create(job("free", pods=6, gpus=1, queue=free), cluster.namespace)

    async def free_runs() -> bool:
        return await running(cluster, "free") == 6

    await cluster.eventually(free_runs)

    async def one_is_over_its_limit() -> bool:
        groups = [
            each
            for each in (await cluster.client.list(PodGroup, cluster.namespace)).items
            if each.spec.queue == limited
        ]
        reasons = [
            reason.reason
            for group in groups
            for condition in group.status.schedulingConditions
            if condition.status == "True"
            for reason in condition.reasons
        ]
        return reasons == ["OverLimit"]

    await cluster.eventually(one_is_over_its_limit)
    assert sum([await running(cluster, f"limited-{index}") for index in range(3)]) == 2


async def test_a_deployment_is_scaled_up_and_down(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    queue = await cluster.add_queue(gpu_quota=8)  # what serves can't be preempted, and so must be within quota
    await cluster.client.create(deployment("serve", replicas=2, gpus=1, queue=queue), cluster.namespace)

    async def runs(count: int) -> bool:
        found = await cluster.client.get(Deployment, "serve", cluster.namespace)
        return found.status is not None and (found.status.readyReplicas or 0) == count == await running(
            cluster, "serve"
        )

    await cluster.eventually(lambda: runs(2))
    groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
    assert len(groups) == 2, "each pod of a Deployment stands for itself"
    assert {each.spec.priorityClassName for each in groups} == {"inference"}
    await cluster.kubectl("scale", "deployment/serve", "--replicas=5")
    await cluster.eventually(lambda: runs(5))
    await cluster.kubectl("scale", "deployment/serve", "--replicas=1")
    await cluster.eventually(lambda: runs(1))

    async def groups_go_with_their_pods() -> bool:
        return len((await cluster.client.list(PodGroup, cluster.namespace)).items) == 1

    await cluster.eventually(groups_go_with_their_pods)


async def test_a_bare_pod_runs_and_leaves_its_place_when_it_is_deleted(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(pod("first", gpus=1), cluster.namespace)

    async def runs(name: str) -> bool:
        return (await cluster.client.get(Pod, name, cluster.namespace)).status.phase == "Running"

    await cluster.eventually(lambda: runs("first"))
    await cluster.client.create(pod("second", gpus=1), cluster.namespace)
    await cluster.client.delete(Pod, "first", cluster.namespace)
    await cluster.eventually(lambda: runs("second"))


async def test_gangs_are_packed_onto_as_few_nodes_as_possible(cluster: Cluster) -> None:
    await cluster.add_nodes(3)
    await cluster.start_services(*SERVICES)
    for name in ("a", "b"):
        await cluster.client.create(job(name, pods=2, gpus=2), cluster.namespace)

    async def all_run() -> bool:
        return await running(cluster, "a") + await running(cluster, "b") == 4

    await cluster.eventually(all_run)
    used = {each.spec.nodeName for name in ("a", "b") for each in await pods(cluster, name)}
    assert len(used) == 1


async def test_a_job_whose_pods_fail_gives_its_room_to_the_next(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("breaks", pods=2, gpus=4, run_duration="2s", exit_code=1), cluster.namespace)

    async def has_its_place() -> bool:
        return [bool(each.spec.nodeName) for each in await pods(cluster, "breaks")] == [True, True]

    await cluster.eventually(has_its_place)
    await cluster.client.create(job("works", pods=2, gpus=4), cluster.namespace)

    async def failed() -> bool:
        found = await cluster.client.get(Job, "breaks", cluster.namespace)
        assert found.status is not None
        return any(each.type == "Failed" and each.status == "True" for each in found.status.conditions)

    await cluster.eventually(failed)

    async def next_runs() -> bool:
        return await running(cluster, "works") == 2

    await cluster.eventually(next_runs)


async def test_only_pods_of_our_scheduler_are_placed(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(pod("foreign", scheduler="somebody-else"), cluster.namespace)
    await cluster.client.create(pod("ours"), cluster.namespace)

    async def ours_runs() -> bool:
        return (await cluster.client.get(Pod, "ours", cluster.namespace)).status.phase == "Running"

    await cluster.eventually(ours_runs)
    assert not (await cluster.client.get(Pod, "foreign", cluster.namespace)).spec.nodeName
