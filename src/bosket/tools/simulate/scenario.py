"""Scenarios of queues that compete over time, as KAI's time-based fair-share simulator reads them.

Cycles: 1024            # a cycle is one step of the simulation; default 100
WindowSize: 256         # how many cycles of the past count; default 5
HalfLifePeriod: 128     # after how many cycles use counts half; default 0: it doesn't fade
KValue: 1.0
Nodes: [{GPUs: 16, Count: 1}]
Queues: [{Name: team-a, Parent: department, Priority: 100, DeservedGPUs: 0, Weight: 1}]
Jobs: {team-a: {GPUs: 16, NumPods: 1, NumJobs: 100}}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.tools.simulate.document import InvalidDocument, Report, fields_of, items_of


class NodeShape(msgspec.Struct, frozen=True):
    """So many nodes with so many GPUs."""

    gpus: int
    count: int = 1


class QueueShape(msgspec.Struct, frozen=True):
    """A queue; only GPUs matter."""

    name: str
    parent: str = ""
    priority: int = 100
    deservedgpus: float = 0.0
    weight: float = 1.0


class JobShape(msgspec.Struct, frozen=True):
    """What a queue wants: jobs of so many pods, of which one is enough to start, with so many GPUs each."""

    gpus: int
    numpods: int = 1
    numjobs: int = 1


class _Document(msgspec.Struct, frozen=True):
    cycles: int = 100
    windowsize: int = 5
    halflifeperiod: float = 0.0
    kvalue: float = 1.0
    nodes: Any = []
    queues: Any = []
    jobs: Any = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, its queues and what they want; times are in cycles."""

    cycles: int
    window: int
    half_life: float | None
    k: float
    nodes: tuple[NodeShape, ...]
    queues: tuple[QueueShape, ...]
    jobs: dict[str, JobShape]  #: by queue

    @property
    def leaves(self) -> list[str]:
        parents = {queue.parent for queue in self.queues}
        return [queue.name for queue in self.queues if queue.name not in parents]

    @property
    def gpus(self) -> int:
        return sum(node.gpus * node.count for node in self.nodes)


def read_scenario(text: str, report: Report) -> Scenario:
    """Reads KAI's YAML; raises `InvalidDocument` with the field that is wrong."""
    try:
        document = read_yaml(text)
    except UnreadableDocument as error:
        raise InvalidDocument(str(error)) from error
    given = fields_of("", document if document is not None else {}, _Document, report)
    if not isinstance(given.jobs, dict):
        raise InvalidDocument(f"Jobs must be a map of queues, it is {type(given.jobs).__name__}")
    scenario = Scenario(
        cycles=given.cycles,
        window=given.windowsize,
        half_life=given.halflifeperiod or None,
        k=given.kvalue,
        nodes=tuple(fields_of(where, item, NodeShape, report) for where, item in items_of("Nodes", given.nodes)),
        queues=tuple(fields_of(where, item, QueueShape, report) for where, item in items_of("Queues", given.queues)),
        jobs={str(queue): fields_of(f"Jobs.{queue}", job, JobShape, report) for queue, job in given.jobs.items()},
    )
    _check(scenario)
    return scenario


def _check(scenario: Scenario) -> None:
    least = [("Cycles", scenario.cycles, 1), ("WindowSize", scenario.window, 1), ("KValue", scenario.k, 0)]
    least += [("HalfLifePeriod", scenario.half_life or 0, 0)]
    for number, node in enumerate(scenario.nodes):
        least += [(f"Nodes[{number}].GPUs", node.gpus, 0), (f"Nodes[{number}].Count", node.count, 0)]
    for number, queue in enumerate(scenario.queues):
        where = f"Queues[{number}] ({queue.name})"
        least += [(f"{where}.DeservedGPUs", queue.deservedgpus, -1), (f"{where}.Weight", queue.weight, 0)]
    for name, job in scenario.jobs.items():
        where = f"Jobs.{name}"
        least += [(f"{where}.GPUs", job.gpus, 0), (f"{where}.NumPods", job.numpods, 0)]
        least += [(f"{where}.NumJobs", job.numjobs, 0)]
    for where, value, bound in least:
        if not (math.isfinite(value) and value >= bound):
            raise InvalidDocument(f"{where} is {value:g}, it must be {bound} or more")
    names = [queue.name for queue in scenario.queues]
    for number, queue in enumerate(scenario.queues):
        if not queue.name or queue.name in names[:number]:
            raise InvalidDocument(f"Queues[{number}].Name is {queue.name!r}, each queue must have its own")
    for name in scenario.jobs:
        if name not in scenario.leaves:
            why = "which has queues below it" if name in names else "which is not among the queues"
            raise InvalidDocument(f"Jobs names {name}, {why}")
