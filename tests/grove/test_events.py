"""Events of Grove's controllers: each is written about its object, when it happens and not at every look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bosket.api.core import Event
from bosket.api.grove import (
    LastError,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    PodGang,
    PodGangSpec,
)
from bosket.api.object import KubeObject, ObjectMeta
from bosket.testing.faults import Fault, FaultyTransport, matching, refuse
from tests.grove.operator_process import operator
from tests.grove.sets import NAMESPACE, clique, clique_set, group, workload1
from tests.grove.world import SERVICES, World, world

pytestmark = pytest.mark.looptime

#: Nothing has to be scheduled to see what the operator tells.
UNSCHEDULED = ("grove-admission", "grove-backends")
Act = Callable[[World], Awaitable[object]]


async def told(grove: World) -> dict[tuple[str, str, str], int]:
    """How often each reason occurred, by kind of the object and type."""
    found: dict[tuple[str, str, str], int] = {}
    for each in (await grove.client.list(Event, NAMESPACE)).items:
        key = (each.involvedObject.kind, each.type, each.reason)
        found[key] = found.get(key, 0) + each.count
    return found


def _set(**options: object) -> PodCliqueSet:
    groups = [group("g", "b", replicas=2)]
    return clique_set("s", clique("a", 2, 1), clique("b"), groups=groups, **options)  # type: ignore[arg-type]


async def test_what_is_made_and_deleted_is_told_about_who_asked_for_it() -> None:
    async with world(0, services=UNSCHEDULED) as grove, operator(grove.cluster, grove.cluster.server.transport()):
        await grove.apply(_set(replicas=2))
        await grove.settle()
        before = await told(grove)
        # Two base gangs and two scaled ones: made without pods, and changed as these come.
        assert before.pop(("PodCliqueSet", "Normal", "PodGangCreateOrUpdateSuccessful")) >= 8
        assert before == {
            ("PodCliqueSet", "Normal", "PodCliqueCreateOrUpdateSuccessful"): 2,
            ("PodCliqueSet", "Normal", "PodCliqueScalingGroupCreateSuccessful"): 2,
            # Objects that are made together share an event: two PodCliques of each group, two pods of each first
            # clique.
            ("PodCliqueScalingGroup", "Normal", "PodCliqueCreateSuccessful"): 2,
            ("PodClique", "Normal", "PodCreateSuccessful"): 6,
        }
        await grove.scale(PodCliqueScalingGroup, "s-0-g", 1)
        await grove.scale(PodClique, "s-0-a", 1)
        await grove.settle()
        await grove.scale(PodCliqueSet, "s", 1)
        await grove.settle()
        after = await told(grove)
        assert {key: count - before.get(key, 0) for key, count in after.items() if "Delete" in key[2]} == {
            ("PodCliqueSet", "Normal", "PodCliqueScalingGroupReplicaDeleteSuccessful"): 1,
            ("PodClique", "Normal", "PodDeleteSuccessful"): 1,
            ("PodCliqueSet", "Normal", "PodCliqueDeleteSuccessful"): 1,
            ("PodCliqueSet", "Normal", "PodCliqueScalingGroupDeleteSuccessful"): 1,
            ("PodCliqueSet", "Normal", "PodGangDeleteSuccessful"): 3,
        }


@pytest.mark.parametrize("on_delete", [False, True])
async def test_nothing_is_told_when_nothing_happens_however_often_it_is_looked_at(on_delete: bool) -> None:
    async with world(0, services=UNSCHEDULED) as grove, operator(grove.cluster, grove.cluster.server.transport()):
        await grove.apply(_set(on_delete=on_delete))
        await grove.settle(60)
        before = await told(grove)
        for minutes in range(1, 4):
            patch = {
                "metadata": {"annotations": {"grove.io/reconcile-trigger": str(minutes)}},
                "spec": {"template": {"terminationDelay": f"{minutes}h"}},
            }
            await grove.client.patch(PodCliqueSet, "s", patch, namespace=NAMESPACE)
            await grove.settle(30)
        assert await told(grove) == before


async def test_a_look_at_a_set_that_is_as_it_should_be_writes_nothing() -> None:
    """Scale (10.7 of Grove's list): the no-op reconcile, asked for by grove.io/reconcile-trigger."""
    async with world(0, services=UNSCHEDULED) as grove:
        transport = FaultyTransport(grove.cluster.server.transport())
        async with operator(grove.cluster, transport):
            await grove.apply(_set(replicas=2))
            await grove.settle(60)
            before = len(transport.requests)
            patch = {"metadata": {"annotations": {"grove.io/reconcile-trigger": "now"}}}
            await grove.client.patch(PodCliqueSet, "s", patch, namespace=NAMESPACE)
            await grove.settle(60)
            assert [(each.method, each.path) for each in transport.requests[before:] if each.method != "GET"] == []


@asynccontextmanager
async def refused(
    owner: PodCliqueSet, method: str, path: str, act: Act, services: tuple[str, ...] = UNSCHEDULED, nodes: int = 0
) -> AsyncIterator[tuple[World, Fault]]:
    """A set that was there before the API server began to refuse some requests; then somebody acts."""
    async with world(nodes, services=services) as grove:
        transport = FaultyTransport(grove.cluster.server.transport())
        async with operator(grove.cluster, transport):
            await grove.apply(owner)
            if nodes:
                await grove.expect(nodes, nodes)
            await grove.settle(30)
            fault = refuse(matching(method, path), 403, reason="Forbidden", message="not today", times=None)
            transport.add(fault)
            await act(grove)
            yield grove, fault


@dataclass(frozen=True)
class Refusal:
    """Which requests are refused, after what; which events are about which kind, and what a status of which kind
    says."""

    reason: str
    about: str
    method: str
    path: str
    act: Act
    code: str
    status_of: tuple[type[KubeObject], str] = (PodCliqueSet, "s")


def _more(**sizes: int) -> Act:
    async def act(grove: World) -> None:
        if "set" in sizes:
            await grove.scale(PodCliqueSet, "s", sizes["set"])
        if "group" in sizes:
            await grove.scale(PodCliqueScalingGroup, "s-0-g", sizes["group"])
        if "clique" in sizes:
            await grove.scale(PodClique, "s-0-a", sizes["clique"])

    return act


GROUP = (PodCliqueScalingGroup, "s-0-g")
CLIQUE = (PodClique, "s-0-a")
REFUSALS = [
    Refusal(
        *("PodCliqueCreateOrUpdateFailed", "PodCliqueSet", "POST", "/podcliques"),
        *(_more(set=2), "ERR_CREATE_OR_UPDATE_PODCLIQUE"),
    ),
    Refusal(
        *("PodCliqueScalingGroupCreateOrUpdateFailed", "PodCliqueSet", "POST", "/podcliquescalinggroups"),
        *(_more(set=2), "ERR_CREATE_PODCLIQUESCALINGGROUP"),
    ),
    Refusal(
        *("PodGangCreateOrUpdateFailed", "PodCliqueSet", "POST", "/podgangs"),
        *(_more(set=2), "ERR_CREATE_OR_PATCH_PODGANG"),
    ),
    Refusal(
        *("PodGangDeleteFailed", "PodCliqueSet", "DELETE", "/podgangs"),
        *(_more(group=1), "ERR_DELETE_EXCESS_PODGANG"),
    ),
    Refusal(
        *("PodCliqueDeleteFailed", "PodCliqueSet", "DELETE", "/podcliques/s-0-a"),
        *(_more(set=0), "ERR_DELETE_PODCLIQUE"),
    ),
    Refusal(
        *("PodCliqueScalingGroupDeleteFailed", "PodCliqueSet", "DELETE", "/podcliquescalinggroups"),
        *(_more(set=0), "ERR_DELETE_PODCLIQUESCALINGGROUP"),
    ),
    Refusal(
        *("PodCliqueCreateFailed", "PodCliqueScalingGroup", "POST", "/podcliques"),
        *(_more(group=3), "ERR_CREATE_PODCLIQUE", GROUP),
    ),
    Refusal(
        *("PodCliqueScalingGroupReplicaDeleteFailed", "PodCliqueSet", "DELETE", "/podcliques"),
        *(_more(group=1), "ERR_DELETE_PODCLIQUE", GROUP),
    ),
    Refusal(
        *("PodCreateFailed", "PodClique", "POST", "/pods"),
        *(_more(clique=3), "ERR_CREATE_POD", CLIQUE),
    ),
    Refusal(
        *("PodDeleteFailed", "PodClique", "DELETE", "/pods"),
        *(_more(clique=1), "ERR_DELETE_POD", CLIQUE),
    ),
    Refusal("", "", "POST", "/services", _more(set=2), "ERR_SYNC_PODCLIQUESET"),
]


async def _errors(grove: World, kind: type[KubeObject], name: str) -> list[LastError]:
    found: Any = await grove.client.get(kind, name, NAMESPACE)
    return list(found.status.lastErrors)


async def _warned(grove: World) -> set[tuple[str, str]]:
    return {(kind, reason) for kind, type_, reason in await told(grove) if type_ == "Warning"}


@pytest.mark.parametrize("case", REFUSALS, ids=lambda each: each.reason or each.path)
async def test_what_the_api_server_refuses_is_told_and_stands_in_the_status_until_it_is_done(case: Refusal) -> None:
    async with refused(_set(), case.method, case.path, case.act) as (grove, fault):

        async def stands() -> list[LastError]:
            return await _errors(grove, *case.status_of)

        (error,) = await grove.until("an error in the status", stands)
        assert error.code == case.code
        assert error.description.endswith("not today")
        await grove.settle(90)
        assert await _errors(grove, *case.status_of) == [error], "what was said isn't said again"
        fault.times = 0

        async def is_over() -> bool:
            return not await _errors(grove, *case.status_of)

        await grove.until("the end of the error", is_over)
        assert await _warned(grove) == ({(case.about, case.reason)} if case.reason else set())


async def test_members_that_can_not_be_changed_in_place_are_told() -> None:
    """PodCliqueCreateOrUpdateFailed, of a scaling group."""

    async def change(grove: World) -> None:
        await grove.change_image("s", "b", image="app:2")

    async with refused(_set(on_delete=True), "PATCH", "/podcliques/s-0-g-0-b", change) as (grove, fault):
        await grove.settle()
        assert ("PodCliqueScalingGroup", "PodCliqueCreateOrUpdateFailed") in await _warned(grove)
        fault.times = 0
        await grove.settle(60)
        assert (await grove.clique("s-0-g-0-b")).spec.podSpec.containers[0].image == "app:2"
        assert await _errors(grove, *GROUP) == []


async def test_a_replica_that_can_not_be_terminated_is_told() -> None:
    """PodCliqueSetReplicaDeleteFailed, then PodCliqueSetReplicaDeleteSuccessful, both after AllScheduledReplicasLost.

    Once: a gang that then finds no place isn't terminated again and again.
    """

    async def fail(grove: World) -> None:
        for pod in await grove.pods("workload1-0-pc-a"):
            await grove.kill(pod)

    services = tuple(each for each in SERVICES if each != "grove-operator")
    async with refused(workload1(delay="10s"), "DELETE", "/podcliques/", fail, services, 10) as (grove, fault):
        await grove.settle(20)
        fault.times = 0
        await grove.settle(60)
        found = await told(grove)
        assert found["PodCliqueSet", "Warning", "PodCliqueSetReplicaDeleteFailed"] >= 1
        assert found["PodCliqueSet", "Normal", "PodCliqueSetReplicaDeleteSuccessful"] == 1
        assert found["PodClique", "Warning", "AllScheduledReplicasLost"] >= 1


FOREIGN_OBJECTS = {
    "PodClique": PodClique(metadata=ObjectMeta(name="s-0-a", namespace=NAMESPACE), spec=clique("a").spec),
    "PodCliqueScalingGroup": PodCliqueScalingGroup(
        metadata=ObjectMeta(name="s-0-g", namespace=NAMESPACE), spec=PodCliqueScalingGroupSpec(cliqueNames=("b",))
    ),
    "PodGang": PodGang(metadata=ObjectMeta(name="s-0", namespace=NAMESPACE), spec=PodGangSpec(podgroups=())),
}


@pytest.mark.parametrize("kind", FOREIGN_OBJECTS)
async def test_a_name_that_is_somebody_elses_is_told(kind: str) -> None:
    """What has the name is left alone; when it is gone, all goes on."""
    foreign = FOREIGN_OBJECTS[kind]
    async with world(0, services=UNSCHEDULED) as grove, operator(grove.cluster, grove.cluster.server.transport()):
        await grove.apply(foreign, _set())
        await grove.settle()
        assert await _warned(grove) == {("PodCliqueSet", f"{kind}CreateOrUpdateFailed")}
        (error,) = await _errors(grove, PodCliqueSet, "s")
        assert error.code == f"ERR_CONFLICTING_{kind.upper()}"
        assert error.description == f"{kind} {foreign.key} exists and is somebody else's"
        await grove.client.delete(type(foreign), foreign.metadata.name, NAMESPACE)
        await grove.expect(4, 0)
        assert await _errors(grove, PodCliqueSet, "s") == []
