"""A StatefulSet's pods have stable names and claims, and come, change and go in order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bosket.api.apps import (
    ControllerRevision,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from bosket.api.core import PersistentVolumeClaim, Pod
from bosket.api.object import LabelSelector, ObjectMeta
from tests.embedded.wires import LateWatch, Unreliable
from tests.embedded.workloads import Workloads, fail, template, workloads

pytestmark = pytest.mark.looptime


def stateful_set(replicas: int = 3, simulation: dict[str, str] | None = None, **spec: Any) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(name="s", namespace="default"),
        spec=StatefulSetSpec(
            replicas=replicas,
            serviceName="peers",
            selector=LabelSelector(matchLabels={"app": "a"}),
            template=template(simulation=simulation),
            **spec,
        ),
    )


def rolling(**how: Any) -> StatefulSetUpdateStrategy:
    return StatefulSetUpdateStrategy(
        type="RollingUpdate", rollingUpdate=RollingUpdateStatefulSetStrategy(**how) if how else None
    )


def a_claim(name: str) -> PersistentVolumeClaim:
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        PersistentVolumeClaim,
    )


async def is_ready(world: Workloads, replicas: int) -> bool:
    status = (await world.get(StatefulSet, "s")).status
    return status.readyReplicas == status.replicas == status.availableReplicas == replicas


async def is_rolled_out(world: Workloads) -> bool:
    """As `kubectl rollout status` judges it, without a partition."""
    found = await world.get(StatefulSet, "s")
    return (
        found.status.observedGeneration >= found.metadata.generation
        and found.status.updateRevision == found.status.currentRevision
        and await is_ready(world, found.spec.replicas or 0)
    )


async def names(world: Workloads) -> list[str]:
    return [pod.metadata.name for pod in await world.pods()]


async def history(world: Workloads, seconds: float) -> list[list[str]]:
    """The names of the pods that are there, whenever they change."""
    seen: list[list[str]] = []
    for _ in range(int(seconds * 4)):
        present = await names(world)
        if not seen or seen[-1] != present:
            seen.append(present)
        await asyncio.sleep(0.25)
    return seen


async def scale(world: Workloads, replicas: int) -> None:
    await world.client.patch(StatefulSet, "s", {"spec": {"replicas": replicas}}, namespace="default")


async def change_template(world: Workloads, version: str) -> None:
    patch = {"spec": {"template": {"metadata": {"annotations": {"version": version}}}}}
    await world.client.patch(StatefulSet, "s", patch, namespace="default")


def versions(pods: list[Pod]) -> list[str]:
    return [pod.metadata.annotations.get("version", "1") for pod in pods]


async def test_pods_come_one_by_one_in_order_and_go_in_the_opposite_one() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(3, {"start_delay": "2s", "stop_delay": "1s"}))
        assert await history(world, 20) == [[], ["s-0"], ["s-0", "s-1"], ["s-0", "s-1", "s-2"]]
        assert await is_ready(world, 3)
        await scale(world, 1)
        assert await history(world, 20) == [["s-0", "s-1", "s-2"], ["s-0", "s-1"], ["s-0"]]
        assert await is_ready(world, 1)


async def test_parallel_pods_come_and_go_together() -> None:
    async with workloads() as world:
        slow = {"start_delay": "2s", "stop_delay": "1s"}
        await world.client.create(stateful_set(3, slow, podManagementPolicy="Parallel"))
        assert await history(world, 5) == [[], ["s-0", "s-1", "s-2"]]
        await scale(world, 1)
        assert await history(world, 5) == [["s-0", "s-1", "s-2"], ["s-0"]]


async def test_a_pod_has_a_stable_name_an_identity_and_claims_of_its_own() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(2, volumeClaimTemplates=(a_claim("data"),)))
        await world.until(lambda: is_ready(world, 2))
        _, second = await world.pods()
        assert (second.spec.hostname, second.spec.subdomain) == ("s-1", "peers")
        assert second.metadata.labels["statefulset.kubernetes.io/pod-name"] == "s-1"
        assert second.metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        (volume,) = second.spec.volumes
        assert volume.persistentVolumeClaim is not None
        assert (volume.name, volume.persistentVolumeClaim.claimName) == ("data", "data-s-1")
        claims = (await world.client.list(PersistentVolumeClaim)).items
        assert sorted(claim.metadata.name for claim in claims) == ["data-s-0", "data-s-1"]
        await world.client.delete(Pod, "s-1", "default")
        await asyncio.sleep(10)
        again = await world.get(Pod, "s-1")
        assert again.metadata.uid != second.metadata.uid
        assert again.spec.volumes == second.spec.volumes


@pytest.mark.parametrize(("policy", "left"), [("Retain", 2), ("Delete", 0)])
async def test_claims_outlive_the_set_unless_it_says_otherwise(policy: str, left: int) -> None:
    async with workloads() as world:
        retention = StatefulSetPersistentVolumeClaimRetentionPolicy(whenDeleted=policy, whenScaled="Retain")
        claims: dict[str, Any] = {
            "volumeClaimTemplates": (a_claim("data"),),
            "persistentVolumeClaimRetentionPolicy": retention,
        }
        await world.client.create(stateful_set(2, **claims))
        await world.until(lambda: is_ready(world, 2))
        await world.client.delete(StatefulSet, "s", "default", propagation="Background")
        await asyncio.sleep(10)
        assert await world.pods() == []
        assert len((await world.client.list(PersistentVolumeClaim)).items) == left
        assert (await world.client.list(ControllerRevision)).items == []


async def test_an_update_replaces_pods_from_the_highest_down_one_at_a_time() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(3, {"start_delay": "2s"}))
        await world.until(lambda: is_rolled_out(world))
        before = (await world.get(StatefulSet, "s")).status.currentRevision
        await change_template(world, "2")
        seen: list[list[str]] = []

        async def holds() -> bool:
            pods = await world.pods()
            assert len(await world.running()) >= 2
            if len(pods) == 3 and (not seen or seen[-1] != versions(pods)):
                seen.append(versions(pods))
            return versions(pods) == ["2", "2", "2"] and await is_rolled_out(world)

        await world.until(holds)
        assert seen == [["1", "1", "1"], ["1", "1", "2"], ["1", "2", "2"], ["2", "2", "2"]]
        after = await world.get(StatefulSet, "s")
        assert after.status.currentRevision == after.status.updateRevision != before
        assert (after.status.currentReplicas, after.status.updatedReplicas) == (3, 3)
        assert {pod.metadata.labels["controller-revision-hash"] for pod in await world.pods()} == {
            after.status.updateRevision
        }


async def test_a_partition_keeps_lower_ordinals_at_the_old_revision_also_when_they_are_replaced() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(4, updateStrategy=rolling(partition=2)))
        await world.until(lambda: is_rolled_out(world))
        await change_template(world, "2")
        await asyncio.sleep(20)
        assert versions(await world.pods()) == ["1", "1", "2", "2"]
        status = (await world.get(StatefulSet, "s")).status
        assert (status.currentReplicas, status.updatedReplicas) == (2, 2)
        assert status.currentRevision != status.updateRevision
        await world.client.delete(Pod, "s-0", "default")
        await asyncio.sleep(10)
        assert versions(await world.pods()) == ["1", "1", "2", "2"]
        patch = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        await world.client.patch(StatefulSet, "s", patch, namespace="default")
        await world.until(lambda: is_rolled_out(world))
        assert versions(await world.pods()) == ["2"] * 4


async def test_more_may_be_missing_during_an_update_where_the_set_allows_it() -> None:
    async with workloads() as world:
        strategy = rolling(maxUnavailable=2)
        await world.client.create(
            stateful_set(4, {"start_delay": "2s"}, podManagementPolicy="Parallel", updateStrategy=strategy)
        )
        await world.until(lambda: is_rolled_out(world))
        await change_template(world, "2")
        fewest = 4

        async def holds() -> bool:
            nonlocal fewest
            fewest = min(fewest, len(await world.running()))
            return versions(await world.pods()) == ["2"] * 4 and await is_rolled_out(world)

        await world.until(holds)
        assert fewest == 2


async def test_on_delete_pods_change_only_when_somebody_deletes_them() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(2, updateStrategy=StatefulSetUpdateStrategy(type="OnDelete")))
        await world.until(lambda: is_rolled_out(world))
        await change_template(world, "2")
        await asyncio.sleep(10)
        assert versions(await world.pods()) == ["1", "1"]
        await world.client.delete(Pod, "s-0", "default")
        await asyncio.sleep(10)
        assert versions(await world.pods()) == ["2", "1"]


async def test_a_pod_that_failed_is_replaced_under_its_name() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(2))
        await world.until(lambda: is_ready(world, 2))
        first = (await world.pods())[0]
        await fail(world, first)
        await asyncio.sleep(10)
        assert await is_ready(world, 2)
        assert (await world.get(Pod, "s-0")).metadata.uid != first.metadata.uid


async def test_revisions_are_kept_for_undoing_and_forgotten_beyond_the_limit() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(1, revisionHistoryLimit=2))
        await world.until(lambda: is_rolled_out(world))
        for version in ("2", "3", "4", "5"):
            await change_template(world, version)
            await asyncio.sleep(0.5)
            await world.until(lambda: is_rolled_out(world))
        await asyncio.sleep(2)
        kept = sorted(each.revision for each in (await world.client.list(ControllerRevision)).items)
        assert kept == [3, 4, 5]
        await change_template(world, "3")
        await asyncio.sleep(0.5)
        await world.until(lambda: is_rolled_out(world))
        kept = sorted(each.revision for each in (await world.client.list(ControllerRevision)).items)
        assert kept == [4, 5, 6], "an earlier template is the latest revision again, and not another one"


async def test_counting_may_begin_elsewhere() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(2, ordinals=StatefulSetOrdinals(start=5)))
        await world.until(lambda: is_ready(world, 2))
        assert await names(world) == ["s-5", "s-6"]


async def test_the_next_pod_waits_until_the_last_was_ready_for_long_enough() -> None:
    async with workloads() as world:
        await world.client.create(stateful_set(2, minReadySeconds=30))
        await asyncio.sleep(20)
        assert await names(world) == ["s-0"]
        await asyncio.sleep(15)
        assert await names(world) == ["s-0", "s-1"]
        assert (await world.get(StatefulSet, "s")).status.availableReplicas == 1
        await world.until(lambda: is_ready(world, 2))


@pytest.mark.parametrize("wire", [LateWatch, Unreliable])
async def test_bad_wires_slow_an_update_down_and_spoil_nothing(wire: Any) -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(wire):
        await world.client.create(stateful_set(3))
        await world.until(lambda: is_rolled_out(world), 300)
        await change_template(world, "2")
        await asyncio.sleep(10)
        await world.until(lambda: is_rolled_out(world), 300)
        assert versions(await world.pods()) == ["2"] * 3
        assert len((await world.client.list(ControllerRevision)).items) == 2
