"""PodFitness: pods that fit no node: missing claims and ConfigMaps, requests larger than every node.

All objections are reported at once, each under the name that KAI's users know.
"""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.core import Container, EphemeralContainer, Pod, Volume
from bosket.api.keys import SHARED_GPU_CONFIG_MAP_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import ClassIndex, PodClass, Task
from bosket.scheduler.plugins.match_ledger import MatchLedger
from bosket.scheduler.plugins.predicates.node_size import NodeSizes

#: The objections to one pod begin so; a line for each check follows.
UNMET = "Scheduling conditions were not met"
CLAIM_IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


class PodFitness:
    """A task check. Classes without possible objections are checked once."""

    def __init__(self, session: Session, ledger: MatchLedger | None) -> None:
        """`ledger`: None where no pod has a match key."""
        self._ledger = ledger
        self._config_maps = session.snapshot.config_maps
        self._sizes = NodeSizes(session.snapshot)
        self._fine: set[ClassIndex] = set()

    def __call__(self, task: Task) -> str | None:
        pod_class = task.pod_class
        if pod_class.index in self._fine:
            return None
        exclusive = [match_key for match_key in pod_class.match_keys.lasting if isinstance(match_key, ObjectKey)]
        too_large = self._sizes.objection(task)
        if not (exclusive or too_large or pod_class.refers):  # a pod with claims refers to other objects
            self._fine.add(pod_class.index)
            return None
        objections = {
            "VolumeBinding": task.storage.problem,
            "VolumeRestrictions": self._in_use(exclusive),
            "MaxNodePoolResources": too_large,
            "ConfigMap": self._missing(task, pod_class),
        }
        lines = "".join(f"{name}: {text}.\n" for name, text in objections.items() if text)
        return f"{UNMET} for pod {task.key}:\n{lines}" if lines else None

    def _in_use(self, claims: list[ObjectKey]) -> str:
        ledger = self._ledger
        return CLAIM_IN_USE if ledger is not None and any(ledger.match_count(claim).total for claim in claims) else ""

    def _missing(self, task: Task, pod_class: PodClass) -> str:
        if not pod_class.refers:
            return ""
        namespace = task.key.namespace
        names = sorted(required_config_maps(task.pod))
        missing = [name for name in names if ObjectKey(namespace, name) not in self._config_maps]
        return f"Missing required configmaps: [{' '.join(missing)}]" if missing else ""


def required_config_maps(pod: Pod) -> set[str]:
    """Names of ConfigMaps in environments and mounted volumes; without those that are made when the pod is bound."""
    spec = pod.spec
    containers: tuple[Container | EphemeralContainer, ...] = (
        *spec.initContainers,
        *spec.containers,
        *spec.ephemeralContainers,
    )
    names = {name for container in containers for name in _in_environment(container)}
    if spec.volumes:
        mounted = {mount.name for container in containers for mount in container.volumeMounts}
        names |= {name for volume in spec.volumes if volume.name in mounted for name in _in_volume(volume)}
    shared_gpu = pod.metadata.annotations.get(SHARED_GPU_CONFIG_MAP_ANNOTATION)
    return names if shared_gpu is None else {name for name in names if not name.startswith(shared_gpu)}


def _in_environment(container: Container | EphemeralContainer) -> Iterator[str]:
    for variable in container.env:
        source = variable.valueFrom.configMapKeyRef if variable.valueFrom else None
        if source is not None and not source.optional:
            yield source.name
    for many in container.envFrom:
        if many.configMapRef is not None and not many.configMapRef.optional:
            yield many.configMapRef.name


def _in_volume(volume: Volume) -> Iterator[str]:
    if volume.configMap is not None and not volume.configMap.optional:
        yield volume.configMap.name
    if volume.projected is not None:
        for source in volume.projected.sources or ():
            if source.configMap is not None and not source.configMap.optional:
                yield source.configMap.name
