"""The pod grouper on a cluster: what it writes, how often, and what makes it look again."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bosket.api import keys
from bosket.api.apps import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec
from bosket.api.batch import Job
from bosket.api.core import ConfigMap, Namespace, Pod
from bosket.api.kai import PodGroup
from bosket.api.object import LabelSelector, ObjectMeta, OwnerReference
from bosket.api.resource import Resource
from bosket.api.scheduling_k8s import PriorityClass
from bosket.runtime.service import Environment, Service
from bosket.services.podgrouper import Options
from bosket.testing.faults import Chaos, FaultyTransport, delay, hang_up, matching, refuse
from tests.podgrouper.scene import grouped, grouper, grouper_with, make_gang, make_job, make_pod, scene
from tests.rig import NAMESPACE, Lagging, Meddling, Rig

pytestmark = pytest.mark.looptime


def writes(transport: FaultyTransport) -> dict[str, int]:
    """How often each sort of write was sent; events apart."""
    counts: dict[str, int] = {}
    for each in transport.requests:
        if each.method != "GET" and not each.path.endswith("/events"):
            kind = each.path.split(f"{NAMESPACE}/")[-1].split("/")[0]
            counts[f"{each.method} {kind}"] = counts.get(f"{each.method} {kind}", 0) + 1
    return counts


async def test_a_gang_gets_one_group_in_one_write_and_each_pod_is_patched_once() -> None:
    rig = await scene()
    names = await make_gang(rig, 512, minimum="512")
    slow = delay(matching("POST", "/podgroups"), 1.0)
    transport = FaultyTransport(rig.server.transport(), [slow], clock=rig.clock)
    async with rig.running(grouper, transport):
        group = await grouped(rig, names)
        await rig.clock.sleep(60)
    assert (group.spec.minMember, group.spec.queue, group.spec.priorityClassName) == (512, "q", "train")
    assert group.metadata.ownerReferences[0].kind == "Job"
    assert writes(transport) == {"POST podgroups": 1, "PATCH pods": 512}


async def test_pods_that_come_later_join_the_group_without_writing_it() -> None:
    rig = await scene()
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        owner = await make_job(rig)
        for number in range(3):
            await make_pod(rig, f"train-{number}", owner)
            await grouped(rig, [f"train-{number}"])
    assert writes(transport) == {"POST podgroups": 1, "PATCH pods": 3}


async def test_pods_that_arrive_with_the_name_of_their_group_are_not_written_to() -> None:
    """Admission knew it. Where it was wrong, or somebody else was, the pod is put right."""
    rig = await scene()
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        owner = await make_job(rig)
        name = f"pg-{owner.name}-{owner.uid}"
        for number, said in enumerate((name, name, "pg-of-something-else")):
            await make_pod(rig, f"train-{number}", owner, group=said)
        await rig.clock.sleep(60)
    assert (await grouped(rig, [f"train-{number}" for number in range(3)])).metadata.name == name
    assert writes(transport) == {"POST podgroups": 1, "PATCH pods": 1}


async def test_a_grouper_that_starts_again_finds_nothing_to_do() -> None:
    rig = await scene()
    names = await make_gang(rig, 8)
    async with rig.running(grouper):
        await grouped(rig, names)
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        await rig.clock.sleep(60)
    assert writes(transport) == {}


async def test_pods_of_a_deployment_get_a_group_each_that_follows_the_deployment() -> None:
    rig = await scene()
    labels = {"app": "web"}
    selector = LabelSelector(matchLabels=labels)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = await rig.client.create(
        Deployment(
            metadata=ObjectMeta(name="web", namespace=NAMESPACE, labels={keys.QUEUE_LABEL: "serving"}),
            spec=msgspec.convert({"selector": selector, "template": template}, DeploymentSpec, from_attributes=True),
        )
    )
    above = OwnerReference(apiVersion="apps/v1", kind="Deployment", name="web", uid=deployment.metadata.uid)
    replica_set = await rig.client.create(
        ReplicaSet(
            metadata=ObjectMeta(name="web-1", namespace=NAMESPACE, labels=labels, ownerReferences=(above,)),
            spec=msgspec.convert({"selector": selector, "template": template}, ReplicaSetSpec, from_attributes=True),
        )
    )
    owner = OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web-1", uid=replica_set.metadata.uid)
    async with rig.running(grouper):
        groups = []
        for name in ("web-1-a", "web-1-b"):
            await make_pod(rig, name, owner)
            groups.append(await grouped(rig, [name]))

        patch = {"metadata": {"labels": {keys.PRIORITY_CLASS_LABEL: "build"}}}
        await rig.client.patch(Deployment, "web", patch, namespace=NAMESPACE)

        async def follows() -> bool:
            found = (await rig.client.list(PodGroup, NAMESPACE)).items
            return {each.spec.priorityClassName for each in found} == {"build"}

        await rig.until(follows)
    assert len({each.metadata.name for each in groups}) == 2
    assert {(each.spec.queue, each.spec.priorityClassName) for each in groups} == {("serving", "inference")}


async def test_what_cant_be_grouped_is_told_and_heals_when_its_owner_does() -> None:
    rig = await scene()
    names = await make_gang(rig, 2, minimum="many")
    async with rig.running(grouper):
        events = await rig.until(lambda: rig.events("PodGrouperWarning"))
        message = (
            'Job ml/train: annotation kai.scheduler/batch-min-member is "many"; '
            "it must be a whole number from 0 to 2147483647"
        )
        assert {(each.type, each.message) for each in events} == {("Warning", message)}
        await _annotate_job(rig, "2")
        assert (await grouped(rig, names)).spec.minMember == 2


async def test_a_group_follows_its_owner() -> None:
    rig = await scene()
    names = await make_gang(rig, 2, minimum="2")
    async with rig.running(grouper):
        await grouped(rig, names)
        await _annotate_job(rig, "1")

        async def changed() -> bool:
            return (await grouped(rig, names)).spec.minMember == 1

        await rig.until(changed)


async def test_what_an_owner_says_no_more_goes_from_its_group() -> None:
    rig = await scene()
    names = await make_gang(rig, 2)
    async with rig.running(grouper):
        for value in ("non-preemptible", None):
            patch = {"metadata": {"labels": {keys.PREEMPTIBILITY_LABEL: value}}}
            await rig.client.patch(Job, "train", patch, namespace=NAMESPACE)

            async def follows(value: str | None = value) -> bool:
                return (await grouped(rig, names)).spec.preemptibility == (value or "")

            await rig.until(follows)


async def test_groups_follow_the_administrators_defaults_and_priority_classes() -> None:
    rig = await scene()
    names = await make_gang(rig, 2)
    options = Options(default_priorities_configmap_name="defaults", default_priorities_configmap_namespace=NAMESPACE)

    async def has(priority: str) -> bool:
        return (await grouped(rig, names)).spec.priorityClassName == priority

    async with rig.running(grouper_with(options)):
        await rig.until(lambda: has("train"))
        types = '[{"typeName": "Job", "priorityName": "urgent"}]'
        await rig.apply(ConfigMap(metadata=ObjectMeta(name="defaults", namespace=NAMESPACE), data={"types": types}))
        await rig.clock.sleep(10)
        assert await has("train")
        await rig.apply(PriorityClass(metadata=ObjectMeta(name="urgent"), value=80))
        await rig.until(lambda: has("urgent"))
        patch = {"data": {"types": '[{"typeName": "Job", "priorityName": "build"}]'}}
        await rig.client.patch(ConfigMap, "defaults", patch, namespace=NAMESPACE)
        await rig.until(lambda: has("build"))


async def test_pods_are_grouped_as_soon_as_their_namespace_is_chosen() -> None:
    rig = await scene()
    names = await make_gang(rig, 2)
    async with rig.running(grouper_with(Options(namespace_label_selector={"tenant": "blue"}))):
        await rig.clock.sleep(10)
        assert (await rig.client.list(PodGroup, NAMESPACE)).items == []
        await rig.client.patch(Namespace, NAMESPACE, {"metadata": {"labels": {"tenant": "blue"}}})
        await grouped(rig, names)


async def test_a_group_keeps_what_its_user_decided() -> None:
    rig = await scene()
    names = await make_gang(rig, 2, minimum="2")
    async with rig.running(grouper):
        group = await grouped(rig, names)
        patch = {"spec": {"queue": "moved", "schedulingBackoff": 1}, "metadata": {"labels": {"mine": "1"}}}
        await rig.client.patch(PodGroup, group.metadata.name, patch, namespace=NAMESPACE)
        await _annotate_job(rig, "1")

        async def changed() -> PodGroup | None:
            found = await grouped(rig, names)
            return found if found.spec.minMember == 1 else None

        found: PodGroup = await rig.until(changed)
    assert (found.spec.queue, found.spec.schedulingBackoff, found.metadata.labels["mine"]) == ("moved", 1, "1")


async def test_a_group_that_was_deleted_is_made_anew() -> None:
    rig = await scene()
    names = await make_gang(rig, 2)
    async with rig.running(grouper):
        group = await grouped(rig, names)
        await rig.client.delete(PodGroup, group.metadata.name, NAMESPACE)

        async def back() -> bool:
            groups = (await rig.client.list(PodGroup, NAMESPACE)).items
            return [each.metadata.name for each in groups] == [group.metadata.name]

        await rig.until(back)
        assert (await grouped(rig, names)).metadata.uid != group.metadata.uid


async def test_a_group_that_somebody_else_made_first_is_taken_over() -> None:
    rig = await scene()
    owner = await make_job(rig, minimum="3")
    await make_pod(rig, "train-0", owner)
    theirs = PodGroup(metadata=ObjectMeta(name=f"pg-train-{owner.uid}", namespace=NAMESPACE, labels={"theirs": "1"}))
    meddling = Meddling(rig.server.transport(), matching("POST", "/podgroups"), lambda: rig.apply(theirs))
    async with rig.running(grouper, meddling):
        group = await grouped(rig, ["train-0"])
    assert (group.metadata.labels["theirs"], group.spec.minMember) == ("1", 3)
    assert await rig.events("PodGrouperWarning") == []


async def test_a_conflict_is_nobodys_news() -> None:
    rig = await scene()
    names = await make_gang(rig, 2)
    fault = refuse(matching("PATCH", "/pods/"), 409, reason="Conflict", times=2)
    async with rig.running(grouper, FaultyTransport(rig.server.transport(), [fault])):
        await grouped(rig, names)
    assert fault.struck == 2
    assert await rig.events("PodGrouperWarning") == []


async def test_a_pod_that_goes_meanwhile_is_nobodys_news() -> None:
    rig = await scene()
    owner = await make_job(rig)
    await make_pod(rig, "train-0", owner)

    async def delete() -> None:
        await rig.client.delete(Pod, "train-0", NAMESPACE, grace_seconds=0)

    meddling = Meddling(rig.server.transport(), matching("PATCH", "/pods/"), delete)
    async with rig.running(grouper, meddling):
        await rig.clock.sleep(60)
    assert await rig.events("PodGrouperWarning") == []


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_a_namespace_that_is_being_deleted_is_nobodys_news(caplog: pytest.LogCaptureFixture) -> None:
    rig = await scene()
    await make_pod(rig, "train-0", await make_job(rig))
    await rig.client.patch(Pod, "train-0", {"metadata": {"finalizers": ["example.com/wait"]}}, namespace=NAMESPACE)
    await rig.client.delete(Namespace, NAMESPACE)
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        await rig.clock.sleep(30)
    assert writes(transport).keys() == {"POST podgroups"}  # which is refused
    assert complaints(caplog) == []


async def test_an_owner_that_was_just_deleted_is_news_only_if_the_pod_stays(caplog: pytest.LogCaptureFixture) -> None:
    rig = await scene()
    await make_pod(rig, "train-0", await make_job(rig))
    await rig.client.delete(Job, "train", NAMESPACE, propagation="Background")
    async with rig.running(grouper):
        await rig.clock.sleep(20)
        assert complaints(caplog) == []
        assert await rig.events("PodGrouperWarning") == []
        await rig.clock.sleep(60)
        assert await rig.events("PodGrouperWarning") != []
    assert set(complaints(caplog)) == {"pod can't be grouped"}


async def test_a_pod_is_patched_once_even_while_the_watch_lags() -> None:
    rig = await scene()
    names = await make_gang(rig, 2, minimum="2")
    transport = FaultyTransport(Lagging(rig.server.transport(), "pods"))
    async with rig.running(grouper, transport):
        await grouped(rig, names)
        await _annotate_job(rig, "1")
        await rig.clock.sleep(10)
    assert writes(transport) == {"POST podgroups": 1, "PATCH pods": 2, "PATCH podgroups": 1}


async def test_an_owner_that_the_watch_has_not_shown_yet_is_read(looptime: float) -> None:
    rig = await scene()
    await make_job(rig)
    async with rig.running(grouper, Lagging(rig.server.transport(), "jobs")):
        await rig.clock.sleep(1)
        await rig.client.delete(Job, "train", NAMESPACE, propagation="Background")
        anew = await make_job(rig)
        await make_pod(rig, "train-0", anew)
        group = await grouped(rig, ["train-0"])
    assert group.metadata.ownerReferences[0].uid == anew.uid
    assert await rig.events("PodGrouperWarning") == []
    assert looptime < 10


async def test_a_new_pod_of_the_same_name_does_not_get_the_old_ones_group() -> None:
    """It would stay there for ever: a bare pod that names a group counts as grouped by its user."""
    rig = await scene()
    await make_pod(rig, "solo")

    async def replace() -> None:
        await rig.client.delete(Pod, "solo", NAMESPACE, grace_seconds=0)
        await make_pod(rig, "solo")

    meddling = Meddling(rig.server.transport(), matching("PATCH", "/pods/solo"), replace)
    async with rig.running(grouper, meddling):
        group = await grouped(rig, ["solo"])
    pod = await rig.client.get(Pod, "solo", NAMESPACE)
    assert group.metadata.ownerReferences[0].uid == pod.metadata.uid


async def test_an_owner_that_may_not_be_read_ends_the_chain() -> None:
    rig = await scene()
    owner = OwnerReference(apiVersion="v1", kind="ReplicationController", name="rc", uid="u")
    await make_pod(rig, "a", owner)
    fault = refuse(matching("GET", "/replicationcontrollers/rc"), 403, reason="Forbidden", times=None)
    async with rig.running(grouper, FaultyTransport(rig.server.transport(), [fault])):
        group = await grouped(rig, ["a"])
    assert group.metadata.ownerReferences[0].kind == "Pod"


def crd(group: str, kind: str) -> dict[str, Any]:
    """A kind of another project, of which nothing is known but its name."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


