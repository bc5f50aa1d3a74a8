"""Random clusters with work that runs and work that waits: queues in a tree, priorities, elastic jobs, sub-groups."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from bosket.api.kai import SubGroup
from bosket.api.kai.queue import Queue
from bosket.api.object import KubeObject
from bosket.testing.build import gang, job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, configured

CLASSES = [priority_class(name, value) for name, value in (("low", 10), ("high", 60), ("build", 110))]
LEAVES = ("a1", "a2", "b1", "c")
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
EVERYTHING = configured(*ACTIONS)


@st.composite
def queues(draw: st.DrawFn) -> list[Queue]:
    quota, weight = st.sampled_from([-1, 0, 1, 2, 3]), st.sampled_from([0, 1, 2])
    limit = st.sampled_from([-1, -1, -1, 2, 5])
    parents = {"a": "", "b": "", "c": "", "a1": "a", "a2": "a", "b1": "b"}
    return [
        queue(
            name,
            parent=parent,
            quota=draw(quota),
            weight=draw(weight),
            limit=draw(limit),
            priority=draw(st.sampled_from([100, 100, 200])),
            reclaim_min_runtime=draw(st.sampled_from([None, None, "1h"])),
            preempt_min_runtime=draw(st.sampled_from([None, None, "1h"])),
        )
        for name, parent in parents.items()
    ]


class Room:
    """Free GPUs by node, so that what runs fits."""

    def __init__(self, free: Iterable[tuple[str, int]]) -> None:
        self._free = dict(free)

    def take(self, name: str, gpus: int) -> bool:
        if self._free[name] < gpus:
            return False
        self._free[name] -= gpus
        return True


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    """A list of objects."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    names = [f"n{i}" for i in range(len(sizes))]
    room = Room(zip(names, sizes, strict=True))
    objects: list[KubeObject] = [node(name, gpus=gpus, pods=8) for name, gpus in zip(names, sizes, strict=True)]
    objects += [*CLASSES, *draw(queues())]
    for number in range(draw(st.integers(1, 9))):
        objects += draw(jobs(f"j{number}", names, room))
    return objects


@st.composite
def jobs(draw: st.DrawFn, name: str, nodes: Sequence[str], room: Room) -> list[KubeObject]:
    """A job, of which some pods run as far as there is room."""
    size, gpus = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    where = [draw(st.sampled_from([*nodes, "elsewhere"])) for _ in range(draw(st.integers(0, size)))]
    on = [each for each in where if each == "elsewhere" or room.take(each, gpus)]
    group: dict[str, Any] = {
        "queue": draw(st.sampled_from(LEAVES)),
        "priority": draw(st.sampled_from(["low", "", "high", "build"])),
        "started": draw(st.sampled_from([None, NOW - 60, NOW - 1e6])) if on else None,
        "preemption_delay": draw(st.sampled_from([None, None, None, "1h"])),
        "stale_since": draw(st.sampled_from([None, NOW - 1e6])),
    }
    if draw(st.booleans()):
        return job(name, size, gpus=gpus, on=on, min_member=draw(st.integers(0, size)), **group)
    parts = tuple(SubGroup(name=part, minMember=draw(st.integers(0, 2))) for part in ("x", "y"))
    made = pod_group(name, subgroups=parts, min_subgroup=draw(st.sampled_from([None, 1])), **group)
    others = [pod(f"{name}-y-{i}").gpu(gpus).of_group(name, "y").build() for i in range(draw(st.integers(0, 2)))]
    return [made, *gang(name, size, gpus=gpus, on=on, subgroup="x"), *others]
