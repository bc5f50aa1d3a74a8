"""The live state: Kubernetes objects in, snapshots out.

Fed by the scheduler's cache from watch events, by `replay` and by tests from lists; it does no I/O and reads no clock.
A change of an object marks what depends on it as dirty (a job, a node, a queue); `snapshot()` recomputes only that and
shares everything else with the snapshot before, so that its cost follows what changed. The parts that it is made of
each look after some kinds; `_workload_handlers` and `_capacity_handlers` list them. What the scheduler itself decided
comes in by `own`.
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
from bosket.scheduler.state.handlers import KindHandlers, by_key, by_name
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

#: After so many jobs and nodes others may have a turn: a few milliseconds.
_JOBS_AT_ONCE = _NODES_AT_ONCE = 500


class ClusterState:
    """All that the scheduler knows of the cluster, kept up to date object by object."""

    def __init__(self, options: StateOptions | None = None, report: Callable[[str], None] | None = None) -> None:
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
        self.own = OwnDecisions(self._tasks, self._jobs, self._preemptions, dirty)
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
        # Without a way back to this object: a state that nobody needs goes at once, with all that it holds.
        after = Invalidation(dirty, self._preemptions, self._zones, self._tasks.pods)
        self._handlers = {**self._workload_handlers(after), **self._capacity_handlers(after)}
        self._memory = VerdictMemory()
        self._last: Snapshot | None = None

    # Objects in

    def put(self, obj: KubeObject) -> None:
        """Takes in an object that is new, or changed."""
        self.handlers(type(obj)).put(obj)

    def drop(self, obj: KubeObject) -> None:
        """An object is gone. Of most kinds its name is enough; a bind request is known by its uid, too."""
        self.handlers(type(obj)).drop(obj)

    def handlers(self, kind: type[KubeObject]) -> KindHandlers[Any]:
        """Where objects of the kind go; for those who have many of them."""
        try:
            return self._handlers[kind]
        except KeyError:
            raise TypeError(f"the scheduler doesn't look at objects like {kind.__name__}") from None

    def put_usage(self, usage: Usage) -> None:
        """What queues used in the past. While nothing waits it changes nothing, and is no reason for a new snapshot."""
        self._usage = usage

    def pod_mix(self, now: float) -> PodMix:
        """Which pods with GPUs it has seen."""
        return self._tasks.mixes.mix(now)

    def put_pod_mix(self, mix: PodMix, now: float) -> None:
        """What another state had learned at `now` from the pods that this one has seen, and from earlier ones."""
        self._tasks.mixes.restore(mix, now)
        self._dirty.other = True

    def forget_verdicts(self) -> None:
        """For another configuration: plugins may judge otherwise what they were asked before."""
        self._memory = VerdictMemory()
        self._last = None

    def remember(self, decisions: Decisions, now: float) -> None:
        """What was decided binds the next cycles: room that was made for jobs is theirs, and nobody takes it back."""
        self.own.remember(decisions, now, self._axis.names, usage_based=bool(self._usage.parts))

    def memory(self, now: float) -> Memory:
        """What the next process must know of what was decided."""
        memory = self.own.memory(now, self._situation.digest)
        return msgspec.structs.replace(memory, run_times=self.run_times.entries())

    def restore(self, memory: Memory, now: float) -> tuple[Eviction, ...]:
        """Takes over what an earlier process remembered, once all objects are in; evictions that it had decided, and
        that are still to be carried out."""
        self.run_times.restore(memory.run_times)
        self.own.restore(memory, now, self._situation.digest)
        return self.own.unfinished(memory, self.snapshot(now))

    def _workload_handlers(self, after: Invalidation) -> dict[type[KubeObject], KindHandlers[Any]]:
        """Of kinds that say what there is to do, and for whom."""
        tasks, jobs, queues, budgets = self._tasks, self._jobs, self._queues, self._tasks.evictions
        return {
            Pod: by_key(tasks.put, tasks.drop, tasks.pods.values),
            BindRequest: KindHandlers(tasks.put_bind_request, tasks.drop_bind_request, tasks.requests.known.values),
            PodDisruptionBudget: by_key(budgets.put_budget, budgets.drop_budget, budgets.budgets.values),
            Namespace: by_name(
                partial(put_namespace, tasks.pod_selectors, self._dirty),
                tasks.pod_selectors.drop_namespace,
                tasks.pod_selectors.namespaces.values,
                then=self._dirty.pods.update,
            ),
            PodGroup: by_key(jobs.put_group, jobs.drop_group, jobs.groups_with_notes),
            PriorityClass: by_name(jobs.put_priority_class, jobs.drop_priority_class, jobs.priorities.values),
            QueueObject: by_name(queues.put, queues.drop, queues.objects.values, then=after.by_queue),
        }

    def _capacity_handlers(self, after: Invalidation) -> dict[type[KubeObject], KindHandlers[Any]]:
        """Of kinds that say what there is to do it with."""
        nodes = self._node_objects
        topologies, zones, config_maps = self._topologies, self._zones, self._config_maps
        volumes, drivers = self._volumes, self._volumes.drivers
        devices, pools = self._devices, self._devices.pools
        return {
            Node: by_name(nodes.put, nodes.drop, self._nodes.nodes.values),
            Topology: by_name(topologies.put, topologies.drop, topologies.objects.values, then=after.by_topology),
            NodeResourceTopology: by_name(zones.put, zones.drop, zones.objects.values, then=after.by_zones),
            PersistentVolumeClaim: by_key(volumes.put_claim, volumes.drop_claim, volumes.claims.values),
            PersistentVolume: by_name(volumes.put_volume, volumes.drop_volume, volumes.volumes.values),
            StorageClass: by_name(volumes.put_class, volumes.drop_class, volumes.classes.values),
            CSINode: by_name(volumes.put_csi_node, volumes.drop_csi_node, drivers.nodes.values),
            CSIDriver: by_name(volumes.put_csi_driver, volumes.drop_csi_driver, drivers.drivers.values),
            CSIStorageCapacity: by_key(volumes.put_capacity, volumes.drop_capacity, drivers.capacities.values),
            ResourceClaim: by_key(
                devices.put_claim,
                devices.drop_claim,
                devices.claims.values,
                then=self._dirty.pods.update,
            ),
            ResourceSlice: by_name(pools.put, pools.drop, pools.slices.values),
            DeviceClass: by_name(
                devices.put_class,
                devices.drop_class,
                devices.classes.values,
                then=after.by_device_class,
            ),
            DeviceTaintRule: by_name(pools.put_rule, pools.drop_rule, pools.rules.values),
            ConfigMap: by_key(config_maps.put, config_maps.drop, config_maps.objects),
        }

    # What came in goes out again

    @property
    def usage(self) -> Usage:
        return self._usage

    def objects(self, kind: type[KubeObject]) -> tuple[KubeObject, ...]:
        """All that is known of a kind, as it was put in; of bind requests also those that are only assumed, of pod
        groups with the notes about them."""
        return tuple(self.handlers(kind).objects())

    def group(self, key: ObjectKey) -> PodGroup | None:
        """The group as it was last seen; a job's own may be older where only its status differs."""
        return self._jobs.groups.get(key)

    def task(self, pod: ObjectKey) -> Task | None:
        """The pod as a task, as it is now."""
        return self._tasks.get(pod)

    def unread(self) -> Iterator[tuple[type[KubeObject], ObjectKey]]:
        """Objects, by kind and key, that the last snapshot does without, because they can't be read or because the
        scheduler fails with them. An object that was fixed or deleted is no longer among them."""
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
        """The state at `now`. The very same snapshot is returned while nothing changed but the time."""
        tasks, jobs, own = self._tasks, self._jobs, self.own
        tasks.look_again()
        tasks.let_time_pass(now)  # after that: a task that is made anew doesn't know yet that its pod is stuck
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
        self._last = None  # where making the next one fails, the one before is no answer: what changed is forgotten
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
            # The scheduler of another shard looks after its own: nodes that aren't here may be there.
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

    def settling(self) -> Iterator[None]:
        """Does beforehand, bit by bit, what the next snapshot would do at once: after the first lists that is a lot.
        Whoever goes through it may let others have a turn each time. Raises what `snapshot` would."""
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
        """Whether all objects are what they were in the last snapshot, as far as anybody looks at them."""
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
        """Whether what queues used is as in the last snapshot, or concerns nobody."""
        return not self._jobs.any_unsettled() or before is self._usage or before.parts == self._usage.parts

    def _volume_accounts(self) -> VolumeAccounts:
        limits, attachments = self._volumes.drivers.limits(), self._tasks.attachments
        return VolumeAccounts(limits, attachments.freeze(), self._volumes.being_made(), attachments.contested)
