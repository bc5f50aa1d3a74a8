"""Tasks: all pods of the live state as tasks, and everything that is counted per task.

A task is rebuilt when its pod changes, or when something that the pod refers to does (`Dirty.pods`). `_set` updates the
accounts of nodes, volumes, devices and match keys, and marks the job as dirty. Bind requests and evictions are here
too, because a pod's status depends on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.api.time import time_or_zero
from bosket.scheduler.model.pod_affinity import NO_MATCH_KEYS
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.model.volume import NO_STORAGE
from bosket.scheduler.state.devices.claims import DeviceClaims
from bosket.scheduler.state.devices.numa_zones import NumaTopologies
from bosket.scheduler.state.invalidation import Dirty
from bosket.scheduler.state.match_counts import MatchCounts
from bosket.scheduler.state.node_accounts import NodeAccounts
from bosket.scheduler.state.options import StateOptions
from bosket.scheduler.state.own.bind_requests import BindRequests, pod_of
from bosket.scheduler.state.own.evictions import Evictions
from bosket.scheduler.state.own.pod_backoff import PodBackoffs
from bosket.scheduler.state.pod_classes import PodClasses
from bosket.scheduler.state.pod_mixes import PodMixes
from bosket.scheduler.state.pod_selectors import PodSelectors
from bosket.scheduler.state.task_reader import Surroundings, TaskReader, UncountablePod, tasks_equal
from bosket.scheduler.state.volumes.attachments import Attachments
from bosket.scheduler.state.volumes.volumes import Volumes

#: The metadata that a task depends on or a plugin may read. The resourceVersion changes with every write.
_lasting = attrgetter("uid", "labels", "annotations", "deletionTimestamp", "creationTimestamp", "ownerReferences")


class LeftOut(NamedTuple):
    """A pod that can't be read."""

    group: ObjectKey
    problem: str


