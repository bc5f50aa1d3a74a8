"""Snapshot: everything that `decide` may read, as of one moment. Immutable."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bosket.api.kai import BindRequest
from bosket.api.keys import CPU_WORKER_LABEL, DEFAULT_NODE_POOL, GPU_WORKER_LABEL
from bosket.api.object import ObjectKey
from bosket.scheduler.model.budgets import Disruptions
from bosket.scheduler.model.inventory import NO_INVENTORY, Inventory
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.mig_node import mig_strategies
from bosket.scheduler.model.node import Mask, NodeTable, taking
from bosket.scheduler.model.nomination import Nomination
from bosket.scheduler.model.numa import NumaZones
from bosket.scheduler.model.pod_affinity import AffinityTerm, MatchKey, PodSelector
from bosket.scheduler.model.pod_mix import NO_MIX, PodMix
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.run_times import NO_RUN_TIMES, RunTimes
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.model.usage import NO_USAGE, Usage
from bosket.scheduler.model.verdict import VerdictMemory
from bosket.scheduler.model.volume import NO_VOLUME_ACCOUNTS, VolumeAccounts

PreemptedBy = Mapping[ObjectKey, frozenset[ObjectKey]]  #: job → jobs that preempted it


@dataclass(frozen=True, slots=True, eq=False)
class QueueUse:
    """What the jobs of one queue hold and request."""

    allocated: QueueAmounts
    non_preemptible: QueueAmounts
    requested: QueueAmounts  #: allocated, and what pending tasks ask for


@dataclass(frozen=True, slots=True)
class WorkerLabels:
    """Node labels that say which pods a node is for."""

    gpu: str = GPU_WORKER_LABEL
    cpu: str = CPU_WORKER_LABEL


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster at `now` (epoch seconds)."""

    now: float
    resource_names: tuple[str, ...]
    nodes: NodeTable
    #: by node name: all pods that hold resources there, of whichever scheduler, in order of their keys
    residents: Mapping[str, tuple[Task, ...]]
    queues: QueueTree
    jobs: Mapping[ObjectKey, Job]
    #: jobs with pending tasks, or that need a report
    unsettled: tuple[Job, ...]
    #: jobs below their minimum, and jobs with the stale annotation
    stale: tuple[Job, ...]
    use: Mapping[str, QueueUse]  #: by queue name, of the queue's own jobs only
    backing_off: frozenset[ObjectKey] = frozenset()  #: jobs that back off because a bind of one of their pods failed
    denied: Mapping[ObjectKey, str] = field(default_factory=dict)  #: jobs that may not use their queue, with the reason
    disruptions: Disruptions = field(default_factory=Disruptions)  #: what disruption budgets allow
    nominations: tuple[Nomination, ...] = ()  #: nodes that earlier cycles freed for jobs, the oldest first
    reservations: tuple[Reservation, ...] = ()  #: nodes held for jobs that start later, in the order of their rights
    preempted_by: PreemptedBy = field(default_factory=dict)  #: by which jobs a job was preempted in recent cycles
    #: gangs that got nothing in a recent cycle though it was held open for them, or that KAI's estimates refused:
    #: `CycleOutcome.ignores_estimates` says so, and what really fits decides for them
    passed_over: frozenset[ObjectKey] = frozenset()
    #: bind requests that nobody will carry out: failed for good, or for a node that is gone
    dead_bind_requests: tuple[BindRequest, ...] = ()
    has_match_keys: bool = False  #: whether any pod leaves match keys; the next two are empty without
    #: by match key: on which nodes, by name, how many pods with it are
    match_counts: Mapping[MatchKey, Mapping[str, int]] = field(default_factory=dict)
    #: by selector: the terms with it that pods carry which are on a node, or may be placed
    terms: Mapping[PodSelector, tuple[AffinityTerm, ...]] = field(default_factory=dict)
    volumes: VolumeAccounts = NO_VOLUME_ACCOUNTS
    topologies: Mapping[str, TopologyTree] = field(default_factory=dict)  #: by name
    numa: Mapping[str, NumaZones] = field(default_factory=dict)  #: by node, where nodes tell about their zones
    config_maps: Container[ObjectKey] = ()  #: those that exist
    inventory: Inventory = NO_INVENTORY  #: devices, and claims on them
    node_pool: str = DEFAULT_NODE_POOL  #: the name of this scheduler's nodes in messages
    worker_labels: WorkerLabels | None = None  #: set where nodes are kept apart by what they are for
    run_times: RunTimes = NO_RUN_TIMES  #: how long jobs ran that have ended
    usage: Usage = NO_USAGE  #: what queues used in the past
    pod_mix: PodMix = NO_MIX  #: which pods with GPUs the cluster sees
    #: verdicts of pure functions, kept between snapshots
    memory: VerdictMemory = field(default_factory=VerdictMemory)

    def refusals(self) -> tuple[str | None, ...]:
        """(node,), why it takes no pods at all; None where it does."""
        return self.memory.recall(self.nodes.static_version, "refusals", None, self.nodes.refusals)

    def taking_nodes(self) -> Mask:
        """(node,), whether it takes pods, by its own account."""
        return self.memory.recall(self.nodes.static_version, "taking", None, lambda: taking(self.refusals()))

    def mig_strategies(self) -> NDArray[np.int8]:
        """(node,), each a MigStrategy."""
        nodes, names = self.nodes, self.resource_names
        return self.memory.recall(
            nodes.static_version, "MIG strategies", None, lambda: mig_strategies(nodes.nodes, names)
        )
