"""PodCliqueSets for tests, as admission would have completed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bosket.api.core import Container, PodSpec
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


def clique(
    name: str,
    replicas: int = 1,
    minimum: int | None = None,
    *,
    after: Sequence[str] = (),
    image: str = "app:1",
    **template: Any,
) -> PodCliqueTemplateSpec:
    pod_spec = PodSpec(containers=(Container(name="main", image=image),), restartPolicy="Always")
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
