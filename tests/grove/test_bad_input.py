"""Sets that make no sense, let in by nobody's admission: what is wrong stands in them, and everybody else goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bosket.api.core import Event
from bosket.api.grove import PodClique, PodCliqueSet
from bosket.grove.operator.fault import find_faults
from bosket.kube.errors import Invalid
from bosket.testing.faults import FaultyTransport
from tests.grove.operator_process import operator
from tests.grove.sets import NAMESPACE, clique, clique_set, group
from tests.grove.world import World, world

EXPLICIT: dict[str, Any] = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
GOOD = clique_set("good", clique("a", 2), clique("b"), groups=[group("g", "b")])

#: A set, and what is to be said of it.
BAD: dict[str, tuple[PodCliqueSet, str]] = {
    "circle": (
        clique_set("s", clique("a", after=["c"]), clique("b", after=["a"]), clique("c", after=["b"]), **EXPLICIT),
        "spec.template.cliques.startsAfter: a, b, c would wait for each other for ever",
    ),
    "after-itself": (
        clique_set("s", clique("a", after=["a"]), clique("b"), **EXPLICIT),
        "spec.template.cliques.startsAfter: a would wait for each other for ever",
    ),
    "after-nobody": (
        clique_set("s", clique("a", after=["x"]), **EXPLICIT),
        "spec.template.cliques.startsAfter: no clique is called 'x'",
    ),
    "two-groups": (
        clique_set("s", clique("a"), groups=[group("g", "a"), group("h", "a")]),
        "spec.template.podCliqueScalingGroups.cliqueNames: 'a' may be in one group only, and there once",
    ),
    "same-groups": (
        clique_set("s", clique("a"), clique("b"), groups=[group("g", "a"), group("g", "b")]),
        "spec.template.podCliqueScalingGroups: 'g' is the name of several groups",
    ),
    "unknown-member": (
        clique_set("s", clique("a"), groups=[group("g", "a", "x")]),
        "spec.template.podCliqueScalingGroups[0].cliqueNames: no clique is called 'x'",
    ),
    "nameless": (
        clique_set("s", clique(""), groups=[group("", "")]),
        "spec.template.cliques[0].name: it has none; spec.template.podCliqueScalingGroups[0].name: it has none",
    ),
    "negative": (
        clique_set("s", clique("a", -1, -2), groups=[group("g", "a", replicas=-3, minimum=-4)], replicas=-5),
        "spec.replicas: -5 is less than 0; "
        "spec.template.cliques[0].spec.replicas: -1 is less than 0; "
        "spec.template.cliques[0].spec.minAvailable: -2 is less than 0; "
        "spec.template.podCliqueScalingGroups[0].replicas: -3 is less than 0; "
        "spec.template.podCliqueScalingGroups[0].minAvailable: -4 is less than 0",
    ),
    "delay": (clique_set("s", clique("a"), delay="soon"), "spec.template.terminationDelay: "),
    "empty": (clique_set("s"), "spec.template.cliques: there are none"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_sense_is_named_with_its_field(case: str) -> None:
    owner, said = BAD[case]
    assert "; ".join(find_faults(owner)).startswith(said)


def test_order_is_not_looked_at_where_it_does_not_count() -> None:
    assert find_faults(clique_set("s", clique("a", after=["b", "x"]), clique("b", after=["a"]))) == []


def test_a_set_that_makes_sense_has_no_faults() -> None:
    assert find_faults(GOOD) == []


@pytest.mark.looptime
async def test_sets_that_make_no_sense_say_so_once_and_keep_nobody_busy() -> None:
    """All of them at once, beside one that is good."""
    async with world(0, services=("grove-backends",)) as grove:
        transport = FaultyTransport(grove.cluster.server.transport())
        async with operator(grove.cluster, transport):
            let_in = [each for each in BAD if await _try(grove, replace_name(BAD[each][0], f"bad-{each}"))]
            await grove.apply(GOOD)
            await grove.expect(3, 0)
            assert set(let_in) >= {"circle", "two-groups", "unknown-member"}, "schemas don't keep those out"
            for each in let_in:
                (error,) = (await grove.clique_set(f"bad-{each}")).status.lastErrors
                assert error.code == "ERR_VALIDATE_PODCLIQUESET"
                assert error.description.startswith(BAD[each][1])
            events = [
                each
                for each in (await grove.client.list(Event, NAMESPACE)).items
                if each.reason == "InvalidPodCliqueSet"
            ]
            assert sorted(each.involvedObject.name for each in events) == sorted(f"bad-{each}" for each in let_in)
            assert {(each.type, each.count) for each in events} == {("Warning", 1)}
            before = len(transport.requests)
            await grove.settle(600)
            about = [each.path for each in transport.requests[before:] if each.method != "GET" or "/bad-" in each.path]
            assert about == [], "nothing is tried again before somebody changes the set"


@pytest.mark.looptime
async def test_a_set_that_becomes_senseless_keeps_what_it_has_and_goes_on_when_it_is_mended() -> None:
    async with world(0, services=("grove-backends", "grove-operator")) as grove:
        await grove.apply(GOOD)
        await grove.expect(3, 0)
        uids = await grove.uids()
        groups = [msgspec.to_builtins(each) for each in (group("g", "b"), group("h", "b"))]
        patch = {"spec": {"template": {"podCliqueScalingGroups": groups}}}
        await grove.client.patch(PodCliqueSet, "good", patch, namespace=NAMESPACE)
        await grove.settle()
        (error,) = (await grove.clique_set("good")).status.lastErrors
        assert "'b' may be in one group only" in error.description
        assert await grove.uids() == uids
        await grove.delete_pod((await grove.pods("good-0-a"))[0])
        await grove.expect(3, 0)
        patch = {"spec": {"template": {"podCliqueScalingGroups": groups[:1]}}}
        await grove.client.patch(PodCliqueSet, "good", patch, namespace=NAMESPACE)
        await grove.settle()
        assert (await grove.clique_set("good")).status.lastErrors == ()


@pytest.mark.looptime
async def test_names_that_are_too_long_are_told_in_the_api_servers_words() -> None:
    """Of a PodClique, whose name stands in labels, and of a pod, whose host name is even longer."""
    async with world(0, services=("grove-backends", "grove-operator")) as grove:
        await grove.apply(clique_set("s", clique("c" * 60)), clique_set("t", clique("c" * 58)), GOOD)
        await grove.expect(3, 0)
        (error,) = (await grove.clique_set("s")).status.lastErrors
        assert error.code == "ERR_CREATE_OR_UPDATE_PODCLIQUE"
        assert "must be no more than 63" in error.description
        (error,) = (await grove.clique(f"t-0-{'c' * 58}")).status.lastErrors
        assert error.code == "ERR_CREATE_POD"
        assert "must be no more than 63" in error.description


def replace_name(owner: PodCliqueSet, name: str) -> PodCliqueSet:
    return replace(owner, metadata=replace(owner.metadata, name=name))


async def _try(grove: World, owner: PodCliqueSet) -> bool:
    """Whether the API server takes the set: schemas refuse some."""
    try:
        await grove.apply(owner)
    except Invalid:
        return False
    return True


def _anything(random: Random, name: str) -> PodCliqueSet:
    """A set of names and numbers by chance, of which most make no sense."""
    names = ["a", "b", "c-a", "a.b", "x" * 55, ""]

    def some(most: int) -> list[str]:
        return [random.choice(names) for _ in range(random.randint(0, most))]

    def number() -> int:
        return random.choice([-1, 0, 1, 1, 2, 3])

    cliques = [
        clique(each, number(), random.choice([None, number()]), after=some(2), scheduler=random.choice(["", "volcano"]))
        for each in dict.fromkeys(some(4))
    ]
    groups = [group(each, *some(3), replicas=number(), minimum=number()) for each in some(2)]
    order = random.choice(["AnyOrder", "InOrder", "Explicit"])
    delay = random.choice(["10s", "", "-1h", "x"])
    return clique_set(
        name, *cliques, groups=groups, replicas=number(), delay=delay, cliqueStartupType=f"CliqueStartupType{order}"
    )


@pytest.mark.looptime
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_sets_say_the_operator_goes_on_and_each_of_them_says_what_is_wrong(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Property: no set makes the operator raise anything but what it says in a status, and a good one gets its pods."""
    random = Random(seed)
    async with world(0, services=("grove-backends",)) as grove:
        transport = FaultyTransport(grove.cluster.server.transport())
        async with operator(grove.cluster, transport):
            sets = [_anything(random, f"s{index}") for index in range(40)]
            let_in = [each.metadata.name for each in sets if await _try(grove, each)]
            await grove.apply(GOOD)
            await grove.settle(60)
            assert len([each for each in await grove.pods() if each.metadata.name.startswith("good-")]) == 3
            surprises = [each for each in caplog.records if each.exc_info]
            assert surprises == []
            for owner in (await grove.client.list(PodCliqueSet, NAMESPACE)).items:
                assert bool(find_faults(owner)) <= bool(owner.status.lastErrors), owner.metadata.name
            assert len(let_in) > 5
            before = len(transport.requests)
            await grove.settle(600)
            writes = [each for each in transport.requests[before:] if each.method != "GET"]
            # What can't be done is tried again, ever more rarely, up to once a minute.
            assert len(writes) <= 15 * await _failing(grove)


async def _failing(grove: World) -> int:
    sets = (await grove.client.list(PodCliqueSet, NAMESPACE)).items
    cliques = (await grove.client.list(PodClique, NAMESPACE)).items
    return sum(len(each.status.lastErrors) for each in sets) + sum(len(each.status.lastErrors) for each in cliques)