SIMULATIONS: Resource[dict[str, Any]] = Resource("example.com", "v1", "Simulation", "simulations", dict)


async def test_owners_of_a_kind_met_for_the_first_time_are_found_by_discovery_and_read_once() -> None:
    rig = await scene()
    reads = matching("GET", "/simulations/sim")
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        await rig.clock.sleep(30)
        await rig.client.create(crd("example.com", "Simulation"))
        simulation: dict[str, Any] = {
            "apiVersion": "example.com/v1",
            "kind": "Simulation",
            "metadata": {"name": "sim", "namespace": NAMESPACE, "labels": {keys.QUEUE_LABEL: "physics"}},
        }
        created = await rig.client.create(simulation, kind=SIMULATIONS)
        owner = OwnerReference(
            apiVersion="example.com/v1", kind="Simulation", name="sim", uid=created["metadata"]["uid"]
        )
        names = [f"sim-{number}" for number in range(20)]
        for name in names:
            await make_pod(rig, name, owner)
        group = await grouped(rig, names)
    assert (group.metadata.name, group.spec.queue) == (f"pg-sim-{owner.uid}", "physics")
    assert sum(map(reads, transport.requests)) == 1
    assert writes(transport) == {"POST podgroups": 1, "PATCH pods": 20}


async def test_a_pod_of_a_job_is_grouped_once_though_it_is_bound_and_runs() -> None:
    """What the Job says is watched, and a bind says nothing about groups."""
    rig = await scene()
    registry = CollectorRegistry()
    looks = {"controller": "podgrouper", "result": "success"}

    def measured(environment: Environment) -> Service:
        return grouper(dataclasses.replace(environment, metrics=registry))

    async with rig.running(measured):
        owner = await make_job(rig)
        await make_pod(rig, "train-0", owner)
        await grouped(rig, ["train-0"])
        await rig.clock.sleep(60)
        before = registry.get_sample_value("controller_runtime_reconcile_total", looks)
        await start(rig, "train-0")
        await rig.clock.sleep(60)
        assert registry.get_sample_value("controller_runtime_reconcile_total", looks) == before


