"""PodCliqueSets for tests, as admission would have completed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bosket.api.core import Container, PodSpec, ResourceRequirements
from bosket.api.grove import (
    PodCliqueScalingGroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplateSpec,
    PodCliqueSetUpdateStrategy,
    PodCliqueSpec,
    PodCliqueTemplateSpec,
)
from bosket.api.object import ObjectMeta

NAMESPACE = "ml"
QUEUE = "test"


def clique(
    name: str,
    replicas: int = 1,
    minimum: int | None = None,
    *,
    after: Sequence[str] = (),
    image: str = "app:1",
    memory: str = "",
    gpus: int = 0,
    scheduler: str = "",
    **template: Any,
) -> PodCliqueTemplateSpec:
    resources = ResourceRequirements(
        requests={"memory": memory} if memory else {}, limits={"nvidia.com/gpu": str(gpus)} if gpus else {}
    )
    pod_spec = PodSpec(
        containers=(Container(name="main", image=image, resources=resources),),
        restartPolicy="Always",
        schedulerName=scheduler,
    )
    spec = PodCliqueSpec(
        roleName=f"{name}-role",
        podSpec=pod_spec,
        replicas=replicas,
        minAvailable=replicas if minimum is None else minimum,
        startsAfter=tuple(after),
    )
    return PodCliqueTemplateSpec(name=name, spec=spec, **template)


def group(name: str, *cliques: str, replicas: int = 1, minimum: int = 1, **config: Any) -> PodCliqueScalingGroupConfig:
    return PodCliqueScalingGroupConfig(
        name=name, cliqueNames=cliques, replicas=replicas, minAvailable=minimum, **config
    )


def clique_set(
    name: str,
    *cliques: PodCliqueTemplateSpec,
    groups: Sequence[PodCliqueScalingGroupConfig] = (),
    replicas: int = 1,
    on_delete: bool = False,
    delay: str = "4h0m0s",
    **template: Any,
) -> PodCliqueSet:
    return PodCliqueSet(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=f"uid-{name}"),
        spec=PodCliqueSetSpec(
            replicas=replicas,
            updateStrategy=PodCliqueSetUpdateStrategy(type="OnDelete") if on_delete else None,
            template=PodCliqueSetTemplateSpec(
                cliques=cliques, podCliqueScalingGroups=tuple(groups), terminationDelay=delay, **template
            ),
        ),
    )


def workload(
    name: str,
    *,
    minima: tuple[int, int, int],
    group_minimum: int,
    order: str = "",
    after: dict[str, Sequence[str]] | None = None,
    **options: Any,
) -> PodCliqueSet:
    """Grove's test workload: two pods of pc-a, and a group sg-x, twice, of one pc-b and three pc-c; one pod a node.

    `minima` are those of the cliques.
    """
    names = (("pc-a", 2), ("pc-b", 1), ("pc-c", 3))
    cliques = [
        clique(
            each,
            count,
            minimum,
            after=(after or {}).get(each, ()),
            memory="80Mi",
            scheduler="kai-scheduler",
            labels={"kai.scheduler/queue": QUEUE},
        )
        for (each, count), minimum in zip(names, minima, strict=True)
    ]
    if order:
        options["cliqueStartupType"] = order
    groups = [group("sg-x", "pc-b", "pc-c", replicas=2, minimum=group_minimum)]
    return clique_set(name, *cliques, groups=groups, **options)


def workload1(**options: Any) -> PodCliqueSet:
    """All of it is one gang."""
    return workload("workload1", minima=(2, 1, 3), group_minimum=2, **options)


def workload2(**options: Any) -> PodCliqueSet:
    """Of each clique one pod is enough, and of the group one replica."""
    return workload("workload2", minima=(1, 1, 1), group_minimum=1, **options)
