"""PodMix: which shapes of GPU pods a cluster sees, and how often; "fragmented" is measured by it.

A free part of a GPU is fragmented for a shape of pods that can't use it. The mix is learned by `state.pod_mixes` or
given by an argument of the plugin `nodeplacement`; snapshots and snapshot files carry it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from bosket.api.core import Node, NodeSelector, Toleration
from bosket.kube.node_selector import NodeTest, node_test
from bosket.kube.taint import tolerates
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.resource import CPU, GPU, MEMORY
from bosket.scheduler.model.task import Mig, PodClass

#: As many shapes, the most frequent ones, are judged by. On the openb trace, with 151 shapes, all of them get 0.1
#: percent points more of all GPUs allocated than 40, and 32 get 0.2 less.
MOST_SHAPES: Final = 40
_GIB: Final = 2**30


class PodShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """What GPU pods ask of a node. Pods without GPUs have no shape: no GPU is fragmented for them."""

    cpu: float = 0.0  #: millicores
    memory: float = 0.0  #: bytes
    gpus: float = 0.0  #: whole ones
    share: GpuShare | None = None  #: of GPUs that they share; then there are no whole ones
    node_selector: tuple[tuple[str, str], ...] = ()
    required_nodes: NodeSelector | None = None  #: by node affinity
    tolerations: tuple[Toleration, ...] = ()

    @property
    def nodes_wanted(self) -> Hashable:
        """Equal for shapes that may use the same nodes."""
        tolerations = msgspec.json.encode(self.tolerations) if self.tolerations else b""
        return self.node_selector, self.required_nodes, tolerations

    @property
    def key(self) -> Hashable:
        """Equal for equal shapes."""
        return self.cpu, self.memory, self.gpus, self.share, self.nodes_wanted

    def node_test(self) -> NodeTest:
        """A test of nodes: whether selectors, affinity and taints allow such pods."""
        required = node_test(self.required_nodes) if self.required_nodes is not None else None

        def test(node: Node) -> bool:
            labels = node.metadata.labels
            if any(labels.get(key) != value for key, value in self.node_selector):
                return False
            if required is not None and not required(node):
                return False
            return all(
                taint.effect == "PreferNoSchedule" or any(tolerates(each, taint) for each in self.tolerations)
                for taint in node.spec.taints
            )

        return test

    def __str__(self) -> str:
        """For people, and as the label of a metric."""
        parts = [self._gpus()]
        parts += [f"{self.cpu / 1000:.6g} CPU"] if self.cpu else []
        parts += [f"{self.memory / _GIB:.6g} GiB"] if self.memory else []
        parts += [f"{key}={value}" for key, value in self.node_selector]
        parts += ["node affinity"] if self.required_nodes is not None else []
        return ", ".join(parts)

    def _gpus(self) -> str:
        if self.share is None:
            return f"{self.gpus:g} GPU"
        of = f"{self.share.memory_mib} MiB" if self.share.memory_mib else f"{self.share.portion:g}"
        return f"{self.share.devices} × {of} GPU" if self.share.devices > 1 else f"{of} GPU"


class PodMix(msgspec.Struct, frozen=True):
    """Shapes, the most frequent first, each with its part of all pods; the parts sum to 1."""

    shapes: tuple[PodShape, ...] = ()
    parts: tuple[float, ...] = ()

    @classmethod
    def of(cls, weighted: list[tuple[PodShape, float]]) -> PodMix:
        """The most frequent of these shapes; of equally frequent ones the largest."""
        chosen = sorted((each for each in weighted if each[1] > 0), key=_rank, reverse=True)[:MOST_SHAPES]
        total = sum(weight for _, weight in chosen)
        return cls(tuple(shape for shape, _ in chosen), tuple(weight / total for _, weight in chosen))


NO_MIX: Final = PodMix()


def _rank(weighted: tuple[PodShape, float]) -> tuple[float, float, float, float]:
    shape, weight = weighted
    return weight, shape.gpus, shape.cpu, shape.memory


def shape_of(pod_class: PodClass) -> PodShape | None:
    """The shape of a class's pods; None for those that ask for no GPU that nodes count: no GPU at all, an instance of
    a partitioned one, or one by a resource claim."""
    gpus = pod_class.amounts[GPU]
    if pod_class.mig is not Mig.NONE or (gpus <= 0 and pod_class.share is None):
        return None
    return PodShape(
        cpu=pod_class.amounts[CPU],
        memory=pod_class.amounts[MEMORY],
        gpus=gpus,
        share=pod_class.share,
        node_selector=tuple(sorted(pod_class.node_selector.items())),
        required_nodes=pod_class.required_nodes,
        tolerations=pod_class.tolerations,
    )
