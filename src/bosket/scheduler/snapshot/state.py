"""The live state: Kubernetes objects in, snapshots out.

Fed by the scheduler's cache from watch events, by `replay` and by tests from lists; it does no I/O and reads no clock.
An event marks what it touches (a job, a node, a queue); `snapshot()` renews what is marked and shares everything else
with the snapshot before, so that its cost follows what changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Topology
from bosket.api.kai import Queue as QueueObject
from bosket.api.keys import (
    DEFAULT_NODE_POOL,
    DEFAULT_WORK_PRIORITY,
    NODE_POOL_LABEL,
    POD_GROUP_ANNOTATION,
    SCHEDULER_NAME,
)
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.api.policy import PodDisruptionBudget
from bosket.api.quantity import InvalidQuantity
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.api.time import time_or_zero
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.model.job import Job, build_job
from bosket.scheduler.model.peer import NO_MARKS
from bosket.scheduler.model.resource import (
    ResourceAxis,
    UncountableAmount,
    shared_amounts,
)
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.model.usage import NO_USAGE, Usage
from bosket.scheduler.model.volume import NO_STORAGE, VolumeAccounts
from bosket.scheduler.snapshot.attachments import Attachments
from bosket.scheduler.snapshot.bind_requests import BindRequests, pod_of
from bosket.scheduler.snapshot.claims import Claims
from bosket.scheduler.snapshot.commitments import Commitments
from bosket.scheduler.snapshot.device_claims import DeviceClaims
from bosket.scheduler.snapshot.displacement import Displacements
from bosket.scheduler.snapshot.evictions import Evictions
from bosket.scheduler.snapshot.hold import Holds
from bosket.scheduler.snapshot.node_accounts import NodeAccounts
from bosket.scheduler.snapshot.notes import Annotations, Notes
from bosket.scheduler.snapshot.numa_zones import NumaTopologies
from bosket.scheduler.snapshot.peers import Peers
from bosket.scheduler.snapshot.pod_classes import PodClasses
from bosket.scheduler.snapshot.queue_objects import QueueObjects
from bosket.scheduler.snapshot.queue_uses import QueueUses
from bosket.scheduler.snapshot.shared import Shared
from bosket.scheduler.snapshot.snapshot import Snapshot, WorkerLabels
from bosket.scheduler.snapshot.tally import Tallies
from bosket.scheduler.snapshot.task_reader import (
    Surroundings,
    TaskReader,
    UncountablePod,
    integer_or_none,
    stand_alike,
)
from bosket.scheduler.snapshot.topologies import Topologies
from bosket.scheduler.snapshot.verdict import VerdictMemory
from bosket.scheduler.snapshot.volumes import Volumes

#: spec.schedulingBackoff of groups that are tried for ever; so are those that don't say.
NO_BACKOFF = -1


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What the state must know to read objects."""

    scheduler_name: str = SCHEDULER_NAME
    stuck_in_releasing_seconds: float = 120.0
    node_pool_label: str = NODE_POOL_LABEL
    node_pool: str = ""  #: the label's value on this scheduler's nodes, queues and pod groups; empty: without it
    #: when set: only nodes with one of these labels are there, and pods with and without GPUs go to their own ones
    worker_labels: WorkerLabels | None = None
    full_hierarchy_fairness: bool = True  #: False: queues share the cluster as if they were all siblings
    honour_budgets: bool = True  #: False: pods are deleted, which asks no disruption budget

    def in_shard(self, obj: KubeObject) -> bool:
        """Whether an object belongs to this scheduler's shard; without a label to tell by, everything does."""
        return not self.node_pool_label or obj.metadata.labels.get(self.node_pool_label, "") == self.node_pool


class LeftOut(NamedTuple):
    """A pod that isn't counted."""

    group: ObjectKey
    problem: str


