"""What a waiting job needs next: the rest of its gang's minimum, or one more pod where the minimum runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from bosket.scheduler.model.decisions import Eviction, Operation
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, NOTHING, PODS, QueueAmounts, plus
from bosket.scheduler.model.task import PodClass, Task

GIB = float(2**30)
#: The word for a resource in a structured reason, by its place; others go by their own name.
WORDS: dict[int, str] = {GPU: "gpu", CPU: "cpu", MEMORY: "memory", PODS: "pods"}
#: How much one shown unit is, by place; others are shown in their own unit.
UNITS: dict[int, float] = {CPU: 1000.0, MEMORY: GIB}


class Demand(msgspec.Struct, frozen=True):
    """Tasks that must be placed together for the job to go on, and what they ask for."""

    tasks: tuple[Task, ...]
    classes: Mapping[PodClass, int]  #: how many tasks of each class
    charge: QueueAmounts  #: what the queue is charged for them
    device_mib: int | None  #: the size of GPUs by which parts of them are counted that are asked for in memory

    def amount(self, place: int) -> float:
        """What all of them ask for together of one resource, in the axis' unit."""
        if place == PODS:
            return float(len(self.tasks))
        return sum([asked(pod_class, place, self.device_mib) * count for pod_class, count in self.classes.items()])


def asked(pod_class: PodClass, place: int, device_mib: int | None) -> float:
    """What one pod of the class asks for of one resource; parts of GPUs of this size included."""
    if place == GPU:
        return pod_class.charge_by(device_mib)[0]
    return pod_class.amounts[place] if place < len(pod_class.amounts) else 0.0


def demand_of(job: Job, outcome: Mapping[Task, Operation], device_mib: int | None) -> Demand:
    """What the job needs next, after what the cycle decided (`Decisions.outcome`)."""
    tasks = tuple(_missing(job.root, outcome))
    if not tasks:
        tasks = tuple(_left(job.root, outcome)[:1])
    classes = Counter(task.pod_class for task in tasks)
    charge = NOTHING
    for pod_class, count in classes.items():
        gpus, millicores, memory = pod_class.charge_by(device_mib)
        charge = plus(charge, (gpus * count, millicores * count, memory * count))
    return Demand(tasks, classes, charge, device_mib)


def _left(part: PodSet | SubGroupSet, outcome: Mapping[Task, Operation]) -> list[Task]:
    return [task for pod_set in part.pod_sets() for task in pod_set.pending if _waits(task, outcome)]


def _waits(task: Task, outcome: Mapping[Task, Operation]) -> bool:
    return isinstance(outcome.get(task), Eviction | None)


def _missing(part: PodSet | SubGroupSet, outcome: Mapping[Task, Operation]) -> list[Task]:
    """Tasks that complete the minimum of a part. Of children of which some are enough, those that lack the least."""
    if isinstance(part, PodSet):
        left = _left(part, outcome)
        active = part.active + len(part.pending) - len(left)
        return left[: max(0, part.min_available - active)]
    children = sorted((_missing(child, outcome) for child in part.children if child.ready), key=len)
    return [task for child in children[: part.min_children] for task in child]


def shown(place: int, amount: float, names: tuple[str, ...], *, unit: bool = True) -> str:
    """An amount for people: `8 GPUs`, `12 CPU cores`, `64 GiB of memory`, `2 pods`, `4 nvidia.com/mig-1g.5gb`."""
    text = number(amount / UNITS.get(place, 1.0))
    if place == MEMORY:
        return f"{text} GiB of memory" if unit else f"{text} GiB"
    if not unit:
        return text
    one = text == "1"
    if place == GPU and not amount:
        return "a part of a GPU"  # by memory, where no GPU says how much it has
    if place == GPU:
        return f"{text} GPU" if one else f"{text} GPUs"
    if place == CPU:
        return f"{text} CPU core" if one else f"{text} CPU cores"
    if place == PODS:
        return f"{text} pod" if one else f"{text} pods"
    return f"{text} {names[place]}"


def number(value: float) -> str:
    """At most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
