"""What is seen of the demo: every change of a pod, in order, counted and held against what a scheduler promises.

`Observation` is fed with pods and time and does no I/O; display and summary read it. It knows only what any client
of the API server could know.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from bosket.api.core import Pod
from bosket.api.keys import NVIDIA_GPU, QUEUE_LABEL
from bosket.api.pod_phase import has_ended
from bosket.api.quantity import to_int
from bosket.cli.demo.story import WORKLOAD_LABEL, Gang, Team

#: Pods of a gang are bound one after the other, but in one go: not with other work's end in between.
_BINDING_SECONDS: Final = 3.0


@dataclass(slots=True)
class GangRecord:
    """The course of one gang; times in seconds since the story began."""

    gang: Gang
    submitted_at: float | None = None
    first_bound_at: float | None = None
    all_bound_at: float | None = None
    all_running_at: float | None = None
    finished_at: float | None = None
    failed: bool = False
    bound: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    #: What the scheduler says about it while it waits.
    why: str = ""

    @property
    def state(self) -> str:
        if self.finished_at is not None:
            return "failed" if self.failed else "succeeded"
        if self.all_running_at is not None:
            return "running"
        if self.submitted_at is None:
            return "not submitted"
        return "waiting" if self.first_bound_at is None else "starting"

    @property
    def waited_seconds(self) -> float | None:
        if self.submitted_at is None or self.all_running_at is None:
            return None
        return self.all_running_at - self.submitted_at

    def waited_until(self, now: float) -> float:
        """How long it waited, or has waited so far."""
        if self.waited_seconds is not None:
            return self.waited_seconds
        return 0.0 if self.submitted_at is None else now - self.submitted_at

    @property
    def ran_seconds(self) -> float | None:
        if self.all_running_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.all_running_at

    @property
    def binding_seconds(self) -> float | None:
        """Between the binding of its first and of its last pod."""
        if self.first_bound_at is None or self.all_bound_at is None:
            return None
        return self.all_bound_at - self.first_bound_at


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that must hold all the time, and where it didn't."""

    name: str
    evidence: str
    violations: tuple[str, ...]

    @property
    def kept(self) -> bool:
        return not self.violations


