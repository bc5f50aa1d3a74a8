"""Queues that compete over time: the scheduler's own `decide`, cycle after cycle, on a made-up cluster.

A cycle takes one second of virtual time. What is decided happens at once: bound pods run until they are evicted,
evicted pods are gone by the next cycle and wait again. After each cycle what every queue holds goes into a history,
from which the next one's usage comes.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TextIO

import msgspec

from bosket.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from bosket.api.kai import PodGroup, PodGroupSpec, QueueResource, QueueResources, QueueSpec
from bosket.api.kai import Queue as QueueObject
from bosket.api.keys import POD_GROUP_ANNOTATION, SCHEDULER_NAME
from bosket.api.object import ObjectMeta
from bosket.api.quantity import Quantity
from bosket.api.time import format_time
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.usage_window import Sliding
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction
from bosket.scheduler.model.resource import NOTHING
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.usage.history import History, sample_of
from bosket.tools.simulate.document import InvalidDocument
from bosket.tools.simulate.scenario import QueueShape, Scenario

CYCLE_SECONDS: Final = 1.0
_BEGIN: Final = 1_700_000_000.0
_NAMESPACE: Final = "simulation"
_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Point:
    """A queue after a cycle, in GPUs."""

    cycle: int
    queue: str
    allocation: float
    fair_share: float


def run(scenario: Scenario) -> Iterator[list[Point]]:
    """The cycles one by one, each with a point for every queue, in the order of the scenario."""
    simulation = _Simulation(scenario)
    for cycle in range(scenario.cycles):
        yield simulation.step(cycle)


def write_csv(points: Iterable[Point], file: TextIO) -> None:
    """As KAI's simulator writes it."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("Time", "QueueID", "Allocation", "FairShare"))
    for point in points:
        writer.writerow((point.cycle, point.queue, f"{point.allocation:f}", f"{point.fair_share:f}"))


class _Simulation:
    """A cluster between two cycles."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._state = ClusterState(report=_refuse)
        self._history = History()
        self._configuration = _configuration(scenario.k)
        for node in _nodes(scenario):
            self._state.put(node)
        for queue in scenario.queues:
            self._state.put(_queue(queue))
        for group, pods in _jobs(scenario):
            self._state.put(group)
            for pod in pods:
                self._state.put(pod)

    def step(self, cycle: int) -> list[Point]:
        now = _BEGIN + cycle * CYCLE_SECONDS
        self._state.put_usage(self._usage(now - CYCLE_SECONDS))
        snapshot = self._state.snapshot(now)
        if cycle == 0:
            for name, reason in sorted(snapshot.queues.refused.items()):
                raise InvalidDocument(f"Queues: {name}: {reason}")
        decisions = decide(snapshot, self._configuration)
        self._carry_out(decisions)
        sample = sample_of(self._state.snapshot(now), now)
        self._history.append(sample.milliseconds, sample.capacity, self._history.changes(sample))
        if cycle % self._scenario.window == 0:
            self._history.forget_before(round((now - self._scenario.window * CYCLE_SECONDS) * 1000))
        return [
            Point(cycle, queue.name, sample.held.get(queue.name, NOTHING)[0], decisions.fair_share[queue.name][0])
            for queue in self._scenario.queues
        ]

    def _usage(self, last_sample: float) -> Usage:
        window, half_life = self._scenario.window * CYCLE_SECONDS, self._scenario.half_life
        parts = self._history.parts(
            Sliding(window),
            last_sample,
            resolution_seconds=CYCLE_SECONDS,
            half_life_seconds=half_life * CYCLE_SECONDS if half_life else None,
        )
        return Usage(parts, last_sample, "simulation")

    def _carry_out(self, decisions: Decisions) -> None:
        for task, operation in decisions.outcome.items():
            pod = task.pod
            match operation:
                case Bind(node=node):
                    spec = msgspec.structs.replace(pod.spec, nodeName=node)
                    running = msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running"))
                    self._state.put(running)
                case Eviction():  # whoever made the pod makes another
                    spec = msgspec.structs.replace(pod.spec, nodeName="")
                    self._state.put(msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Pending")))


def _refuse(problem: str) -> None:
    raise InvalidDocument(problem)


def _configuration(k: float) -> Configuration:
    default = Configuration()
    plugins = tuple(
        replace(choice, arguments={**choice.arguments, "kValue": str(k)}) if choice.name == "proportion" else choice
        for choice in default.plugins
    )
    return replace(default, actions=tuple(ACTIONS), plugins=plugins)


def _nodes(scenario: Scenario) -> Iterator[Node]:
    for number, shape in enumerate(scenario.nodes):
        has: dict[str, Quantity] = {"cpu": "1000", "memory": "1000Gi", "pods": "100000", _GPU: str(shape.gpus)}
        for index in range(shape.count):
            name = f"node-{number}-{index}"
            yield Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity=has, allocatable=has))


def _queue(shape: QueueShape) -> QueueObject:
    gpu = QueueResource(quota=shape.deservedgpus, limit=-1, overQuotaWeight=shape.weight)
    free = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
    resources = QueueResources(gpu=gpu, cpu=free, memory=free)
    spec = QueueSpec(parentQueue=shape.parent, priority=shape.priority, resources=resources)
    return QueueObject(metadata=ObjectMeta(name=shape.name, creationTimestamp=format_time(_BEGIN)), spec=spec)


def _jobs(scenario: Scenario) -> Iterator[tuple[PodGroup, list[Pod]]]:
    """What the scheduler is shown.

    The jobs of a queue are all alike, and those at the end of a long line change nothing: they can't all run at once,
    and a queue that wants twice the cluster has the share of one that wants more.
    """
    most = scenario.gpus + max([scenario.gpus, *(queue.deservedgpus for queue in scenario.queues)])
    for queue, shape in scenario.jobs.items():
        size = shape.gpus * shape.numpods
        enough = min(shape.numjobs, math.ceil(most / size) + 1) if size else shape.numjobs
        wants: dict[str, Quantity] = {_GPU: str(shape.gpus)}
        container = Container(name="main", image="work", resources=ResourceRequirements(requests=wants, limits=wants))
        spec = PodSpec(containers=(container,), schedulerName=SCHEDULER_NAME)
        for number in range(enough):
            name = f"{queue}-{number:06d}"
            group = PodGroup(metadata=_metadata(name, {}), spec=PodGroupSpec(minMember=1, queue=queue))
            pods = [
                Pod(metadata=_metadata(f"{name}-{member}", {POD_GROUP_ANNOTATION: name}), spec=spec)
                for member in range(shape.numpods)
            ]
            yield group, pods


def _metadata(name: str, annotations: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=_NAMESPACE,
        uid=name,
        annotations=annotations,
        creationTimestamp=format_time(_BEGIN),
    )
