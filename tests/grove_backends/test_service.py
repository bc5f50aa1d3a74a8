"""The backends on a cluster: what they write, what they take away, and what a fault of one of them does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.core.pod import PodSchedulingGate
from bosket.api.grove import GangPodGroup, PodCliqueSet, PodGang
from bosket.api.kai import PodGroup, PodGroupSpec
from bosket.api.ownership import controller_of
from bosket.embedded.services import entries
from bosket.grove.backends import Options, Registry, Rendering, SchedulerBackend, Surroundings
from bosket.grove.backends.backend import owned_metadata
from bosket.grove.backends.gang_status import condition
from bosket.grove.backends.kai import KaiBackend
from bosket.grove.backends.service import BackendController, service
from bosket.runtime.service import Environment, Service
from bosket.testing.faults import Chaos, FaultyTransport, matching, refuse
from tests.grove_backends.scene import clique, clique_set, grove_rig, member, part, pod_gang
from tests.rig import NAMESPACE, Rig

pytestmark = pytest.mark.looptime
GROVE_GATE = "grove.io/podgang-pending-creation"


class Broken(SchedulerBackend):
    """A backend of somebody who makes mistakes."""

    name = "broken"
    scheduler_name = "broken"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == "broken"

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        raise ZeroDivisionError("division by zero")


def with_broken(env: Environment) -> Service:
    return BackendController(env, Options(), Registry([Broken(), KaiBackend()], metrics=env.metrics))


async def created(
    rig: Rig, name: str, *parts: GangPodGroup, scheduler: str = "kai-scheduler", **about: object
) -> PodGang:
    gang = pod_gang(name, *parts, labels={keys.GROVE_SCHEDULER_LABEL: scheduler}, **about)  # type: ignore[arg-type]
    metadata = msgspec.structs.replace(gang.metadata, uid="")
    return await rig.client.create(msgspec.structs.replace(gang, metadata=metadata))


async def group_of(rig: Rig, gang: PodGang) -> PodGroup | None:
    found = [
        each
        for each in (await rig.client.list(PodGroup, NAMESPACE)).items
        if (owner := controller_of(each)) is not None and owner.uid == gang.metadata.uid
    ]
    return found[0] if found else None


def has(rig: Rig, gang: PodGang, type_: str, status: str) -> Callable[[], object]:
    async def look() -> bool:
        found = await rig.client.get(PodGang, gang.metadata.name, NAMESPACE)
        said = condition(found.status.conditions, type_)
        return said is not None and said.status == status

    return look


async def bind(rig: Rig, pod: Pod, *, ready: bool = True) -> None:
    await rig.client.bind(pod, "n1")
    condition = [{"type": "Ready", "status": "True" if ready else "False"}]
    patch = {"status": {"phase": "Running", "conditions": condition}}
    await rig.client.patch(Pod, pod.metadata.name, patch, namespace=NAMESPACE, subresource="status")


async def test_a_gang_gets_its_pod_group_its_label_and_its_pods_their_freedom() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    gates = (PodSchedulingGate(name=GROVE_GATE), PodSchedulingGate(name="grove.io/podgang"))
    await rig.client.create(member("g", "a", schedulingGates=gates))
    async with rig.running(service):

        async def released() -> bool:
            pod = await rig.client.get(Pod, "a-0", NAMESPACE)
            return [each.name for each in pod.spec.schedulingGates] == [GROVE_GATE]

        await rig.until(released)
        group = await group_of(rig, gang)
        assert group is not None
        assert group.metadata.name == f"pg-g-{gang.metadata.uid}"
        labels = (await rig.client.get(PodGang, "g", NAMESPACE)).metadata.labels
        assert labels[keys.GROVE_BACKEND_LABEL] == "kai"


async def test_status_flows_back_and_nothing_is_written_when_nothing_changes() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    pod = await rig.client.create(member("g", "a"))
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(service, transport):
        await rig.until(has(rig, gang, "Scheduled", "False"))
        await bind(rig, pod)
        await rig.until(has(rig, gang, "Ready", "True"))
        await rig.clock.sleep(5)
        writes = [each for each in transport.requests if each.method != "GET"]
        await rig.clock.sleep(3600)
        assert [each for each in transport.requests if each.method != "GET"] == writes
    found = (await rig.client.get(PodGang, "g", NAMESPACE)).status
    assert found.phase == "Running"
    assert found.placementScore == 1.0
    assert {each.type: each.status for each in found.conditions} == {
        "Initialized": "True",
        "Scheduled": "True",
        "Ready": "True",
        "Unhealthy": "False",
        "DisruptionTarget": "False",
    }


async def test_a_backend_that_throws_leaves_its_gang_whole_and_others_alone() -> None:
    rig = await grove_rig()
    broken = await created(rig, "b", part("b-a"), scheduler="broken")
    sound = await created(rig, "g", part("g-a"))
    async with rig.running(with_broken):
        await rig.until(has(rig, broken, "Scheduled", "False"))
        await rig.until(lambda: group_of(rig, sound))
        found = await rig.client.get(PodGang, "b", NAMESPACE)
        assert found.spec == broken.spec
        said = condition(found.status.conditions, "Scheduled")
        assert said is not None
        assert said.reason == "BackendFailed"
        assert "ZeroDivisionError('division by zero')" in said.message
        (event,) = await rig.until(lambda: rig.events("BackendFailed"))
        assert event.involvedObject.name == "b"


async def test_a_change_of_the_gang_reaches_its_pod_group_and_a_removed_group_comes_back() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    async with rig.running(service):
        first = await rig.until(lambda: group_of(rig, gang))
        patch = {"spec": {"podgroups": [msgspec.to_builtins(part("a", 3))]}}
        await rig.client.patch(PodGang, "g", patch, namespace=NAMESPACE)

        async def has_three() -> bool:
            group = await group_of(rig, gang)
            return group is not None and group.spec.minMember == 3

        await rig.until(has_three)
        await rig.client.delete(PodGroup, first.metadata.name, NAMESPACE)

        async def another() -> bool:
            group = await group_of(rig, gang)
            return group is not None and group.metadata.uid != first.metadata.uid

        await rig.until(another)


async def test_a_group_under_another_name_is_adopted_and_a_surplus_one_goes() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    await rig.client.create(PodGroup(metadata=owned_metadata(gang, "g"), spec=PodGroupSpec(queue="team-a")))
    await rig.client.create(PodGroup(metadata=owned_metadata(gang, "x")))
    pod = member("g", "a")
    metadata = msgspec.structs.replace(pod.metadata, annotations={keys.POD_GROUP_ANNOTATION: "g"})
    await rig.client.create(msgspec.structs.replace(pod, metadata=metadata))
    async with rig.running(service):

        async def one_left() -> list[PodGroup] | None:
            groups = (await rig.client.list(PodGroup, NAMESPACE)).items
            return groups if len(groups) == 1 and groups[0].spec.subGroups else None

        (left,) = await rig.until(one_left)
        assert left.metadata.name == "g"
        assert left.spec.queue == "team-a"


async def test_a_write_that_fails_is_tried_again() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    transport = FaultyTransport(rig.server.transport(), [refuse(matching("POST", "/podgroups"), 503, times=3)])
    async with rig.running(service, transport):
        await rig.until(lambda: group_of(rig, gang))


async def test_a_name_that_is_somebody_elses_is_told() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    other = await created(rig, "other", part("b"))
    await rig.client.create(PodGroup(metadata=owned_metadata(other, f"pg-g-{gang.metadata.uid}")))
    async with rig.running(service):
        (event,) = await rig.until(lambda: rig.events("NameTaken"))
        assert event.message.endswith("exists and is controlled by PodGang other")


async def test_a_gang_whose_queue_is_disputed_gets_no_pod_group_until_it_is_settled() -> None:
    """KAIBackendMappingFailed; unit table "KAI: failures create nothing"."""
    rig = await grove_rig()
    cliques = (clique(name, labels={keys.QUEUE_LABEL: f"team-{name}"}) for name in "ab")
    owner = clique_set("s", *cliques)
    metadata = msgspec.structs.replace(owner.metadata, uid="")
    owner = await rig.client.create(msgspec.structs.replace(owner, metadata=metadata))
    gang = await created(rig, "s-0", part("s-0-a"), owner=owner)
    async with rig.running(service):
        await rig.until(has(rig, gang, "Scheduled", "False"))
        (event,) = await rig.until(lambda: rig.events("KAIBackendMappingFailed"))
        assert event.message == "conflicting KAI queues on PodCliqueSet ml/s PodClique templates: [team-a team-b]"
        assert await group_of(rig, gang) is None
        patch: dict[str, Any] = {"metadata": {"labels": {keys.QUEUE_LABEL: "team-a"}}}
        patch["spec"] = {"template": {"cliques": [msgspec.to_builtins(owner.spec.template.cliques[0])]}}
        await rig.client.patch(PodCliqueSet, "s", patch, namespace=NAMESPACE)
        group = await rig.until(lambda: group_of(rig, gang))
        assert group.spec.queue == "team-a"


async def test_one_backend_alone_leaves_the_others_gangs_alone() -> None:
    rig = await grove_rig()
    await created(rig, "b", part("b-a"), scheduler="broken")
    sound = await created(rig, "g", part("g-a"))

    def alone(env: Environment) -> Service:
        return BackendController(env, Options(only="kai"), Registry([Broken(), KaiBackend()], metrics=env.metrics))

    async with rig.running(alone):
        await rig.until(lambda: group_of(rig, sound))
        await rig.clock.sleep(10)
        assert (await rig.client.get(PodGang, "b", NAMESPACE)).status.conditions == ()


async def test_a_backend_that_nobody_has_is_named_with_those_there_are() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"), annotations={keys.GROVE_BACKEND_ANNOTATION: "slurm"})
    async with rig.running(with_broken):
        await rig.until(has(rig, gang, "Scheduled", "False"))
        (event,) = await rig.until(lambda: rig.events("UnknownBackend"))
        assert event.message == 'there is no scheduler backend "slurm"; there are: broken, kai'


async def test_a_gang_that_changes_hands_loses_what_the_first_backend_made() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    async with rig.running(with_broken):
        await rig.until(lambda: group_of(rig, gang))
        patch = {"metadata": {"annotations": {keys.GROVE_BACKEND_ANNOTATION: "broken"}}}
        await rig.client.patch(PodGang, "g", patch, namespace=NAMESPACE)

        async def gone() -> bool:
            return await group_of(rig, gang) is None

        await rig.until(gone)
        assert (await rig.client.get(PodGang, "g", NAMESPACE)).metadata.labels[keys.GROVE_BACKEND_LABEL] == "broken"


async def test_a_backend_has_a_service_of_its_own_name() -> None:
    (entry,) = entries(["backend-kai"])
    rig = await grove_rig()
    sound = await created(rig, "g", part("g-a"))
    other = await created(rig, "v", part("v-a"), scheduler="volcano")

    def apart(env: Environment) -> Service:
        service = entry.make(env)
        assert service.name == "backend-kai"  # its lease is its own
        return service

    async with rig.running(apart):
        await rig.until(lambda: group_of(rig, sound))
        await rig.clock.sleep(10)
        assert (await rig.client.get(PodGang, other.metadata.name, NAMESPACE)).status.conditions == ()


async def test_a_gang_that_may_not_be_labelled_is_told_of_all_the_same() -> None:
    rig = await grove_rig()
    gang = await created(rig, "g", part("a"))
    protected = refuse(lambda each: each.method == "PATCH" and each.path.endswith("/podgangs/g"), 403, times=None)
    async with rig.running(service, FaultyTransport(rig.server.transport(), [protected])):
        await rig.until(lambda: group_of(rig, gang))
        await rig.until(has(rig, gang, "Scheduled", "False"))


@pytest.mark.parametrize("seed", range(4))
async def test_however_often_it_is_killed_and_whatever_gets_lost_the_end_is_the_same(seed: int) -> None:
    rig = await grove_rig()
    gate = (PodSchedulingGate(name="grove.io/podgang"),)
    gangs = [await created(rig, f"g{number}", part(f"g{number}-a", 2)) for number in range(4)]
    for gang in gangs:
        for index in range(2):
            await rig.client.create(member(gang.metadata.name, f"{gang.metadata.name}-a", index, schedulingGates=gate))
    chance = random.Random(seed)
    for _ in range(8):
        chaos = Chaos(chance.randrange(10**6), refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1)
        transport = FaultyTransport(rig.server.transport(), chaos=chaos)
        async with rig.running(service, transport):
            await rig.clock.sleep(chance.random())
    async with rig.running(service):

        async def all_are_told() -> bool:
            groups = [await group_of(rig, gang) for gang in gangs]
            pods = (await rig.client.list(Pod, NAMESPACE)).items
            return all(groups) and not any(pod.spec.schedulingGates for pod in pods)

        await rig.until(all_are_told)
        for gang in gangs:
            await rig.until(has(rig, gang, "Initialized", "True"))
    assert len((await rig.client.list(PodGroup, NAMESPACE)).items) == len(gangs)