class Observation:
    """The demo so far."""

    def __init__(self, gangs: tuple[Gang, ...], teams: tuple[Team, ...], gpus_by_node: dict[str, int]) -> None:
        self.gangs = {gang.name: GangRecord(gang) for gang in gangs}
        self.teams = teams
        self.gpus_by_node = gpus_by_node
        self.most_gpus_by_team: Counter[str] = Counter()
        self.most_gpus = 0
        self._pods: dict[str, Pod] = {}
        self._used_by_team: Counter[str] = Counter()
        self._used_by_node: Counter[str] = Counter()
        self._over_limit: dict[str, str] = {}
        self._over_capacity: dict[str, str] = {}
        self._refused: list[str] = []

    def submitted(self, name: str, at: float) -> None:
        self.gangs[name].submitted_at = at

    def finished(self, name: str, at: float, *, failed: bool) -> None:
        record = self.gangs[name]
        if record.finished_at is None:
            record.finished_at = at
            record.failed = failed

    def pod_changed(self, old: Pod | None, new: Pod | None, at: float) -> None:
        """Take a change as an informer tells it."""
        before = self._pods.pop(old.metadata.uid, None) if old is not None else None
        if before is not None and _holds(before):
            self._add_use(before, -1)
        if new is None:
            return
        self._pods[new.metadata.uid] = new
        if _holds(new):
            self._add_use(new, 1)
            self._check_limits(new)
        if new.status.reason.startswith("OutOf") and (before is None or before.status.reason != new.status.reason):
            self._refused.append(f"{new.spec.nodeName} refused {new.metadata.name}: {new.status.message}")
        self._follow_gang(new, at)

    def pods(self, team: str) -> tuple[int, int]:
        """How many pods of a team run, and how many wait."""
        phases = Counter(
            "running" if _holds(pod) else "pending"
            for pod in self._pods.values()
            if _team(pod) == team and not has_ended(pod)
        )
        return phases["running"], phases["pending"]

    def gpus(self, team: str) -> int:
        return self._used_by_team[team]

    @property
    def seen_pods(self) -> bool:
        """Whether anything has been seen yet."""
        return bool(self._pods)

    @property
    def total_gpus(self) -> int:
        return sum(self.gpus_by_node.values())

    @property
    def all_finished(self) -> bool:
        return all(record.finished_at is not None for record in self.gangs.values())

    def promises(self) -> list[Promise]:
        """What a scheduler of gangs and queues promises, and whether it was so at every change that was seen."""
        spans = [record.binding_seconds for record in self.gangs.values() if record.binding_seconds is not None]
        limited = [team for team in self.teams if team.limit is not None]
        return [
            Promise(
                "every gang was bound as a whole",
                f"{len(spans)} gangs, the slowest within {max(spans, default=0.0) * 1000:.0f} ms",
                tuple(self._partly_bound()),
            ),
            Promise(
                "no queue went over its limit",
                ", ".join(
                    f"{team.name} used {self.most_gpus_by_team[team.name]} of {team.limit} GPUs" for team in limited
                ),
                tuple(self._over_limit.values()),
            ),
            Promise(
                "no node went over its capacity",
                f"{self.most_gpus} of {self.total_gpus} GPUs in use at the peak",
                (*self._over_capacity.values(), *self._refused),
            ),
        ]

    def _add_use(self, pod: Pod, sign: int) -> None:
        gpus = sign * _gpus(pod)
        self._used_by_team[_team(pod)] += gpus
        self._used_by_node[pod.spec.nodeName] += gpus

    def _check_limits(self, pod: Pod) -> None:
        self.most_gpus = max(self.most_gpus, self._used_by_node.total())
        for team in self.teams:
            used = self._used_by_team[team.name]
            self.most_gpus_by_team[team.name] = max(used, self.most_gpus_by_team[team.name])
            if team.limit is not None and used > team.limit:
                self._over_limit[team.name] = f"queue {team.name} used {used} GPUs, its limit is {team.limit}"
        node = pod.spec.nodeName
        used, capacity = self._used_by_node[node], self.gpus_by_node.get(node, 0)
        if used > capacity:
            self._over_capacity[node] = f"pods on {node} hold {used} GPUs, it has {capacity}"

    def _follow_gang(self, pod: Pod, at: float) -> None:
        record = self.gangs.get(pod.metadata.labels.get(WORKLOAD_LABEL, ""))
        if record is None:
            return
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled":
                record.why = condition.message if condition.status == "False" else ""
        if pod.spec.nodeName:
            record.bound.add(pod.metadata.uid)
            if record.first_bound_at is None:
                record.first_bound_at = at
        if pod.status.phase in ("Running", "Succeeded"):
            record.running.add(pod.metadata.uid)
        if record.all_bound_at is None and len(record.bound) >= record.gang.pods:
            record.all_bound_at = at
        if record.all_running_at is None and len(record.running) >= record.gang.pods:
            record.all_running_at = at

    def _partly_bound(self) -> list[str]:
        violations = []
        for name, record in self.gangs.items():
            if record.first_bound_at is not None and record.all_bound_at is None:
                violations.append(f"{name}: {len(record.bound)} of {record.gang.pods} pods were bound")
            elif record.binding_seconds is not None and record.binding_seconds > _BINDING_SECONDS:
                violations.append(f"{name}: its pods were bound over {record.binding_seconds:.1f} s")
        return violations


def outcome(observation: Observation, seconds: float) -> dict[str, Any]:
    """What became of everything, for machines."""
    return {
        "seconds": round(seconds, 3),
        "jobs": [
            {
                "name": name,
                "queue": record.gang.team,
                "pods": record.gang.pods,
                "gpus": record.gang.gpus,
                "waitedSeconds": _rounded(record.waited_seconds),
                "ranSeconds": _rounded(record.ran_seconds),
                "result": record.state,
            }
            for name, record in observation.gangs.items()
        ],
        "promises": [
            {"name": promise.name, "kept": promise.kept, "violations": promise.violations}
            for promise in observation.promises()
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def states(observation: Observation) -> dict[str, list[str]]:
    """The names of the gangs by their state."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, record in observation.gangs.items():
        names[record.state].append(name)
    return names


def _holds(pod: Pod) -> bool:
    """Bound and not ended: it holds what it asked for."""
    return bool(pod.spec.nodeName) and not has_ended(pod)


def _team(pod: Pod) -> str:
    return pod.metadata.labels.get(QUEUE_LABEL, "")


def _gpus(pod: Pod) -> int:
    return sum(to_int(container.resources.requests.get(NVIDIA_GPU, 0)) for container in pod.spec.containers)
