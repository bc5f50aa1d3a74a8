"""RU7 to RU21: a new template reaches the pods one replica of the set at a time, whatever is scaled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bosket.api.core import Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import GROUP_LABEL, GROUP_REPLICA_LABEL, SET_REPLICA_LABEL
from bosket.grove.status.pod_state import is_ready
from bosket.kube.informer import Change, Informer
from tests.grove.sets import workload1
from tests.grove.world import World, Worlds

pytestmark = pytest.mark.looptime

NAME = "workload1"
CLIQUES = ("pc-a", "pc-b", "pc-c")
NEW = "app:2"


@dataclass
class Watcher:
    """Looks at the pods whenever one of them changes, and remembers the worst that it saw."""

    informer: Informer[Pod]
    #: By unit (a clique in no group, a scaling group): how many of its parts were not whole at the same time.
    worst: dict[str, int] = field(default_factory=dict)
    #: Replicas of the set that had such a part at the same time.
    replicas_at_once: int = 0
    created: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.informer.subscribe(self._look)

    def _look(self, change: Change[Pod]) -> None:
        if change.old is None and change.new is not None:
            self.created.setdefault(change.new.spec.hostname, []).append(change.new.spec.containers[0].image)
        broken: dict[str, set[str]] = {}
        for unit, part, whole in _parts(self.informer.store.values()):
            if not whole:
                broken.setdefault(unit, set()).add(part)
        for unit, parts in broken.items():
            self.worst[unit] = max(self.worst.get(unit, 0), len(parts))
        self.replicas_at_once = max(self.replicas_at_once, len({unit.split("/")[0] for unit in broken}))


def _parts(pods: Sequence[Pod]) -> list[tuple[str, str, bool]]:
    """(unit, part, whether it is whole): pods of cliques in no group by their index, replicas of groups as a whole."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        labels = pod.metadata.labels
        replica = labels.get(SET_REPLICA_LABEL, "")
        group = labels.get(GROUP_LABEL)
        part = labels[GROUP_REPLICA_LABEL] if group else pod.spec.hostname
        found.setdefault((f"{replica}/{group or pod.metadata.generateName}", part), []).append(pod)
    return [
        (unit, part, all(is_ready(each) and not each.metadata.deletionTimestamp for each in of_part))
        for (unit, part), of_part in found.items()
    ]


@asynccontextmanager
async def updating(world: Worlds, nodes: int, replicas: int, **sizes: int) -> AsyncIterator[tuple[World, Watcher]]:
    """A workload that runs, scaled as said (`group`, `clique`), and somebody who watches it from now on."""
    async with world(nodes) as grove:
        await grove.apply(workload1(replicas=replicas))
        await grove.expect(10 * replicas, 10 * replicas)
        if sizes:
            await _scale(grove, replicas, **sizes)
        informer = Informer(grove.client, Pod, namespace=grove.namespace)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced()
        watcher = Watcher(informer)
        watcher.created.clear()
        try:
            yield grove, watcher
        finally:
            running.cancel()
            await asyncio.wait([running])


async def _scale(grove: World, replicas: int, *, group: int = 0, clique: int = 0) -> None:
    for replica in range(replicas):
        if group:
            await grove.scale(PodCliqueScalingGroup, f"{NAME}-{replica}-sg-x", group)
        if clique:
            await grove.scale(PodClique, f"{NAME}-{replica}-pc-a", clique)
    pods = (clique or 2) + 4 * (group or 2)
    await grove.expect(pods * replicas, pods * replicas)


async def _finished(grove: World, total: int, *changed: str) -> None:
    """The update ends, with so many pods, and all of the changed cliques are new."""

    async def has_ended() -> bool:
        status = (await grove.clique_set(NAME)).status
        progress = status.updateProgress
        return (
            progress is not None
            and progress.updateEndedAt is not None
            and status.updatedReplicas == status.replicas
            and len(await grove.running()) == total
        )

    await grove.until("the end of the update", has_ended)
    await grove.expect(total, total)
    for pod in await grove.pods():
        if any(pod.metadata.generateName.endswith(f"-{each}-") for each in changed):
            assert pod.spec.containers[0].image == NEW


CHANGED = {"RU7": ("pc-a",), "RU8": ("pc-b",), "RU9": CLIQUES}


@pytest.mark.parametrize("case", CHANGED)
async def test_one_pod_or_one_replica_of_a_group_is_replaced_at_a_time(case: str, world: Worlds) -> None:
    """RU7, RU8 and RU9."""
    changed = CHANGED[case]
    async with updating(world, 10, 1) as (grove, watcher):
        await grove.change_image(NAME, *changed, image=NEW)
        await _finished(grove, 10, *changed)
        assert max(watcher.worst.values()) == 1