class ClusterState:
    """All that the scheduler knows of the cluster, kept up to date object by object."""

    def __init__(self, options: StateOptions | None = None, report: Callable[[str], None] | None = None) -> None:
        self._options = options or StateOptions()
        self._report = report or (lambda _: None)
        self._axis = ResourceAxis()
        self._pods: dict[ObjectKey, Pod] = {}
        self._groups: dict[ObjectKey, PodGroup] = {}
        self._queues = QueueObjects(self._report, full_hierarchy=self._options.full_hierarchy_fairness)
        self._priorities: dict[str, PriorityClass] = {}
        self._nodes = NodeAccounts(self._axis, self._options.scheduler_name)
        self._requests = BindRequests(self._pods, self._nodes.nodes)
        self._holds = Holds()
        self._evictions = Evictions(self._pods, honour_budgets=self._options.honour_budgets)
        self._notes = Notes()
        self._claims = Claims()
        self._displacements = Displacements()

        self._topologies = Topologies()
        self._namespaces: dict[str, Namespace] = {}
        self._volumes = Volumes(self._report)
        self._attachments = Attachments()
        self._node_topologies = NumaTopologies(self._report)
        self._devices = DeviceClaims(self._axis, self._report)
        self._config_maps: Shared[ObjectKey, None] = Shared()

        self._tasks: dict[ObjectKey, Task] = {}
        self._left_out: dict[ObjectKey, LeftOut] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, Task]] = defaultdict(dict)  # pod group → its tasks
        self._jobs: dict[ObjectKey, Job] = {}
        self._uses = QueueUses()
        self._unsettled: set[ObjectKey] = set()
        self._stale: set[ObjectKey] = set()
        self._usage = NO_USAGE
        self._releasing: set[ObjectKey] = set()  # tasks whose status depends on the time
        self._peers = Peers(self._tasks)
        self._tallies = Tallies()
        around = Surroundings(
            self._requests, self._evictions, self._peers, self._volumes, self._devices, self._node_topologies
        )
        self._reader = TaskReader(PodClasses(self._axis), around, self._options.scheduler_name, self._report)

        self._dirty_pods: set[ObjectKey] = set()  # something that they refer to changed
        self._dirty_jobs: set[ObjectKey] = set()
        self._memory = VerdictMemory()
        self._last: Snapshot | None = None

    # Objects in

    def put_pod(self, pod: Pod) -> None:
        key = pod.key
        before = self._pods.get(key)
        self._pods[key] = pod
        task = None
        if before is not None:
            task = self._tasks.get(key)
            self._holds.forget_unless(key, None if pod.spec.nodeName else pod.metadata.uid)
        if before is not None or self._evictions.budgets:
            self._evictions.see(key, pod, before)
        if self._requests.known:
            self._requests.judge_for_pod(key)
        self._set_task(key, task, self._task_of(key, pod, task))

    def drop_pod(self, key: ObjectKey) -> None:
        if self._pods.pop(key, None) is not None:
            self._holds.forget_unless(key, None)
            self._volumes.forget_pod(key)
            self._evictions.forget(key)
            self._set_task(key, self._tasks.get(key), None)
            left_out = self._left_out.pop(key, None)
            if left_out is not None:
                self._dirty_jobs.add(left_out.group)

    def put_bind_request(self, request: BindRequest) -> None:
        before = self._requests.is_dead(request.key)
        if self._requests.observe(request):
            self._renew_task(pod_of(request))
        if before or self._requests.is_dead(request.key):
            self._last = None

    def drop_bind_request(self, request: BindRequest) -> None:
        self._renew_if_any(self._requests.observe_deleted(request))

    def assume_bind_request(self, request: BindRequest) -> None:
        """Counts a request that was decided on and is about to be written."""
        self._requests.assume(request)
        self._renew_if_any(pod_of(request))

    def withdraw_bind_request(self, key: ObjectKey) -> None:
        """The request could not be written: its pod stands as before."""
        self._renew_if_any(self._requests.withdraw(key))

    def hold_back(self, pod: ObjectKey, uid: str, now: float) -> None:
        """The pod's binding failed: its job isn't decided on for a while."""
        if pod in self._pods:
            self._holds.add(pod, uid, now)
            self._last = None

    def assume_eviction(self, pod: ObjectKey, uid: str, now: float) -> None:
        """Counts an eviction that was decided on and is about to be asked for: the pod is on its way out."""
        self._evictions.assume(pod, uid, now)
        self._renew_if_any(pod)

    def withdraw_eviction(self, pod: ObjectKey) -> None:
        """The pod isn't evicted after all, and stands as before."""
        if self._evictions.withdraw(pod):
            self._claims.victim_stays(pod)
            self._renew_if_any(pod)

    def refuse_eviction(self, pod: ObjectKey, uid: str, now: float, by: str) -> None:
        """The pod may not be evicted now: for a while others are chosen, for longer each time."""
        if pod in self._pods:
            self._evictions.refuse(pod, uid, now, by)
        self.withdraw_eviction(pod)
        self._last = None

    def guard_of(self, pod: ObjectKey) -> ObjectKey | None:
        """The disruption budget that guards the pod."""
        return self._evictions.budget_of(pod)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        self._evictions.put_budget(budget)

    def drop_budget(self, key: ObjectKey) -> None:
        self._evictions.drop_budget(key)

    def write_note(self, group: PodGroup, annotation: str, value: str | None) -> None:
        """Counts an annotation that is about to be written, or taken away."""
        self._notes.write(group, annotation, value)
        self._dirty_jobs.add(group.key)

    def group(self, key: ObjectKey) -> PodGroup | None:
        """The group as it was last seen; a job's own may be older where only its status differs."""
        return self._groups.get(key)

    def notes(self) -> Mapping[ObjectKey, tuple[str, Annotations]]:
        """Annotations that count and aren't observed yet: by group, with its uid."""
        return self._notes.all()

    def withdraw_note(self, group: ObjectKey, annotation: str) -> None:
        """The annotation could not be written."""
        if self._notes.forget(group, annotation):
            self._dirty_jobs.add(group)

    def remember(self, decisions: Decisions, now: float) -> None:
        """What was decided binds the next cycles: room that was made for jobs is theirs, and nobody takes it back."""
        self._claims.note(decisions, self._axis.names)
        self._displacements.note(decisions, now, rights_turn=bool(self._usage.parts))

    def _renew_if_any(self, pod: ObjectKey | None) -> None:
        if pod is not None:
            self._renew_task(pod)
            self._last = None

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        try:
            amounts = shared_amounts(tuple(node.status.allocatable.items()))
        except (InvalidQuantity, UncountableAmount) as error:
            self._report(f"Node {name}: status.allocatable: {error}; the node is left out")
            self.drop_node(name)
            return
        workers = self._options.worker_labels
        if workers is not None and not {workers.gpu, workers.cpu} & node.metadata.labels.keys():
            self.drop_node(name)
            return
        is_new = name not in self._nodes.nodes
        if self._nodes.put(node, amounts):
            self._displacements.forget_all()
        if is_new:
            self._node_came_or_went(name)

    def drop_node(self, name: str) -> None:
        if self._nodes.drop(name):
            self._displacements.forget_all()
            self._node_came_or_went(name)

    def put_queue(self, obj: QueueObject) -> None:
        if self._queues.put(obj):
            self._displacements.forget_all()

    def drop_queue(self, name: str) -> None:
        if self._queues.drop(name):
            self._displacements.forget_all()

    def put_pod_group(self, group: PodGroup) -> None:
        key = group.key
        before = self._groups.get(key)
        if before is not None and (before.metadata.uid, before.spec) != (group.metadata.uid, group.spec):
            self._displacements.forget_job(key)
        self._groups[key] = group
        self._notes.observe(group)
        if before is None or _what_counts(before) != _what_counts(group):
            self._dirty_jobs.add(key)

    def drop_pod_group(self, key: ObjectKey) -> None:
        self._groups.pop(key, None)
        self._displacements.forget_job(key)
        self._notes.forget_group(key)
        self._dirty_jobs.add(key)

    def put_priority_class(self, priority: PriorityClass) -> None:
        before = self._priorities.get(priority.metadata.name)
        self._priorities[priority.metadata.name] = priority
        if before is None or (before.value, before.globalDefault) != (priority.value, priority.globalDefault):
            self._priorities_changed()

    def drop_priority_class(self, name: str) -> None:
        if self._priorities.pop(name, None) is not None:
            self._priorities_changed()

    def _priorities_changed(self) -> None:
        self._displacements.forget_all()
        self._dirty_jobs.update(self._jobs)

    def put_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.metadata.name] = namespace
        self._dirty_pods.update(self._peers.put_namespace(namespace.metadata.name, namespace.metadata.labels))

    def drop_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)
        self._dirty_pods.update(self._peers.drop_namespace(name))

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        self._volumes.put_claim(claim)

    def drop_claim(self, key: ObjectKey) -> None:
        self._volumes.drop_claim(key)

    def put_volume(self, volume: PersistentVolume) -> None:
        self._volumes.put_volume(volume)

    def drop_volume(self, name: str) -> None:
        self._volumes.drop_volume(name)

    def put_storage_class(self, storage_class: StorageClass) -> None:
        self._volumes.put_class(storage_class)

    def drop_storage_class(self, name: str) -> None:
        self._volumes.drop_class(name)

    def put_csi_node(self, node: CSINode) -> None:
        self._volumes.put_csi_node(node)

    def drop_csi_node(self, name: str) -> None:
        self._volumes.drop_csi_node(name)

    def put_csi_driver(self, driver: CSIDriver) -> None:
        self._volumes.put_csi_driver(driver)

    def drop_csi_driver(self, name: str) -> None:
        self._volumes.drop_csi_driver(name)

    def put_storage_capacity(self, capacity: CSIStorageCapacity) -> None:
        self._volumes.put_capacity(capacity)

    def drop_storage_capacity(self, key: ObjectKey) -> None:
        self._volumes.drop_capacity(key)

    def put_topology(self, topology: Topology) -> None:
        if self._topologies.put(topology):
            self._displacements.forget_all()
            self._last = None

    def drop_topology(self, name: str) -> None:
        if self._topologies.drop(name):
            self._displacements.forget_all()
            self._last = None

    def put_node_topology(self, topology: NodeResourceTopology) -> None:
        had_any = self._node_topologies.any
        if self._node_topologies.put(topology):
            self._zones_changed(had_any=had_any)

    def drop_node_topology(self, node: str) -> None:
        had_any = self._node_topologies.any
        if self._node_topologies.drop(node):
            self._zones_changed(had_any=had_any)

    def _zones_changed(self, *, had_any: bool) -> None:
        """What pods are told apart by, where they are aligned, matters only while some node has zones."""
        if had_any != self._node_topologies.any:
            self._dirty_pods.update(self._pods)
        self._last = None

    def put_resource_claim(self, claim: ResourceClaim) -> None:
        self._dirty_pods.update(self._devices.put_claim(claim))

    def drop_resource_claim(self, key: ObjectKey) -> None:
        self._dirty_pods.update(self._devices.drop_claim(key))

    def put_device_class(self, device_class: DeviceClass) -> None:
        if self._devices.put_class(device_class):
            self._dirty_pods.update(self._pods)

    def drop_device_class(self, name: str) -> None:
        if self._devices.drop_class(name):
            self._dirty_pods.update(self._pods)

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        self._devices.pools.put_rule(rule)

    def drop_taint_rule(self, name: str) -> None:
        self._devices.pools.drop_rule(name)

    def put_resource_slice(self, each: ResourceSlice) -> None:
        self._devices.put_slice(each)

    def drop_resource_slice(self, name: str) -> None:
        self._devices.drop_slice(name)

    def put_config_map(self, config_map: KubeObject) -> None:
        """Only that it exists is kept; any object with the metadata of a ConfigMap will do."""
        if config_map.key not in self._config_maps:
            self._config_maps.put(config_map.key, None)
            self._last = None

    def drop_config_map(self, key: ObjectKey) -> None:
        self._config_maps.drop(key)
        self._last = None

    def put_usage(self, usage: Usage) -> None:
        """What queues used in the past. While nothing waits it changes nothing, and is no reason for a new snapshot."""
        self._usage = usage

    # What came in goes out again, for recordings

    @property
    def usage(self) -> Usage:
        return self._usage

    def objects(self, kind: type[KubeObject]) -> tuple[KubeObject, ...]:
        """All that is known of a kind, as it was put in; of bind requests also those that are only assumed."""
        tables: Mapping[type[KubeObject], Mapping[Any, KubeObject]] = {
            Pod: self._pods,
            Node: self._nodes.nodes,
            QueueObject: self._queues.objects,
            PodGroup: self._groups,
            BindRequest: self._requests.known,
            PriorityClass: self._priorities,
            Namespace: self._namespaces,
            PersistentVolumeClaim: self._volumes.claims,
            PersistentVolume: self._volumes.volumes,
            StorageClass: self._volumes.classes,
            CSINode: self._volumes.drivers.nodes,
            CSIDriver: self._volumes.drivers.drivers,
            CSIStorageCapacity: self._volumes.drivers.capacities,
            ResourceClaim: self._devices.claims,
            ResourceSlice: self._devices.slices,
            DeviceClass: self._devices.classes,
            DeviceTaintRule: self._devices.pools.rules,
            Topology: self._topologies.objects,
            ConfigMap: {key: ConfigMap(metadata=_named(key)) for key in self._config_maps.freeze()},
            PodDisruptionBudget: self._evictions.budgets,
            NodeResourceTopology: self._node_topologies.objects,
        }
        if kind is PodGroup:
            return tuple(map(self._notes.overlay, self._groups.values()))
        return tuple(tables[kind].values())

    def commitments(self, now: float) -> Commitments:
        """What earlier cycles bind the next one to."""
        takers = self._displacements.takers(now)
        return Commitments(
            evicted=self._evictions.going(),
            refused=tuple(sorted(self._evictions.refused(now).items())),
            claims=self._claims.known,
            takers=tuple((victim, tuple(sorted(takers[victim]))) for victim in sorted(takers)),
        )

    def commit(self, commitments: Commitments, now: float) -> None:
        """Takes over what a recording was bound to, as of then."""
        for pod in commitments.evicted:
            if pod in self._pods:
                self.assume_eviction(pod, self._pods[pod].metadata.uid, now)
        for pod, by in commitments.refused:
            if pod in self._pods:
                self._evictions.refuse(pod, self._pods[pod].metadata.uid, now, by)
        for claim in commitments.claims:
            self._claims.put(claim)
        self._displacements.put({victim: frozenset(takers) for victim, takers in commitments.takers}, now)

    def held_pods(self, now: float) -> frozenset[ObjectKey]:
        """Pods whose binding failed a short while ago."""
        return self._holds.held(now)

    # Snapshots out

    def snapshot(self, now: float) -> Snapshot:
        """The state at `now`. The very same snapshot is returned while nothing changed but the time."""
        self._let_time_pass(now)
        self._look_again()
        for node in self._devices.renew():
            self._nodes.put_device_gpus(node, self._devices.pools.gpus_on(node))
        self._renew_jobs()
        held, disruptions = self._held_jobs(now), self._evictions.disruptions(now)
        claims, takers = self._claims.standing(now, self._jobs, self._tasks.get), self._displacements.takers(now)
        last = self._last
        unchanged = self._queues.is_unchanged() and self._nodes.is_unchanged() and self._uses.is_unchanged()
        unchanged = unchanged and self._usage_is_no_news() and self._devices.is_unchanged()
        unchanged = unchanged and last is not None and last.volumes.limits is self._volumes.drivers.limits()
        if last is not None and unchanged and last.jobs is self._jobs and last.held == held:
            own = (last.disruptions, last.claims, last.takers)
            if all(then is now for then, now in zip(own, (disruptions, claims, takers), strict=True)):
                return last
        nodes = self._nodes.table()
        self._last = Snapshot(
            now=now,
            resource_names=tuple(self._axis.names),
            nodes=nodes,
            residents=self._nodes.residents,
            queues=self._queues.tree(),
            jobs=self._jobs,
            unsettled=tuple(self._jobs[key] for key in sorted(self._unsettled)),
            stale=tuple(self._jobs[key] for key in sorted(self._stale)),
            use=self._uses.count(nodes),
            held=held,
            disruptions=disruptions,
            claims=claims,
            takers=takers,
            # The scheduler of another shard looks after its own: nodes that aren't here may be there.
            dead_bind_requests=tuple(filter(self._options.in_shard, self._requests.dead())),
            marked=self._tallies.any,
            tallies=self._tallies.freeze(),
            terms=self._peers.terms(),
            volumes=self._volume_accounts(),
            topologies=self._topologies.arrange(nodes),
            numa=self._node_topologies.freeze(),
            config_maps=self._config_maps.freeze(),
            inventory=self._devices.freeze(),
            node_pool=self._options.node_pool or DEFAULT_NODE_POOL,
            worker_labels=self._options.worker_labels,
            usage=self._usage,
            memory=self._memory,
        )
        return self._last

    def _volume_accounts(self) -> VolumeAccounts:
        limits, attached = self._volumes.drivers.limits(), self._attachments.freeze()
        return VolumeAccounts(limits, attached, self._volumes.being_made(), self._attachments.contested)

    def _usage_is_no_news(self) -> bool:
        """Whether what queues used is as in the last snapshot, or concerns nobody."""
        before = self._last.usage if self._last is not None else NO_USAGE
        return not self._unsettled or before is self._usage or before.parts == self._usage.parts

    # Tasks

    def _held_jobs(self, now: float) -> frozenset[ObjectKey]:
        tasks = (self._tasks.get(pod) for pod in self._holds.held(now))
        return frozenset(task.group for task in tasks if task and task.group and task.status == TaskStatus.PENDING)

    def _renew_task(self, key: ObjectKey) -> None:
        pod, before = self._pods.get(key), self._tasks.get(key)
        self._set_task(key, before, self._task_of(key, pod, before) if pod is not None else None)

    def _look_again(self) -> None:
        """Renews the tasks of pods that may stand differently, if they do."""
        while self._dirty_pods or self._volumes.touched:
            if not self._dirty_pods:
                self._dirty_pods, self._volumes.touched = self._volumes.touched, set()
            key = self._dirty_pods.pop()
            pod, before = self._pods.get(key), self._tasks.get(key)
            task = self._task_of(key, pod, before) if pod is not None else None
            if not stand_alike(before, task):
                self._set_task(key, before, task)

    def _set_task(self, key: ObjectKey, before: Task | None, task: Task | None) -> None:
        """`before`: what the pod was until now."""
        if before is not None:
            self._forget_task(key, before)
        if task is not None:
            self._tasks[key] = task
            group = task.group
            if group is not None:
                self._members[group][key] = task
                self._dirty_jobs.add(group)
            if task.node:
                self._nodes.add(key, task)
            if task.status is TaskStatus.RELEASING:
                self._releasing.add(key)
        if (task is not None and task.storage is not NO_STORAGE) or (
            before is not None and before.storage is not NO_STORAGE
        ):
            self._attachments.replace(before, task)
        if (task is not None and task.devices is not None) or (before is not None and before.devices is not None):
            self._devices.follow(key, task)
        if (
            self._peers.selectors
            or (task is not None and task.pod_class.marks is not NO_MARKS)
            or (before is not None and before.pod_class.marks is not NO_MARKS)
        ):
            self._tallies.replace(before, task)
            self._dirty_pods.update(self._peers.follow(key, before, task))

    def _forget_task(self, key: ObjectKey, task: Task) -> None:
        del self._tasks[key]
        self._releasing.discard(key)
        if task.group is not None:
            members = self._members[task.group]
            del members[key]
            if not members:
                del self._members[task.group]
            self._dirty_jobs.add(task.group)
        self._nodes.remove(key, task)

    def _task_of(self, key: ObjectKey, pod: Pod, before: Task | None) -> Task | None:
        try:
            task = self._reader.read(key, pod, before)
        except UncountablePod as error:
            self._leave_out(key, pod, str(error))
            return None
        if self._left_out:
            self._left_out.pop(key, None)
        return task

    def _leave_out(self, key: ObjectKey, pod: Pod, problem: str) -> None:
        """The pod can't be counted; its job is told."""
        self._report(f"Pod {key}: {problem}; the pod is left out")
        group = pod.metadata.annotations.get(POD_GROUP_ANNOTATION)
        if group and pod.spec.schedulerName == self._options.scheduler_name:
            self._left_out[key] = LeftOut(ObjectKey(pod.metadata.namespace, group), f"pod {key}: {problem}")
            self._dirty_jobs.add(self._left_out[key].group)

    def _let_time_pass(self, now: float) -> None:
        """A pod that should long be gone stops promising its resources to others."""
        for key in list(self._releasing):
            task = self._tasks[key]
            gone_by = self._evictions.going_since(key) or time_or_zero(task.pod.metadata.deletionTimestamp)
            if now - gone_by > self._options.stuck_in_releasing_seconds:
                self._set_task(key, task, msgspec.structs.replace(task, status=TaskStatus.STUCK_IN_RELEASING))

    def _node_came_or_went(self, node: str) -> None:
        for pod in self._requests.judge_for_node(node):
            self._renew_task(pod)
        self._last = None
        if residents := self._nodes.on(node):
            self._dirty_jobs.update(task.group for task in residents if task.group)

    # Jobs and queues

    def _renew_jobs(self) -> None:
        if not self._dirty_jobs:
            return
        self._jobs = dict(self._jobs)  # the snapshot before keeps its own
        for key in self._dirty_jobs:
            before = self._jobs.pop(key, None)
            self._unsettled.discard(key)
            self._stale.discard(key)
            group = self._groups.get(key)
            if group is None or _gave_up(group, self._options.node_pool_label):
                self._uses.replace(key, before, None)
                continue
            group = self._notes.overlay(group)
            priority = self._priority_of(group.spec.priorityClassName or "")
            created = time_or_zero(group.metadata.creationTimestamp)
            problem = self._pod_problem(key) if self._left_out else None
            members = self._members.get(key, {}).values()
            job = build_job(key, group, members, priority=priority, created=created, pod_problem=problem)
            self._jobs[key] = job
            self._uses.replace(key, before, job)
            if job.strangers or job.problem or job.has_waiting or group.status.schedulingConditions:
                self._unsettled.add(key)
            if job.is_stale or job.history.stale_since is not None:
                self._stale.add(key)
        self._dirty_jobs.clear()

    def _pod_problem(self, group: ObjectKey) -> str | None:
        return min((each.problem for each in self._left_out.values() if each.group == group), default=None)

    def _priority_of(self, class_name: str) -> int:
        found = self._priorities.get(class_name)
        if found is None:
            found = min(
                (p for p in self._priorities.values() if p.globalDefault), key=lambda p: p.metadata.name, default=None
            )
        return found.value if found is not None else DEFAULT_WORK_PRIORITY


def _named(key: ObjectKey) -> ObjectMeta:
    return ObjectMeta(namespace=key.namespace, name=key.name)


def _what_counts(group: PodGroup) -> tuple[object, ...]:
    """What of a group can change a decision, or what is said of it; others write into its status all the time."""
    meta = group.metadata
    return (
        meta.uid,
        meta.generation,
        meta.creationTimestamp,
        meta.labels,
        meta.annotations,
        meta.deletionTimestamp,
        group.spec,
        group.status.schedulingConditions,
    )


def _gave_up(group: PodGroup, node_pool_label: str) -> bool:
    """Whether the group wants to be tried only once per node pool, and this one has been: somebody moves it on."""
    conditions = group.status.schedulingConditions
    if group.spec.schedulingBackoff in (None, NO_BACKOFF) or not conditions:
        return False
    newest = max(conditions, key=lambda condition: integer_or_none(condition.transitionID) or 0)
    return newest.nodePool == (group.metadata.labels.get(node_pool_label) or DEFAULT_NODE_POOL)
