"""ClusterState: the live state: Kubernetes objects in, snapshots out.

Fed from watch events by the scheduler's feed, and from lists by `replay` and tests; does no I/O and reads no clock. A
change of an object marks what depends on it as dirty (a job, a node, a queue); `snapshot()` recomputes only that and
shares everything else with the snapshot before, so its cost follows what changed. `_workload_handlers` and
`_capacity_handlers` list which part handles which kind. The scheduler's own decisions come in through `own`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Topology
from bosket.api.kai import Queue as QueueObject
from bosket.api.keys import DEFAULT_NODE_POOL
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.pod_mix import PodMix
from bosket.scheduler.model.resource import ResourceAxis
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.usage import NO_USAGE, Usage
from bosket.scheduler.model.verdict import VerdictMemory
from bosket.scheduler.model.volume import VolumeAccounts
from bosket.scheduler.state.access import Access, put_namespace
from bosket.scheduler.state.config_maps import ConfigMaps
from bosket.scheduler.state.devices.claims import DeviceClaims
from bosket.scheduler.state.devices.numa_zones import NumaTopologies
from bosket.scheduler.state.handlers import Journal, KindHandlers, by_key, by_name
from bosket.scheduler.state.invalidation import Dirty, Invalidation
from bosket.scheduler.state.jobs import Jobs
from bosket.scheduler.state.node_accounts import NodeAccounts
from bosket.scheduler.state.node_objects import NodeObjects
from bosket.scheduler.state.options import StateOptions
from bosket.scheduler.state.own.memory import Memory
from bosket.scheduler.state.own.preemption_history import PreemptionHistory
from bosket.scheduler.state.own_decisions import OwnDecisions
from bosket.scheduler.state.pod_classes import PodClasses
from bosket.scheduler.state.queue_objects import QueueObjects
from bosket.scheduler.state.run_times import RunTimeHistory
from bosket.scheduler.state.situation import Situation
from bosket.scheduler.state.tasks import Tasks
from bosket.scheduler.state.topologies import Topologies
from bosket.scheduler.state.volumes.volumes import Volumes

#: Jobs and nodes per slice of `warm_up`: a few milliseconds of work.
_JOBS_AT_ONCE = _NODES_AT_ONCE = 500


class ClusterState:
    """What the scheduler knows of the cluster, kept up to date object by object."""

    def __init__(
        self,
        options: StateOptions | None = None,
        report: Callable[[str], None] | None = None,
        journal: Journal | None = None,
    ) -> None:
        """`report` gets a sentence for each object that can't be read; changed objects are noted in the `journal`."""
        self._options = options = options or StateOptions()
        self._report = report = report or (lambda _: None)
        self._dirty = dirty = Dirty()
        self._axis = ResourceAxis()
        self._nodes = NodeAccounts(self._axis, options.scheduler_name)
        self._queues = QueueObjects(report, full_hierarchy=options.full_hierarchy_fairness)
        self._topologies = Topologies()
        self._zones = NumaTopologies(report)
        self._volumes = Volumes(dirty.pods, report)
        self._devices = DeviceClaims(self._axis, self._dirty.pods, report)
        self._config_maps = ConfigMaps(dirty)
        self._preemptions = PreemptionHistory()
        self._tasks = Tasks(
            options, classes=PodClasses(self._axis), nodes=self._nodes, volumes=self._volumes, devices=self._devices,
            zones=self._zones, dirty=dirty, report=report,
        )  # fmt: skip
        self._node_objects = NodeObjects(self._nodes, self._tasks, self._preemptions, options.worker_labels, report)
        self._jobs = Jobs(self._tasks, self._preemptions, dirty, options.node_pool_label, report)
        self.own = OwnDecisions(self._tasks, self._jobs, self._preemptions, dirty, journal)
        self._situation = Situation(
            self._nodes.nodes, self._queues.objects, self._jobs.priorities, self._topologies.objects
        )
        self._access = Access(
            self._queues.objects,
            self._jobs.priorities,
            self._tasks.pod_selectors.namespaces,
            enabled=options.access_control,
        )
        self._usage = NO_USAGE
        self.run_times = RunTimeHistory()
        # No references back to this object: without reference cycles a dropped state is freed at once, although the
        # garbage collector is kept off.
        after = Invalidation(dirty, self._preemptions, self._zones, self._tasks.pods)
        self._handlers = {**self._workload_handlers(after), **self._capacity_handlers(after)}
        if journal is not None:
            self._handlers = {kind: each.noted_in(journal, kind) for kind, each in self._handlers.items()}
        self._memory = VerdictMemory()
        self._last: Snapshot | None = None

    # Objects in

    def put(self, obj: KubeObject) -> None:
        """Takes in an object that is new or changed."""
        self.handlers(type(obj)).put(obj)

    def drop(self, obj: KubeObject) -> None:
        """Removes a deleted object. Most kinds are found by key; a bind request also by its uid."""
        self.handlers(type(obj)).drop(obj)

    def handlers(self, kind: type[KubeObject]) -> KindHandlers[Any]:
        """The handlers of a kind, for callers with many objects of it."""
        try:
            return self._handlers[kind]
        except KeyError:
            raise TypeError(f"the scheduler doesn't look at objects like {kind.__name__}") from None

    def put_usage(self, usage: Usage) -> None:
        """Sets the usage history of queues. While no job waits this makes no new snapshot."""
        self._usage = usage

    def pod_mix(self, now: float) -> PodMix:
        """The shapes of GPU pods seen so far."""
        return self._tasks.mixes.mix(now)

    def put_pod_mix(self, mix: PodMix, now: float) -> None:
        """Restores the mix that another state had learned at `now`."""
        self._tasks.mixes.restore(mix, now)
        self._dirty.other = True

    def forget_verdicts(self) -> None:
        """Drops remembered verdicts: under another configuration, plugins may answer differently."""
        self._memory = VerdictMemory()
        self._last = None

    def remember(self, decisions: Decisions, now: float) -> None:
        """Records decisions that bind later cycles: nominations, preemptions, passed-over jobs."""
        self.own.remember(decisions, now, self._axis.names, usage_based=bool(self._usage.parts))

    def memory(self, now: float) -> Memory:
        """What the next process must know of earlier decisions."""
        memory = self.own.memory(now, self._situation.digest)
        return msgspec.structs.replace(memory, run_times=self.run_times.entries())

    def restore(self, memory: Memory, now: float) -> tuple[Eviction, ...]:
        """Restores the memory of an earlier process, once all objects are in; returns its evictions that are still to
        be carried out."""
        self.run_times.restore(memory.run_times)
        self.own.restore(memory, now, self._situation.digest)
        return self.own.unfinished(memory, self.snapshot(now))

    def _workload_handlers(self, after: Invalidation) -> dict[type[KubeObject], KindHandlers[Any]]:
        """Handlers of the kinds that describe workloads: pods, pod groups, queues, priorities, budgets."""
        tasks, jobs, queues, budgets = self._tasks, self._jobs, self._queues, self._tasks.evictions
        return {
            Pod: by_key(tasks.put, tasks.drop, tasks.pods),
            BindRequest: KindHandlers(
                tasks.put_bind_request,
                tasks.drop_bind_request,
                tasks.requests.known.values,
                tasks.requests.known.get,
            ),
            PodDisruptionBudget: by_key(budgets.put_budget, budgets.drop_budget, budgets.budgets),
            Namespace: by_name(
                partial(put_namespace, tasks.pod_selectors, self._dirty),
                tasks.pod_selectors.drop_namespace,
                tasks.pod_selectors.namespaces,
                then=self._dirty.pods.update,
            ),
            PodGroup: KindHandlers(
                jobs.put_group,
                lambda group: jobs.drop_group(group.key),
                jobs.groups_with_notes,
                jobs.group_with_notes,
            ),
            PriorityClass: by_name(jobs.put_priority_class, jobs.drop_priority_class, jobs.priorities),
            QueueObject: by_name(queues.put, queues.drop, queues.objects, then=after.by_queue),
        }

    def _capacity_handlers(self, after: Invalidation) -> dict[type[KubeObject], KindHandlers[Any]]:
        """Handlers of the kinds that describe capacity: nodes, topologies, volumes, devices."""
        nodes = self._node_objects
        topologies, zones, config_maps = self._topologies, self._zones, self._config_maps
        volumes, drivers = self._volumes, self._volumes.drivers
        devices, pools = self._devices, self._devices.pools
        return {
            Node: by_name(nodes.put, nodes.drop, self._nodes.nodes),
            Topology: by_name(topologies.put, topologies.drop, topologies.objects, then=after.by_topology),
            NodeResourceTopology: by_name(zones.put, zones.drop, zones.objects, then=after.by_zones),
            PersistentVolumeClaim: by_key(volumes.put_claim, volumes.drop_claim, volumes.claims),
            PersistentVolume: by_name(volumes.put_volume, volumes.drop_volume, volumes.volumes),
            StorageClass: by_name(volumes.put_class, volumes.drop_class, volumes.classes),
            CSINode: by_name(volumes.put_csi_node, volumes.drop_csi_node, drivers.nodes),
            CSIDriver: by_name(volumes.put_csi_driver, volumes.drop_csi_driver, drivers.drivers),
            CSIStorageCapacity: by_key(volumes.put_capacity, volumes.drop_capacity, drivers.capacities),
            ResourceClaim: by_key(
                devices.put_claim,
                devices.drop_claim,
                devices.claims,
                then=self._dirty.pods.update,
            ),
            ResourceSlice: by_name(pools.put, pools.drop, pools.slices),
            DeviceClass: by_name(
                devices.put_class,
                devices.drop_class,
                devices.classes,
                then=after.by_device_class,
            ),
            DeviceTaintRule: by_name(pools.put_rule, pools.drop_rule, pools.rules),
            ConfigMap: by_key(config_maps.put, config_maps.drop, config_maps),
        }

    # Reading

    @property
    def usage(self) -> Usage:
        return self._usage

    def objects(self, kind: type[KubeObject]) -> tuple[KubeObject, ...]:
        """All objects of a kind as they were put in; including assumed bind requests, and pod groups with pending
        annotations."""
        return tuple(self.handlers(kind).objects())

    def find(self, kind: type[KubeObject], key: ObjectKey) -> KubeObject | None:
        """One of `objects`."""
        return self.handlers(kind).find(key)

    def group(self, key: ObjectKey) -> PodGroup | None:
        """The latest version of a pod group; the version in a job may be older if only the status differs."""
        return self._jobs.groups.get(key)

    def task(self, pod: ObjectKey) -> Task | None:
        """The pod as a task, as of now."""
        return self._tasks.get(pod)

    def unread(self) -> Iterator[tuple[type[KubeObject], ObjectKey]]:
        """Objects, by kind and key, that the last snapshot left out because they can't be read or make the scheduler
        raise. An object that was fixed or deleted is no longer among them."""
        parts: tuple[tuple[type[KubeObject], Iterable[ObjectKey]], ...] = (
            (Pod, self._tasks.unread),
            (PodGroup, self._jobs.unread),
            (QueueObject, self._queues.unread),
            (Node, self._node_objects.unread),
            (NodeResourceTopology, self._zones.unread),
            (PersistentVolume, self._volumes.unread),
            (CSIStorageCapacity, self._volumes.drivers.unread),
            (ResourceSlice, self._devices.pools.unread),
        )
        return ((kind, key) for kind, keys in parts for key in keys)

    # Snapshots out

    def snapshot(self, now: float) -> Snapshot:
        """The state at `now`. Returns the very same object while nothing changed but the time.

        The identity of the snapshot is how the loop sees that a cycle is unnecessary. Each part therefore returns its
        old object while nothing changed, and parts are compared with `is`.
        """
        tasks, jobs, own = self._tasks, self._jobs, self.own
        tasks.look_again()
        tasks.let_time_pass(now)  # after `look_again`: a rebuilt task doesn't know yet that its pod is stuck
        for node in self._devices.renew():
            self._nodes.put_device_gpus(node, self._devices.pools.gpus_on(node))
        jobs.renew()
        for ended in jobs.ended:
            self.run_times.ended(ended, now)
        jobs.ended.clear()
        backing_off, disruptions = tasks.jobs_backing_off(now), tasks.evictions.disruptions(now)
        nominations, preempted_by, passed_over = own.nominations(now), own.preempted_by(now), own.passed_over(now)
        reservations = own.reservations()
        last = self._last
        if last is not None and self._is_unchanged(last) and last.backing_off == backing_off:
            before = (last.disruptions, last.nominations, last.reservations, last.preempted_by, last.passed_over)
            if all(
                then is now
                for then, now in zip(
                    before, (disruptions, nominations, reservations, preempted_by, passed_over), strict=True
                )
            ):
                return last
        # if building raises, the last snapshot must not be returned: the dirty marks are already cleared
        self._last = None
        nodes = self._nodes.table()
        unsettled = jobs.unsettled()
        self._dirty.other = False
        self._last = Snapshot(
            now=now,
            resource_names=tuple(self._axis.names),
            nodes=nodes,
            residents=self._nodes.residents,
            queues=self._queues.tree(),
            jobs=jobs.known,
            unsettled=unsettled,
            stale=jobs.stale(),
            use=jobs.uses.count(nodes),
            backing_off=backing_off,
            denied=self._access.denied(unsettled),
            disruptions=disruptions,
            nominations=nominations,
            reservations=reservations,
            preempted_by=preempted_by,
            passed_over=passed_over,
            # Only requests of this shard: a node that is missing here may be a node of another shard.
            dead_bind_requests=tuple(filter(self._options.in_shard, tasks.requests.dead())),
            has_match_keys=tasks.match_counts.any,
            match_counts=tasks.match_counts.freeze(),
            terms=tasks.pod_selectors.terms(),
            volumes=self._volume_accounts(),
            topologies=self._topologies.arrange(nodes),
            numa=self._zones.freeze(),
            config_maps=self._config_maps.freeze(),
            inventory=self._devices.freeze(),
            node_pool=self._options.node_pool or DEFAULT_NODE_POOL,
            worker_labels=self._options.worker_labels,
            usage=self._usage,
            run_times=self.run_times.freeze(),
            pod_mix=tasks.mixes.mix(now),
            memory=self._memory,
        )
        return self._last

    def warm_up(self) -> Iterator[None]:
        """Does the work of the next snapshot in slices: after the first lists it is a lot. The caller lets other tasks
        run between the slices. Raises what `snapshot` would raise."""
        self._tasks.look_again()
        while self._jobs.renew(_JOBS_AT_ONCE):
            yield
        while self._nodes.count_ahead(_NODES_AT_ONCE):
            yield
        table = self._nodes.table()
        yield
        while self._jobs.uses.count_ahead(table, _JOBS_AT_ONCE):
            yield

    def _is_unchanged(self, last: Snapshot) -> bool:
        """Whether everything that a snapshot shows is as in the last one."""
        return (
            not self._dirty.other
            and last.jobs is self._jobs.known
            and self._queues.is_unchanged()
            and self._nodes.is_unchanged(last.nodes)
            and self._jobs.uses.is_unchanged(last.use)
            and self._devices.is_unchanged()
            and last.volumes.limits is self._volumes.drivers.limits()
            and self._usage_is_no_news(last.usage)
        )

    def _usage_is_no_news(self, before: Usage) -> bool:
        """Whether the usage history is as in the last snapshot, or no job waits for which it could matter."""
        return not self._jobs.any_unsettled() or before is self._usage or before.parts == self._usage.parts

    def _volume_accounts(self) -> VolumeAccounts:
        limits, attachments = self._volumes.drivers.limits(), self._tasks.attachments
        return VolumeAccounts(limits, attachments.freeze(), self._volumes.being_made(), attachments.contested)
