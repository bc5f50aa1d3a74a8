"""TaskReader: a pod as a task: class, node, status, and what the pod refers to.

The live state calls it for every pod that is new or changed, and for pods that refer to something that changed. Rare
properties are looked up only where present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import POD_GROUP_ANNOTATION, SUBGROUP_LABEL, TASK_PRIORITY_LABEL
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity, integer_or_none
from bosket.api.shared_gpu import gpu_groups
from bosket.api.time import time_or_zero
from bosket.kube.volume import chosen_volumes
from bosket.scheduler.model.gpu_share import UnusableShare
from bosket.scheduler.model.numa import Record, needs_of
from bosket.scheduler.model.pod_affinity import AffinityTerms, PodSelector
from bosket.scheduler.model.resource import UncountableAmount
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.model.volume import NO_STORAGE, PodStorage
from bosket.scheduler.state.devices.claims import DeviceClaims
from bosket.scheduler.state.devices.numa_zones import NumaTopologies, record_of
from bosket.scheduler.state.own.bind_requests import BindRequests
from bosket.scheduler.state.own.evictions import Evictions
from bosket.scheduler.state.pod_classes import PodClasses
from bosket.scheduler.state.pod_selectors import PodSelectors
from bosket.scheduler.state.volumes.volumes import Volumes

# Module globals are far faster than lookups of Enum members, in code that runs for every pod.
PENDING, GATED, BINDING, BOUND = TaskStatus.PENDING, TaskStatus.GATED, TaskStatus.BINDING, TaskStatus.BOUND
RUNNING, RELEASING = TaskStatus.RUNNING, TaskStatus.RELEASING
#: By phase.
FINISHED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


class UncountablePod(ValueError):
    """A pod with a request that makes no sense."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the live state that a pod is looked up in."""

    requests: BindRequests
    evictions: Evictions
    pod_selectors: PodSelectors
    volumes: Volumes
    devices: DeviceClaims
    node_topologies: NumaTopologies


class TaskReader:
    """Builds tasks from pods."""

    def __init__(
        self, classes: PodClasses, around: Surroundings, scheduler_name: str, report: Callable[[str], None]
    ) -> None:
        self._classes, self._around, self._report = classes, around, report
        self._scheduler_name = scheduler_name
        self._latest_group = ObjectKey("", "")

    def read(self, key: ObjectKey, pod: Pod, before: Task | None) -> Task:
        """The pod's task; `before`: its task until now. Raises UncountablePod."""
        spec, metadata, around = pod.spec, pod.metadata, self._around
        labels, requests, pod_selectors = metadata.labels, around.requests, around.pod_selectors
        request = requests.live_for(key) if requests.known else None
        requested = request.spec.selectedNode if request is not None else None
        storage: PodStorage = NO_STORAGE
        if spec.volumes:
            given = (requested, chosen_volumes(request)) if request is not None and not spec.nodeName else ()
            storage = around.volumes.storage_of(key, pod, *given)
        devices, device_needs = None, None
        if (spec.resourceClaims or around.devices.by_resource) and around.devices.concern(spec):
            devices, device_needs = around.devices.of(key, pod, request)
        affinity_terms: AffinityTerms | None = None
        matched: Sequence[PodSelector] = ()
        if spec.affinity is not None or spec.topologySpreadConstraints or pod_selectors.in_use:
            affinity_terms, matched = pod_selectors.look_at(pod)
        has_zones = around.node_topologies.any
        try:
            numa = needs_of(pod) if has_zones else None
            pod_class = self._classes.of(
                pod, before, affinity_terms, matched, storage, numa=numa, device_needs=device_needs
            )
        except (InvalidQuantity, UncountableAmount) as error:
            raise UncountablePod(f"resources: {error}") from error
        except UnusableShare as error:
            raise UncountablePod(str(error)) from error
        going = around.evictions.is_going(pod) if around.evictions.assumed else False
        group = metadata.annotations.get(POD_GROUP_ANNOTATION) if spec.schedulerName == self._scheduler_name else None
        node = spec.nodeName or requested or ""
        groups: tuple[str, ...] = ()
        if pod_class.share is not None and node:  # from its bind request, or its labels
            groups = requests.gpu_groups_of(key) or gpu_groups(labels)
        return Task(
            key,
            pod,
            pod_class,
            _status_of(pod, requested, going),
            node=node,
            group=self._group_key(metadata.namespace, group) if group else None,
            subgroup=labels.get(SUBGROUP_LABEL, ""),
            created=time_or_zero(metadata.creationTimestamp),
            task_priority=integer_or_none(labels[TASK_PRIORITY_LABEL]) if TASK_PRIORITY_LABEL in labels else None,
            gpu_groups=groups,
            storage=storage,
            numa_record=self._numa_record(pod, request) if has_zones else (),
            devices=devices,
        )

    def _numa_record(self, pod: Pod, request: BindRequest | None) -> Record:
        zones = request.spec.predictedNUMAZones if request is not None else ()
        return record_of(pod, zones, self._report)

    def _group_key(self, namespace: str, name: str) -> ObjectKey:
        """The key of a pod group. Pods of a job arrive one after another, so they share one key object."""
        if self._latest_group != (namespace, name):
            self._latest_group = ObjectKey(namespace, name)
        return self._latest_group


def tasks_equal(before: Task | None, after: Task | None) -> bool:
    """Whether two tasks of the same pod are equal, so that nothing needs to be recomputed."""
    if before is None or after is None:
        return before is after
    if before.pod_class is not after.pod_class or before.numa_record != after.numa_record:
        return False
    return before.storage == after.storage and before.devices == after.devices


def _status_of(pod: Pod, requested: str | None, evicted: bool) -> TaskStatus:
    phase, spec = pod.status.phase, pod.spec
    if phase in FINISHED:
        return FINISHED[phase]
    if evicted or pod.metadata.deletionTimestamp is not None:
        return RELEASING
    if phase == "Running":
        return RUNNING
    if spec.nodeName:
        return RUNNING if phase == "Unknown" else BOUND  # on a node that doesn't answer the pod may still run
    if requested:
        return BINDING
    return GATED if spec.schedulingGates else PENDING