async def test_an_owner_that_is_not_watched_is_read_again_when_a_pod_begins_to_run() -> None:
    rig = await scene()
    async with rig.running(grouper):
        await rig.client.create(crd("example.com", "Simulation"))
        meta = {"name": "sim", "namespace": NAMESPACE, "labels": {keys.QUEUE_LABEL: "physics"}}
        made = await rig.client.create(
            {"apiVersion": "example.com/v1", "kind": "Simulation", "metadata": meta}, kind=SIMULATIONS
        )
        uid = made["metadata"]["uid"]
        await make_pod(
            rig, "sim-0", OwnerReference(apiVersion="example.com/v1", kind="Simulation", name="sim", uid=uid)
        )
        group = await grouped(rig, ["sim-0"])
        changed = {"metadata": {"annotations": {"example.com/step": "2"}}}
        await rig.client.patch(SIMULATIONS, "sim", changed, namespace=NAMESPACE)
        await rig.clock.sleep(60)  # longer than what was read of it is remembered
        await start(rig, "sim-0")

        async def follows() -> bool:
            found = await rig.client.get(PodGroup, group.metadata.name, NAMESPACE)
            return found.metadata.annotations.get("example.com/step") == "2"

        await rig.until(follows)


async def start(rig: Rig, name: str) -> None:
    """Binds a pod, and lets it run."""
    annotations = {keys.RECEIVED_RESOURCE_TYPE_ANNOTATION: "Regular"}
    pod = await rig.client.get(Pod, name, NAMESPACE)
    await rig.client.bind(pod, "node-1", annotations=annotations)
    await rig.client.patch(Pod, name, {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status")


async def test_a_pod_whose_workload_is_not_complete_yet_is_grouped_soon_after_it_is() -> None:
    rig = await scene()
    for kind in ("RayJob", "RayCluster"):
        await rig.client.create(crd("ray.io", kind))
    jobs: Resource[dict[str, Any]] = Resource("ray.io", "v1", "RayJob", "rayjobs", dict)
    clusters: Resource[dict[str, Any]] = Resource("ray.io", "v1", "RayCluster", "rayclusters", dict)
    of_job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "ray", "namespace": NAMESPACE}}
    created = await rig.client.create(of_job, kind=jobs)
    owner = OwnerReference(apiVersion="ray.io/v1", kind="RayJob", name="ray", uid=created["metadata"]["uid"])
    await make_pod(rig, "head", owner, **{"ray.io/group": "headgroup"})
    async with rig.running(grouper, FaultyTransport(rig.server.transport())):
        events = await rig.until(lambda: rig.events("PodGrouperWarning"))
        assert "status.rayClusterName names no RayCluster yet" in events[0].message
        made = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "made", "namespace": NAMESPACE},
            "spec": {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 2}]},
        }
        await rig.client.create(made, kind=clusters)
        await rig.client.patch(jobs, "ray", {"status": {"rayClusterName": "made"}}, namespace=NAMESPACE)
        before = rig.clock.monotonic()
        group = await grouped(rig, ["head"])
        assert rig.clock.monotonic() - before < 10
    assert (group.spec.minMember, [each.name for each in group.spec.subGroups]) == (3, ["headgroup", "gpu"])


