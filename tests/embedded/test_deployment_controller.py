"""Deployments roll out within their bounds, say how far they are, and can be undone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bosket.api.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    RollingUpdateDeployment,
)
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.embedded.controllers.deployment_scale import (
    DESIRED,
    MAXIMUM,
    Bounds,
    bounds,
    replicas_of,
    resize,
    shrink_old,
    size_of_new,
)
from tests.embedded.wires import LateWatch, Unreliable
from tests.embedded.workloads import Workloads, condition, template, workloads

pytestmark = pytest.mark.looptime

REVISION = "deployment.kubernetes.io/revision"


def rolling(surge: int | str, unavailable: int | str) -> DeploymentStrategy:
    return DeploymentStrategy(
        type="RollingUpdate", rollingUpdate=RollingUpdateDeployment(maxSurge=surge, maxUnavailable=unavailable)
    )


def deployment(replicas: int = 3, simulation: dict[str, str] | None = None, **spec: Any) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="d", namespace="default", annotations={"kubernetes.io/change-cause": "first"}),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(matchLabels={"app": "a"}),
            template=template(simulation=simulation),
            **spec,
        ),
    )


async def is_rolled_out(world: Workloads) -> bool:
    """As `kubectl rollout status` judges it."""
    found = await world.get(Deployment, "d")
    status, size = found.status, found.spec.replicas
    return (
        status.observedGeneration >= found.metadata.generation
        and status.updatedReplicas == status.replicas == status.availableReplicas == size
    )


async def sets(world: Workloads) -> list[ReplicaSet]:
    """In the order of their revisions."""
    found = (await world.client.list(ReplicaSet)).items
    return sorted(found, key=lambda each: int(each.metadata.annotations[REVISION]))


async def change_template(world: Workloads, **annotations: str) -> None:
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    await world.client.patch(Deployment, "d", patch, namespace="default")


async def test_a_deployment_makes_one_set_whose_name_and_pods_carry_the_template_s_hash() -> None:
    async with workloads() as world:
        await world.client.create(deployment())
        await world.until(lambda: is_rolled_out(world))
        found = await world.get(Deployment, "d")
        available, progressing = condition(found, "Available"), condition(found, "Progressing")
        assert (available.status, available.reason) == ("True", "MinimumReplicasAvailable")
        assert (progressing.status, progressing.reason) == ("True", "NewReplicaSetAvailable")
        assert found.status.unavailableReplicas == 0
        (only,) = await sets(world)
        mark = only.metadata.labels["pod-template-hash"]
        assert only.metadata.name == f"d-{mark}"
        assert progressing.message == f'ReplicaSet "d-{mark}" has successfully progressed.'
        assert only.spec.selector is not None
        assert only.spec.selector.matchLabels == {"app": "a", "pod-template-hash": mark}
        assert {pod.metadata.labels["pod-template-hash"] for pod in await world.pods()} == {mark}
        assert found.metadata.annotations[REVISION] == only.metadata.annotations[REVISION] == "1"
        assert only.metadata.annotations["kubernetes.io/change-cause"] == "first"
        assert await world.events("ScalingReplicaSet") == [f"Scaled up replica set d-{mark} from 0 to 3"]


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), ("50%", "25%"), (3, 2)])
async def test_a_rolling_update_keeps_to_its_bounds_at_every_moment(surge: int | str, unavailable: int | str) -> None:
    async with workloads() as world:
        wanted = deployment(4, {"start_delay": "2s", "stop_delay": "1s"}, strategy=rolling(surge, unavailable))
        await world.client.create(wanted)
        await world.until(lambda: is_rolled_out(world))
        await change_template(world, version="2")
        limits = bounds(wanted)

        async def holds() -> bool:
            pods = [pod for pod in await world.pods() if pod.metadata.deletionTimestamp is None]
            ready = [pod for pod in pods if (ready := condition(pod, "Ready")) and ready.status == "True"]
            assert len(pods) <= 4 + limits.surge
            assert len(ready) >= 4 - limits.unavailable
            return await is_rolled_out(world)

        await asyncio.sleep(0.25)
        await world.until(holds)
        old, new = await sets(world)
        assert (old.spec.replicas, new.spec.replicas) == (0, 4)
        assert [each.metadata.annotations[REVISION] for each in (old, new)] == ["1", "2"]


async def test_a_recreate_ends_every_old_pod_before_a_new_one_begins() -> None:
    async with workloads() as world:
        await world.client.create(deployment(3, {"stop_delay": "2s"}, strategy=DeploymentStrategy(type="Recreate")))
        await world.until(lambda: is_rolled_out(world))
        before = {pod.metadata.name for pod in await world.pods()}
        await change_template(world, version="2")

        async def holds() -> bool:
            present = {pod.metadata.name for pod in await world.pods()}
            assert not (present & before and present - before), "old and new at once"
            return bool(present) and not present & before and await is_rolled_out(world)

        await world.until(holds)


async def test_going_back_to_an_earlier_template_takes_its_set_again_under_a_new_revision() -> None:
    async with workloads() as world:
        await world.client.create(deployment())
        await world.until(lambda: is_rolled_out(world))
        (first,) = await sets(world)
        await change_template(world, version="2")
        await asyncio.sleep(0.5)
        await world.until(lambda: is_rolled_out(world))
        patch = {"spec": {"template": {"metadata": {"annotations": {"version": None}}}}}
        await world.client.patch(Deployment, "d", patch, namespace="default")
        await asyncio.sleep(0.5)
        await world.until(lambda: is_rolled_out(world))
        second, again = await sets(world)
        assert again.metadata.uid == first.metadata.uid
        assert (second.spec.replicas, again.spec.replicas) == (0, 3)
        assert again.metadata.annotations[REVISION] == "3"
        assert (await world.get(Deployment, "d")).metadata.annotations[REVISION] == "3"


async def test_history_beyond_its_limit_is_forgotten_oldest_first() -> None:
    async with workloads() as world:
        await world.client.create(deployment(1, revisionHistoryLimit=2))
        for version in range(5):
            await change_template(world, version=str(version))
            await asyncio.sleep(0.5)
            await world.until(lambda: is_rolled_out(world))
        await asyncio.sleep(2)
        revisions = [int(each.metadata.annotations[REVISION]) for each in await sets(world)]
        assert revisions == [max(revisions) - 2, max(revisions) - 1, max(revisions)]


async def test_scaling_changes_the_size_and_starts_no_rollout() -> None:
    async with workloads() as world:
        await world.client.create(deployment(2))
        await world.until(lambda: is_rolled_out(world))
        for size in (6, 1, 0, 3):
            await world.client.patch(Deployment, "d", {"spec": {"replicas": size}}, namespace="default")
            await asyncio.sleep(0.5)
            await world.until(lambda: is_rolled_out(world))
            assert len(await world.running()) == size
        assert len(await sets(world)) == 1


async def test_a_rollout_that_cannot_go_on_is_late_after_its_deadline_and_keeps_the_old_pods() -> None:
    async with workloads() as world:
        await world.client.create(deployment(4, progressDeadlineSeconds=60))
        await world.until(lambda: is_rolled_out(world))
        bad = {"spec": {"template": {"spec": {"nodeName": "no-such-node"}}}}
        await world.client.patch(Deployment, "d", bad, namespace="default")
        await asyncio.sleep(50)
        assert condition(await world.get(Deployment, "d"), "Progressing").status == "True"
        await asyncio.sleep(20)
        late = await world.get(Deployment, "d")
        progressing = condition(late, "Progressing")
        assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")
        assert condition(late, "Available").status == "True"
        assert len(await world.running()) == 3
        good = {"spec": {"template": {"spec": {"nodeName": "node-000"}}}}
        await world.client.patch(Deployment, "d", good, namespace="default")
        await asyncio.sleep(0.5)
        await world.until(lambda: is_rolled_out(world))
        assert condition(await world.get(Deployment, "d"), "Progressing").reason == "NewReplicaSetAvailable"


async def test_a_paused_deployment_scales_but_rolls_out_only_when_resumed() -> None:
    async with workloads() as world:
        await world.client.create(deployment(2))
        await world.until(lambda: is_rolled_out(world))
        await world.client.patch(Deployment, "d", {"spec": {"paused": True, "replicas": 4}}, namespace="default")
        await change_template(world, version="2")
        await asyncio.sleep(10)
        assert len(await sets(world)) == 1
        assert len(await world.running()) == 4
        assert condition(await world.get(Deployment, "d"), "Progressing").reason == "DeploymentPaused"
        await world.client.patch(Deployment, "d", {"spec": {"paused": False}}, namespace="default")
        await asyncio.sleep(0.5)
        await world.until(lambda: is_rolled_out(world))
        assert len(await sets(world)) == 2
        assert condition(await world.get(Deployment, "d"), "Progressing").reason == "NewReplicaSetAvailable"


async def test_a_name_that_a_stranger_has_taken_is_avoided() -> None:
    async with workloads() as world:
        await world.client.create(deployment(1))
        await world.until(lambda: is_rolled_out(world))
        (made,) = await sets(world)
        await world.client.delete(Deployment, "d", "default", propagation="Background")
        await asyncio.sleep(10)
        assert await sets(world) == []
        labels = {"app": "stranger"}
        stranger = ReplicaSet(
            metadata=ObjectMeta(name=made.metadata.name, namespace="default", annotations={REVISION: "0"}),
            spec=ReplicaSetSpec(
                replicas=0, selector=LabelSelector(matchLabels=labels), template=template(labels=labels)
            ),
        )
        await world.client.create(stranger)
        await world.client.create(deployment(1))
        await world.until(lambda: is_rolled_out(world))
        assert (await world.get(Deployment, "d")).status.collisionCount == 1
        assert len(await sets(world)) == 2


async def test_deleting_a_deployment_takes_sets_and_pods_along() -> None:
    async with workloads() as world:
        await world.client.create(deployment(3))
        await world.until(lambda: is_rolled_out(world))
        await world.client.delete(Deployment, "d", "default")
        await asyncio.sleep(10)
        assert (await sets(world), await world.pods()) == ([], [])


async def test_a_set_that_was_orphaned_is_taken_in_again_by_a_deployment_that_selects_it() -> None:
    async with workloads() as world:
        await world.client.create(deployment(2))
        await world.until(lambda: is_rolled_out(world))
        (before,), pods = await sets(world), await world.pods()
        await world.client.delete(Deployment, "d", "default", propagation="Orphan")
        await asyncio.sleep(10)
        (orphan,) = await sets(world)
        assert not orphan.metadata.ownerReferences
        made = await world.client.create(deployment(2))
        await world.until(lambda: is_rolled_out(world))
        (adopted,) = await sets(world)
        assert adopted.metadata.uid == before.metadata.uid
        assert [owner.uid for owner in adopted.metadata.ownerReferences] == [made.metadata.uid]
        assert {pod.metadata.uid for pod in await world.pods()} == {pod.metadata.uid for pod in pods}


@pytest.mark.parametrize("wire", [LateWatch, Unreliable])
async def test_bad_wires_slow_a_rollout_down_and_spoil_nothing(wire: Any) -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(wire):
        await world.client.create(deployment(4))
        await world.until(lambda: is_rolled_out(world), 300)
        await change_template(world, version="2")
        await asyncio.sleep(5)
        await world.until(lambda: is_rolled_out(world), 300)
        await asyncio.sleep(30)
        assert len(await sets(world)) == 2
        assert len(await world.running()) == 4


async def test_a_settled_deployment_costs_no_writes() -> None:
    async with workloads() as world:
        await world.client.create(deployment(3))
        await world.until(lambda: is_rolled_out(world))
        await asyncio.sleep(5)
        before = (await world.get(Deployment, "d")).metadata.resourceVersion
        latest = (await world.client.list(Deployment)).resource_version
        await asyncio.sleep(3000)
        assert (await world.get(Deployment, "d")).metadata.resourceVersion == before
        assert int((await world.client.list(Deployment)).resource_version) - int(latest) < 20


# --- the arithmetic


def a_set(
    name: str, replicas: int, available: int | None = None, maximum: int | None = None, age: int = 0
) -> ReplicaSet:
    annotations = {DESIRED: "10", MAXIMUM: str(maximum)} if maximum is not None else {}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "annotations": annotations,
                "creationTimestamp": f"2025-01-01T00:00:{59 - age:02}Z",
            },
            "spec": {"replicas": replicas},
            "status": {"availableReplicas": replicas if available is None else available, "replicas": replicas},
        },
        ReplicaSet,
    )


@pytest.mark.parametrize(
    ("size", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", Bounds(3, 2)),
        (1, "25%", "25%", Bounds(1, 0)),
        (4, 0, 0, Bounds(0, 1)),
        (0, "25%", "25%", Bounds(0, 0)),
        (3, 2, 5, Bounds(2, 3)),
    ],
)
def test_percentages_round_towards_having_enough_pods(
    size: int, surge: int | str, unavailable: int | str, expected: Bounds
) -> None:
    assert bounds(deployment(size, strategy=rolling(surge, unavailable))) == expected


def test_the_new_set_grows_only_into_the_room_that_surge_leaves() -> None:
    wanted = deployment(10, strategy=rolling(2, 0))
    assert size_of_new(wanted, [a_set("old", 10)], 0) == 2
    assert size_of_new(wanted, [a_set("old", 5)], 4) == 7
    assert size_of_new(wanted, [a_set("old", 12)], 0) == 0
    assert size_of_new(wanted, [], 15) == 10


def test_old_pods_that_do_not_serve_go_before_those_that_do() -> None:
    wanted = deployment(10, strategy=rolling(2, 2))
    new, sick, well = a_set("new", 4, 2), a_set("sick", 4, 1, age=1), a_set("well", 4, 4, age=2)
    sizes = {each.set.metadata.name: each.replicas for each in shrink_old(wanted, new, [sick, well])}
    assert sizes == {"sick": 2}
    new = a_set("new", 4, 4)
    sizes = {each.set.metadata.name: each.replicas for each in shrink_old(wanted, new, [sick, well])}
    assert sizes == {"sick": 1, "well": 3}


@pytest.mark.parametrize(
    ("size", "expected"), [(20, {"big": 16, "small": 8}), (5, {"big": 4, "small": 2}), (0, {"big": 0, "small": 0})]
)
def test_in_the_middle_of_a_rollout_each_set_keeps_its_share(size: int, expected: dict[str, int]) -> None:
    big, small = a_set("big", 8, maximum=12, age=1), a_set("small", 4, available=0, maximum=12)
    wanted = deployment(size, strategy=rolling("20%", 0))
    assert {each.set.metadata.name: each.replicas for each in resize(wanted, small, [big])} == expected
    assert replicas_of(wanted) == size