class Tasks:
    """All pods, of every scheduler, that can be read."""

    def __init__(
        self,
        options: StateOptions,
        *,
        classes: PodClasses,
        nodes: NodeAccounts,
        volumes: Volumes,
        devices: DeviceClaims,
        zones: NumaTopologies,
        dirty: Dirty,
        report: Callable[[str], None],
    ) -> None:
        self._options, self._dirty, self._report = options, dirty, report
        self.pods: dict[ObjectKey, Pod] = {}
        self._tasks: dict[ObjectKey, Task] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, Task]] = defaultdict(dict)  # pod group → its tasks
        self._left_out: dict[ObjectKey, LeftOut] = {}
        self.unread: set[ObjectKey] = set()  #: pods of any scheduler that can't be read
        self._releasing: set[ObjectKey] = set()  # terminating pods: their status depends on the time
        self._nodes, self._volumes, self._devices = nodes, volumes, devices
        self.requests = BindRequests(self.pods, nodes.nodes)
        self.evictions = Evictions(self.pods, honour_budgets=options.honour_budgets)
        self.backoffs = PodBackoffs()  #: pods whose bind failed
        self.pod_selectors = PodSelectors(self._tasks)
        self.match_counts = MatchCounts()
        self.attachments = Attachments()
        self.mixes = PodMixes()
        around = Surroundings(self.requests, self.evictions, self.pod_selectors, volumes, devices, zones)
        self._reader = TaskReader(classes, around, options.scheduler_name, report)

    def get(self, pod: ObjectKey) -> Task | None:
        return self._tasks.get(pod)

    def members(self, group: ObjectKey) -> Iterable[Task]:
        """The tasks of a pod group."""
        members = self._members.get(group)
        return members.values() if members is not None else ()

    def problem_of(self, group: ObjectKey) -> str | None:
        """Why one of the group's pods can't be read; None if all can."""
        if not self._left_out:
            return None
        return min((each.problem for each in self._left_out.values() if each.group == group), default=None)

    def jobs_backing_off(self, now: float) -> frozenset[ObjectKey]:
        """Jobs with a pod that backs off after a failed bind."""
        tasks = (self._tasks.get(pod) for pod in self.backoffs.waiting(now))
        return frozenset(task.group for task in tasks if task and task.group and task.status == TaskStatus.PENDING)

    # What is seen

    def put(self, pod: Pod) -> None:
        key = pod.key
        before = self.pods.get(key)
        self.pods[key] = pod
        task = None
        if before is not None:
            task = self._tasks.get(key)
            self.backoffs.forget_unless(key, None if pod.spec.nodeName else pod.metadata.uid)
        if before is not None or self.evictions.budgets:
            self.evictions.see(key, pod, before)
        if self.requests.known:
            self.requests.assess_for_pod(key)
        if before is not None and task is not None and pod.spec.nodeName and _says_the_same(before, pod):
            return
        self._set(key, task, self._read(key, pod, task))

    def drop(self, key: ObjectKey) -> None:
        if self.pods.pop(key, None) is not None:
            self.backoffs.forget_unless(key, None)
            self._volumes.forget_pod(key)
            self._devices.forget_pod(key)
            self.evictions.forget(key)
            self._set(key, self._tasks.get(key), None)
            self._nodes.forget_unread(key)
            self.unread.discard(key)
            left_out = self._left_out.pop(key, None)
            if left_out is not None:
                self._dirty.jobs.add(left_out.group)

    def put_bind_request(self, request: BindRequest) -> None:
        before = self.requests.is_dead(request.key)
        if self.requests.observe(request):
            self._renew(pod_of(request))
        if before or self.requests.is_dead(request.key):
            self._dirty.other = True

    def drop_bind_request(self, request: BindRequest) -> None:
        self.renew(self.requests.observe_deleted(request))

    def node_came_or_went(self, node: str) -> None:
        for pod in self.requests.assess_for_node(node):
            self._renew(pod)
        self._dirty.other = True
        if residents := self._nodes.on(node):
            self._dirty.jobs.update(task.group for task in residents if task.group)

    # Tasks anew

    def renew(self, pod: ObjectKey | None) -> None:
        """Marks a pod as dirty after one of our decisions about it, or its withdrawal."""
        if pod is not None:
            self._renew(pod)
            self._dirty.other = True

    def look_again(self) -> None:
        """Reads dirty pods again."""
        dirty = self._dirty.pods
        while dirty:
            key = dirty.pop()
            pod, before = self.pods.get(key), self._tasks.get(key)
            task = self._read(key, pod, before) if pod is not None else None
            if not tasks_equal(before, task):
                self._set(key, before, task)

    def let_time_pass(self, now: float) -> None:
        """A pod that should have terminated long ago no longer promises its resources."""
        for key in list(self._releasing):
            task = self._tasks[key]
            gone_by = self.evictions.going_since(key) or time_or_zero(task.pod.metadata.deletionTimestamp)
            if now - gone_by > self._options.stuck_in_releasing_seconds:
                self._set(key, task, msgspec.structs.replace(task, status=TaskStatus.STUCK_IN_RELEASING))

    def _renew(self, key: ObjectKey) -> None:
        pod, before = self.pods.get(key), self._tasks.get(key)
        self._set(key, before, self._read(key, pod, before) if pod is not None else None)

    def _set(self, key: ObjectKey, before: Task | None, task: Task | None) -> None:
        """Replaces the pod's task in all accounts; `before`: the task until now.

        Every account gets both tasks and computes the difference itself. An account that is updated only on some paths
        would drift from the others, so this is the one place that calls them.
        """
        if before is not None:
            self._forget(key, before)
        if task is not None:
            self._tasks[key] = task
            group = task.group
            if _counts(task) and not (before is not None and _counts(before)):
                self.mixes.saw(task.pod_class, task.created)
            if group is not None:
                self._members[group][key] = task
                self._dirty.jobs.add(group)
            if task.node:
                self._nodes.add(key, task)
            if task.status is TaskStatus.RELEASING:
                self._releasing.add(key)
        if (task is not None and task.storage is not NO_STORAGE) or (
            before is not None and before.storage is not NO_STORAGE
        ):
            self.attachments.replace(before, task)
        if (task is not None and task.devices is not None) or (before is not None and before.devices is not None):
            self._devices.follow(key, task)
        if (
            self.pod_selectors.in_use
            or (task is not None and task.pod_class.match_keys is not NO_MATCH_KEYS)
            or (before is not None and before.pod_class.match_keys is not NO_MATCH_KEYS)
        ):
            self.match_counts.replace(before, task)
            self._dirty.pods.update(self.pod_selectors.follow(key, before, task))

    def _forget(self, key: ObjectKey, task: Task) -> None:
        del self._tasks[key]
        self._releasing.discard(key)
        if task.group is not None:
            members = self._members[task.group]
            del members[key]
            if not members:
                del self._members[task.group]
            self._dirty.jobs.add(task.group)
        self._nodes.remove(key, task)

    def _read(self, key: ObjectKey, pod: Pod, before: Task | None) -> Task | None:
        try:
            task = self._reader.read(key, pod, before)
        except UncountablePod as error:
            self._leave_out(key, pod, str(error))
            return None
        except Exception as error:  # a defect must not stop other pods
            self._leave_out(key, pod, f"the scheduler fails with it: {type(error).__name__}: {error}")
            return None
        if self._left_out:
            self._left_out.pop(key, None)
        if self.unread:
            self.unread.discard(key)
            self._nodes.forget_unread(key)
        return task

    def _leave_out(self, key: ObjectKey, pod: Pod, problem: str) -> None:
        """The pod's requests can't be read; its job's status says so. A running pod keeps its recorded amounts."""
        self._nodes.hold_unread(key, pod)
        self._devices.forget_pod(key)
        self.unread.add(key)
        self._report(f"Pod {key}: {problem}; the pod is left out")
        group = pod.metadata.annotations.get(POD_GROUP_ANNOTATION)
        if group and pod.spec.schedulerName == self._options.scheduler_name:
            self._left_out[key] = LeftOut(ObjectKey(pod.metadata.namespace, group), f"pod {key}: {problem}")
            self._dirty.jobs.add(self._left_out[key].group)


def _counts(task: Task) -> bool:
    """Whether the pod counts for the mix of pods: it belongs to a group or is on a node."""
    return task.group is not None or bool(task.node)


def _says_the_same(before: Pod, pod: Pod) -> bool:
    """Whether a write changed nothing that a task keeps: kubelets write statuses all the time, and the task may keep
    the older version. Not for pending pods: their reports are compared with the newest version."""
    return (
        before.status == pod.status and before.spec == pod.spec and _lasting(before.metadata) == _lasting(pod.metadata)
    )