async def test_an_owner_of_a_kind_that_is_not_served_is_named() -> None:
    rig = await scene()
    for number in range(20):
        owner = OwnerReference(apiVersion="example.com/v1", kind="Nothing", name=f"n-{number}", uid=f"u-{number}")
        await make_pod(rig, f"pod-{number}", owner)
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(grouper, transport):
        events = await rig.until(lambda: rig.events("PodGrouperWarning"))
    assert events[0].message.endswith("the API server doesn't serve the kind Nothing of example.com/v1")
    assert sum(each.path == "/apis" for each in transport.requests) <= 1


@pytest.mark.parametrize("seed", range(3))
async def test_in_chaos_all_pods_are_grouped(seed: int) -> None:
    rig = await scene()
    names = await make_gang(rig, 16, minimum="16")
    chaos = Chaos(
        seed, refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1, cut_rate=0.05, longest_delay_seconds=2.0
    )
    async with rig.running(grouper, FaultyTransport(rig.server.transport(), chaos=chaos, clock=rig.clock)):
        group = await grouped(rig, names)
    assert group.spec.minMember == 16


async def test_a_grouper_killed_at_any_write_leaves_the_rest_to_the_next_one() -> None:
    for last in range(1, 5):
        for after_effect in (False, True):
            rig = await scene()
            names = await make_gang(rig, 3, minimum="3")
            writing = lambda request: request.method != "GET"  # noqa: E731
            death = hang_up(writing, nth=last, times=None, after_effect=after_effect)
            async with rig.running(grouper, FaultyTransport(rig.server.transport(), [death])):

                async def dead(death: Any = death) -> bool:
                    return bool(death.struck)

                await rig.until(dead)
            async with rig.running(grouper):
                assert (await grouped(rig, names)).spec.minMember == 3
            assert len((await rig.client.list(PodGroup, NAMESPACE)).items) == 1


async def _annotate_job(rig: Rig, minimum: str) -> None:
    patch = {"metadata": {"annotations": {keys.BATCH_MIN_MEMBER_ANNOTATION: minimum}}}
    await rig.client.patch(Job, "train", patch, namespace=NAMESPACE)