async def test_the_next_replica_of_a_group_goes_as_soon_as_the_last_one_is_available(world: Worlds) -> None:
    async with updating(world, 10, 1) as (grove, _):
        begun = grove.clock.now()
        await grove.change_image(NAME, "pc-b", image=NEW)

        async def both_are_new() -> bool:
            pods = [each for index in (0, 1) for each in await grove.pods(f"{NAME}-0-sg-x-{index}-pc-b")]
            return [(each.spec.containers[0].image, is_ready(each)) for each in pods] == [(NEW, True)] * 2

        await grove.until("two new replicas", both_are_new)
        assert grove.clock.now() - begun < 5, "each takes about a second to start"


async def test_an_update_that_finds_no_node_stands_still(world: Worlds) -> None:
    """RU10."""
    async with updating(world, 10, 1) as (grove, _):
        await grove.cordon(*grove.nodes)
        await grove.change_image(NAME, "pc-a", image=NEW)
        await grove.expect(10, 9)
        (waiting,) = (each for each in await grove.pods() if each.status.phase == "Pending")
        assert waiting.spec.containers[0].image == NEW
        await grove.free(10)
        await _finished(grove, 10, "pc-a")


async def test_replicas_of_a_set_are_updated_one_after_the_other(world: Worlds) -> None:
    async with updating(world, 20, 2) as (grove, watcher):
        await grove.change_image(NAME, *CLIQUES, image=NEW)
        await _finished(grove, 20, *CLIQUES)
        assert watcher.replicas_at_once == 1


async def test_a_replica_that_is_added_during_an_update_is_new(world: Worlds) -> None:
    """RU11."""
    async with updating(world, 30, 2) as (grove, _):
        await grove.change_image(NAME, "pc-a", image=NEW)
        await grove.clock.sleep(0.1)
        await grove.scale(PodCliqueSet, NAME, 3)
        await _finished(grove, 30, "pc-a")


async def test_the_replica_that_is_being_updated_may_be_scaled_away(world: Worlds) -> None:
    """RU12."""
    async with updating(world, 30, 2) as (grove, _):
        await grove.change_image(NAME, *CLIQUES, image=NEW)

        async def last_is_updating() -> bool:
            progress = (await grove.clique_set(NAME)).status.updateProgress
            return progress is not None and any(each.replicaIndex == 1 for each in progress.currentlyUpdating)

        await grove.until("the last replica's turn", last_is_updating)
        await grove.scale(PodCliqueSet, NAME, 1)
        await _finished(grove, 10, *CLIQUES)


async def test_a_set_may_be_scaled_in_after_an_update(world: Worlds) -> None:
    """RU13."""
    async with updating(world, 20, 2) as (grove, _):
        await grove.change_image(NAME, *CLIQUES, image=NEW)
        await _finished(grove, 20, *CLIQUES)
        await grove.scale(PodCliqueSet, NAME, 1)
        await grove.expect(10, 10)


Act = Callable[[World], object]


@pytest.mark.parametrize(
    ("case", "nodes", "before", "after", "total"),
    [
        ("RU14", 28, {}, {"group": 3}, 28),
        ("RU15", 28, {"group": 3}, {}, 28),
        ("RU16", 28, {"group": 3}, {"group": 2}, 20),
        ("RU18", 24, {}, {"clique": 4}, 24),
        ("RU19", 24, {"clique": 4}, {}, 24),
        ("RU20", 22, {"clique": 3}, {"clique": 2}, 20),
    ],
)
async def test_scaling_before_and_during_an_update_does_not_disturb_it(
    case: str, nodes: int, before: dict[str, int], after: dict[str, int], total: int, world: Worlds
) -> None:
    """RU14, RU15, RU16, RU18, RU19 and RU20."""
    async with updating(world, nodes, 2, **before) as (grove, watcher):
        await grove.change_image(NAME, *CLIQUES, image=NEW)
        await grove.clock.sleep(0.1)
        for replica in range(2):
            if "group" in after:
                await grove.scale(PodCliqueScalingGroup, f"{NAME}-{replica}-sg-x", after["group"])
            if "clique" in after:
                await grove.scale(PodClique, f"{NAME}-{replica}-pc-a", after["clique"])
        await _finished(grove, total, *CLIQUES)
        if case not in ("RU16", "RU20"):  # there, a new pod may be the one that is scaled away
            twice = {name: images for name, images in watcher.created.items() if images.count(NEW) > 1}
            assert twice == {}, "what is new already isn't replaced again"


@pytest.mark.parametrize(
    ("case", "large", "small"), [("RU17", {"group": 3}, {"group": 2}), ("RU21", {"clique": 3}, {"clique": 2})]
)
async def test_an_update_after_scaling_in_has_less_to_do(
    case: str, large: dict[str, int], small: dict[str, int], world: Worlds
) -> None:
    """RU17 and RU21."""
    del case
    async with updating(world, 28, 2, **large) as (grove, _):
        await _scale(grove, 2, **small)
        await grove.change_image(NAME, *CLIQUES, image=NEW)
        await _finished(grove, 20, *CLIQUES)
