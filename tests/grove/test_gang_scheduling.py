"""GS1 to GS12: gangs of PodCliqueSets are scheduled as a whole, the base gang before those above its minimum."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from bosket.api.grove import PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.grove.naming import BASE_GANG_LABEL, CLIQUE_LABEL, GANG_LABEL
from tests.grove.sets import workload1, workload2
from tests.grove.world import World, Worlds

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Expect:
    """So many pods there are, so many of them run: of each gang its minimum or nothing, and base gangs first."""

    total: int
    running: int

    async def happen(self, world: World, owner: str) -> None:
        await world.expect(self.total, self.running)
        if owner == ALL.metadata.name and not self.running:
            await world.expect_unschedulable(self.total)
        await _expect_whole_gangs(world)


@dataclass(frozen=True)
class Free:
    """That many nodes more."""

    nodes: int

    async def happen(self, world: World, owner: str) -> None:
        del owner
        await world.free(self.nodes)


@dataclass(frozen=True)
class Group:
    """The scaling group of a replica becomes that large."""

    replica: int
    size: int

    async def happen(self, world: World, owner: str) -> None:
        await world.scale(PodCliqueScalingGroup, f"{owner}-{self.replica}-sg-x", self.size)


@dataclass(frozen=True)
class Replicas:
    """The set has that many replicas."""

    count: int

    async def happen(self, world: World, owner: str) -> None:
        await world.scale(PodCliqueSet, owner, self.count)


Step = Expect | Free | Group | Replicas


async def _expect_whole_gangs(world: World) -> None:
    """Of every gang that runs each clique has its minimum, and so has its base gang."""
    running = Counter(each.metadata.labels[CLIQUE_LABEL] for each in await world.running())
    gangs = (await world.client.list(PodGang, world.namespace)).items
    whole = {
        gang.metadata.name
        for gang in gangs
        if all(running[part.name] >= part.minReplicas for part in gang.spec.podgroups)
    }
    for pod in await world.running():
        labels = pod.metadata.labels
        assert labels[GANG_LABEL] in whole
        assert labels.get(BASE_GANG_LABEL, labels[GANG_LABEL]) in whole


ALL = workload1()
ONE = workload2()

CASES: dict[str, tuple[PodCliqueSet, int, int, tuple[Step, ...]]] = {
    "GS1": (ALL, 10, 1, (Expect(10, 0), Free(1), Expect(10, 10))),
    "GS2": (ALL, 14, 5, (Expect(10, 0), Free(1), Expect(10, 10), Group(0, 3), Expect(14, 10), Free(4), Expect(14, 14))),
    "GS3": (
        ALL,
        20,
        11,
        (Expect(10, 0), Free(1), Expect(10, 10), Replicas(2), Expect(20, 10), Free(10), Expect(20, 20)),
    ),
    "GS4": (
        ALL,
        28,
        19,
        (
            *(Expect(10, 0), Free(1), Expect(10, 10), Group(0, 3), Expect(14, 10), Free(4), Expect(14, 14)),
            *(
                Replicas(2),
                Expect(24, 14),
                Free(10),
                Expect(24, 24),
                Group(1, 3),
                Expect(28, 24),
                Free(4),
                Expect(28, 28),
            ),
        ),
    ),
    "GS5": (ONE, 10, 8, (Expect(10, 0), Free(1), Expect(10, 3), Free(7), Expect(10, 10))),
    "GS6": (
        ONE,
        14,
        12,
        (
            *(Expect(10, 0), Free(1), Expect(10, 3), Free(7), Expect(10, 10)),
            *(Group(0, 3), Expect(14, 10), Free(2), Expect(14, 12), Free(2), Expect(14, 14)),
        ),
    ),
    "GS7": (
        ONE,
        14,
        12,
        (
            *(Expect(10, 0), Free(1), Expect(10, 3), Free(2), Expect(10, 5), Free(5), Expect(10, 10)),
            *(Group(0, 3), Expect(14, 10), Free(2), Expect(14, 12), Free(2), Expect(14, 14)),
        ),
    ),
    "GS8": (
        ONE,
        14,
        12,
        (
            Expect(10, 0),
            Group(0, 3),
            Expect(14, 0),
            Free(1),
            Expect(14, 3),
            Free(4),
            Expect(14, 7),
            Free(7),
            Expect(14, 14),
        ),
    ),
    "GS9": (
        ONE,
        20,
        18,
        (
            *(Expect(10, 0), Free(1), Expect(10, 3), Free(7), Expect(10, 10)),
            *(Replicas(2), Expect(20, 10), Free(3), Expect(20, 13), Free(7), Expect(20, 20)),
        ),
    ),
    "GS10": (
        ONE,
        20,
        18,
        (
            Expect(10, 0),
            Replicas(2),
            Expect(20, 0),
            Free(4),
            Expect(20, 6),
            Free(4),
            Expect(20, 10),
            Free(10),
            Expect(20, 20),
        ),
    ),
    "GS11": (
        ONE,
        28,
        26,
        (
            *(Expect(10, 0), Free(1), Expect(10, 3), Free(7), Expect(10, 10), Group(0, 3), Expect(14, 10)),
            *(Free(2), Expect(14, 12), Free(2), Expect(14, 14), Replicas(2), Expect(24, 14), Free(3), Expect(24, 17)),
            *(Free(7), Expect(24, 24), Group(1, 3), Expect(28, 24), Free(2), Expect(28, 26), Free(2), Expect(28, 28)),
        ),
    ),
    "GS12": (
        ONE,
        28,
        26,
        (
            *(Expect(10, 0), Replicas(2), Expect(20, 0), Group(0, 3), Expect(24, 0), Group(1, 3), Expect(28, 0)),
            *(Free(4), Expect(28, 6), Free(8), Expect(28, 14), Free(14), Expect(28, 28)),
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_gangs_run_as_far_as_there_are_nodes_for_their_minimum(case: str, world: Worlds) -> None:
    """GS1 to GS12."""
    owner, nodes, cordoned, steps = CASES[case]
    async with world(nodes, cordoned=cordoned) as grove:
        await grove.apply(owner)
        for step in steps:
            await step.happen(grove, owner.metadata.name)
        await grove.expect_distinct()
