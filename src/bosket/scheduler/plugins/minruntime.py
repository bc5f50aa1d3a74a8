"""Plugin minruntime: no eviction of jobs that have run for less than their queue's minimum run time.

Only the gang is protected, not the extras of an elastic job. Arguments: `defaultReclaimMinRuntime` and
`defaultPreemptMinRuntime` for queues without a value (durations such as `10m` or `1d`; none by default), and
`reclaimResolveMethod`, the queue whose value counts between queues: `lca` (the default) the queue right below the
lowest common ancestor, on the victim's side, or the nearest above with a value; `queue` the victim's own queue, or the
nearest above with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bosket.api.time import InvalidDuration, parse_long_duration
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_USED

METHODS = ("lca", "queue")
DEFAULTS = ("defaultReclaimMinRuntime", "defaultPreemptMinRuntime")


def is_in_force(snapshot: Snapshot, configuration: Configuration) -> bool:
    """Whether anybody's run time is protected at all: without that, it doesn't matter when a job started."""
    arguments = next((each.arguments for each in configuration.plugins if each.name == "minruntime"), None)
    if arguments is None:
        return False
    return any(arguments.get(name) for name in DEFAULTS) or any(
        queue.reclaim_min_runtime or queue.preempt_min_runtime for queue in snapshot.queues.queues
    )


class MinRuntime:
    """Registers the protection, between queues and inside them."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self._reclaim = _seconds(arguments, DEFAULTS[0])
        self._preempt = _seconds(arguments, DEFAULTS[1])
        self._method = arguments.get("reclaimResolveMethod") or METHODS[0]
        if self._method not in METHODS:
            raise ConfigurationError(
                f"plugin minruntime: reclaimResolveMethod is {self._method!r}, it must be one of {', '.join(METHODS)}"
            )

    def open(self, session: Session) -> None:
        queues = session.snapshot.queues.queues
        if self._reclaim or any(queue.reclaim_min_runtime for queue in queues):
            between = _Protection(session, self._between_queues(session))
            session.extensions.reclaim_filters.add(between)
            session.extensions.reclaim_validators.add(between.leaves_gangs_alone)
        if self._preempt or any(queue.preempt_min_runtime for queue in queues):
            inside = _Protection(session, self._inside_a_queue(session))
            session.extensions.preempt_filters.add(inside)
            session.extensions.preempt_validators.add(inside.leaves_gangs_alone)

    def _inside_a_queue(self, session: Session) -> Callable[[int, int], float]:
        tree = session.snapshot.queues
        said = [queue.preempt_min_runtime for queue in tree.queues]
        return lambda _, victim: _first(said, tree.paths[victim], self._preempt)

    def _between_queues(self, session: Session) -> Callable[[int, int], float]:
        tree = session.snapshot.queues
        said = [queue.reclaim_min_runtime for queue in tree.queues]

        def min_runtime(preemptor: int, victim: int) -> float:
            path = tree.paths[victim]
            if self._method == "lca":
                theirs = set(tree.paths[preemptor])
                common = next((depth for depth, row in enumerate(path) if row in theirs), len(path))
                path = path[max(0, common - 1) :]
            return _first(said, path, self._reclaim)

        return min_runtime


class _Protection:
    """A victim filter and a scenario validator."""

    by_job = True

    def __init__(self, session: Session, min_runtime: Callable[[int, int], float]) -> None:
        self._session, self._min_runtime = session, min_runtime

    def takes_from(self, preemptor: JobState, queue_row: QueueRow) -> bool:
        del preemptor, queue_row
        return True

    def takes(self, preemptor: JobState, victim: JobState) -> bool:
        return _is_elastic(victim) or not self._is_protected(preemptor, victim)

    def leaves_gangs_alone(self, scenario: Scenario) -> bool:
        for victim, tasks in scenario.by_job().items():
            if not _is_elastic(victim) or not self._is_protected(scenario.preemptor, victim):
                continue
            for pod_set in victim.job.pod_sets:
                going = sum(victim.pod_set(task) is pod_set for task in tasks)
                used = sum(victim.status(task) in ACTIVE_USED for task in pod_set.tasks)
                if going and used - going < pod_set.min_available:
                    return False
        return True

    def _is_protected(self, preemptor: JobState, victim: JobState) -> bool:
        started = victim.job.history.last_started
        if started is None:
            return False
        ends = started + self._min_runtime(preemptor.queue_row, victim.queue_row)
        if self._session.snapshot.now >= ends:
            return False
        self._session.outcome.consider_again_at(ends)
        return self._session.limits.protects(ends)


def _is_elastic(job: JobState) -> bool:
    return any(pod_set.min_available < len(pod_set.tasks) for pod_set in job.job.pod_sets)


def _first(said: Sequence[float | None], path: Sequence[int], default: float) -> float:
    return next((seconds for row in path if (seconds := said[row]) is not None), default)


def _seconds(arguments: Mapping[str, str], name: str) -> float:
    text = arguments.get(name)
    try:
        return parse_long_duration(text) if text else 0.0
    except InvalidDuration as error:
        raise ConfigurationError(f"plugin minruntime: {name}: {error}") from error
