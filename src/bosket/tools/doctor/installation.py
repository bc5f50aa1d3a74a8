"""The installation by Config and shards: names and labels that all checks use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from bosket.api import keys
from bosket.api.core import Node, Pod
from bosket.api.kai import CONFIG_NAME, Config, ConfigSpec, Queue, SchedulingShard, SchedulingShardSpec
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.pod_phase import has_ended
from bosket.tools.doctor.bundle import Bundle


@dataclass(frozen=True)
class Installation:
    """A bundle, and the names that hold in it."""

    bundle: Bundle

    @cached_property
    def config(self) -> Config | None:
        """The one that counts."""
        return next((each for each in self.bundle.of(Config) if each.metadata.name == CONFIG_NAME), None)

    @property
    def spec(self) -> ConfigSpec:
        return self.config.spec if self.config is not None else ConfigSpec()

    @property
    def namespace(self) -> str:
        return self.spec.namespace or keys.SYSTEM_NAMESPACE

    @property
    def scheduler_name(self) -> str:
        section = self.spec.global_
        return (section.schedulerName if section else None) or keys.SCHEDULER_NAME

    @property
    def queue_label(self) -> str:
        section = self.spec.global_
        return (section.queueLabelKey if section else None) or keys.QUEUE_LABEL

    @property
    def pool_label(self) -> str:
        section = self.spec.global_
        return (section.nodePoolLabelKey if section else None) or keys.NODE_POOL_LABEL

    @property
    def reservation_namespace(self) -> str:
        section = self.spec.binder.resourceReservation if self.spec.binder else None
        return (section.namespace if section else None) or keys.RESERVATION_NAMESPACE

    @property
    def reservation_account(self) -> str:
        section = self.spec.binder.resourceReservation if self.spec.binder else None
        return (section.serviceAccountName if section else None) or keys.RESERVATION_SERVICE_ACCOUNT

    @property
    def reservation_app(self) -> str:
        section = self.spec.binder.resourceReservation if self.spec.binder else None
        return (section.appLabel if section else None) or keys.RESERVATION_APP

    @property
    def scale_namespace(self) -> str:
        section = self.spec.nodeScaleAdjuster.args if self.spec.nodeScaleAdjuster else None
        return (section.nodeScaleNamespace if section else None) or keys.SCALE_ADJUST_NAMESPACE

    @cached_property
    def shards(self) -> tuple[SchedulingShard, ...]:
        """Those that there are; where nobody made one, the scheduler that sees what has no label."""
        default = SchedulingShard(metadata=ObjectMeta(name="default"), spec=SchedulingShardSpec())
        return self.bundle.of(SchedulingShard) or (default,)

    @cached_property
    def pools(self) -> frozenset[str]:
        """Values of the node pool label that some scheduler looks after."""
        return frozenset(shard.spec.partitionLabelValue for shard in self.shards)

    def pool_of(self, obj: KubeObject) -> str:
        """The value of an object's node pool label; empty where it has none."""
        return obj.metadata.labels.get(self.pool_label, "")

    @cached_property
    def queues(self) -> Mapping[str, Queue]:
        return {queue.metadata.name: queue for queue in self.bundle.of(Queue)}

    @cached_property
    def children(self) -> Mapping[str, list[Queue]]:
        """The queues right below each that has some."""
        below: dict[str, list[Queue]] = {}
        for queue in self.queues.values():
            if queue.spec.parentQueue:
                below.setdefault(queue.spec.parentQueue, []).append(queue)
        return below

    def lineage(self, queue: str) -> list[Queue]:
        """A queue and those above it, as far as they are there; each once."""
        path: list[Queue] = []
        while (found := self.queues.get(queue)) is not None and found not in path:
            path.append(found)
            queue = found.spec.parentQueue
        return path

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.metadata.name: node for node in self.bundle.of(Node)}

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """Pods that are for our scheduler and haven't ended."""
        return tuple(
            pod for pod in self.bundle.of(Pod) if pod.spec.schedulerName == self.scheduler_name and not has_ended(pod)
        )
