"""PodCliqueSets for `benchmarks grove`: so many pods in one shape or another, complete as admission would make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bosket.api.core import Container, PodSpec, ResourceRequirements
from bosket.api.grove import (
    PodCliqueScalingGroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplateSpec,
    PodCliqueSpec,
    PodCliqueTemplateSpec,
)
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import ObjectMeta


def inference(pods: int) -> list[PodCliqueSet]:
    """Replicas of four routers and of a leader with seven workers, twice: a base gang and a scaled gang each."""
    model = PodCliqueScalingGroupConfig(name="model", cliqueNames=("leader", "worker"), replicas=2, minAvailable=1)
    cliques = (_clique("router", 4, 1), _clique("leader", 1, 1), _clique("worker", 7, 7))
    return [_set("inference", pods // 20, *cliques, groups=(model,))]


def pairs(pods: int) -> list[PodCliqueSet]:
    """One set with a replica for every two pods, as in Grove's own scale tests."""
    return [_set("pairs", pods // 2, _clique("worker", 2, 2))]


def clique(pods: int) -> list[PodCliqueSet]:
    """One PodClique of all pods, of which one is enough."""
    return [_set("large", 1, _clique("worker", pods, 1))]


def sets(pods: int) -> list[PodCliqueSet]:
    """Many sets of five pods."""
    return [_set(f"small-{number:04}", 1, _clique("a", 2, 2), _clique("b", 3, 1)) for number in range(pods // 5)]


SHAPES: Mapping[str, Callable[[int], list[PodCliqueSet]]] = {
    each.__name__: each for each in (inference, pairs, clique, sets)
}


def _set(
    name: str, replicas: int, *cliques: PodCliqueTemplateSpec, groups: tuple[PodCliqueScalingGroupConfig, ...] = ()
) -> PodCliqueSet:
    template = PodCliqueSetTemplateSpec(cliques=cliques, podCliqueScalingGroups=groups, terminationDelay="4h0m0s")
    meta = ObjectMeta(name=name, namespace="default")
    return PodCliqueSet(metadata=meta, spec=PodCliqueSetSpec(replicas=replicas, template=template))


def _clique(name: str, replicas: int, minimum: int) -> PodCliqueTemplateSpec:
    resources = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    pod_spec = PodSpec(
        schedulerName=SCHEDULER_NAME,
        restartPolicy="Always",
        containers=(Container(name="main", image="example.com/work", resources=resources),),
    )
    spec = PodCliqueSpec(roleName=name, podSpec=pod_spec, replicas=replicas, minAvailable=minimum)
    return PodCliqueTemplateSpec(name=name, labels={"kai.scheduler/queue": "default-queue"}, spec=spec)
