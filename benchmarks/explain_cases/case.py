"""A labelled job in its cluster, and what such cases are drawn with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bosket.api.core import (
    Pod,
)
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import (
    job,
    node,
    queue,
)
from bosket.testing.cluster import NOW, state_of

NEVER, NOT_NOW = "never", "not-now"


LABEL = "example.com/pool"


RACK = "example.com/rack"


KEY = ObjectKey("ml", "asked")


Objects = list[KubeObject]


@dataclass(frozen=True)
class Case:
    """One cluster, with one job that a question is put about."""

    label: str
    seed: int
    objects: Objects
    verdict: str
    codes: frozenset[str]  #: any of them names the reason
    tiers: frozenset[str]
    key: ObjectKey = KEY

    @property
    def name(self) -> str:
        return f"{self.label}-{self.seed}"

    def recording(self) -> bytes:
        """The cluster as a snapshot file."""
        return zipped(take(state_of(self.objects), StateOptions(), Configuration(), NOW))


@dataclass(frozen=True)
class Made:
    """What a builder makes, and what is right for it."""

    objects: Objects
    verdict: str
    codes: frozenset[str]
    tiers: frozenset[str]


@dataclass
class Draw:
    """Sizes of one case."""

    rng: random.Random
    gpus: int = field(init=False)  #: of each node
    nodes: int = field(init=False)

    def __post_init__(self) -> None:
        self.gpus, self.nodes = self.rng.choice((4, 8)), self.rng.randint(2, 6)

    def machines(self, **labels: str) -> list[KubeObject]:
        return [node(f"node-{number}", gpus=self.gpus, labels=labels) for number in range(self.nodes)]

    def asked(self, size: int = 1, **fields: object) -> Objects:
        """The job in question; the youngest of all."""
        return job(KEY.name, size, namespace=KEY.namespace, created=NOW - 60, **fields)  # type: ignore[arg-type]

    def filled(self, free: int = 0, *, queue: str = "others", **fields: Any) -> Objects:
        """Jobs that can't be preempted on all nodes, which leave so many GPUs free on each."""
        fields = {"preemptibility": "non-preemptible", "created": NOW - 7200, **fields}
        objects: Objects = []
        for number in range(self.nodes):
            left, part = self.gpus - free, 0
            while left > 0:
                size = min(left, self.rng.choice((1, 2, 4)))
                objects += job(
                    f"busy-{number}-{part}", gpus=size, on=f"node-{number}", queue=queue, namespace="others", **fields
                )
                left, part = left - size, part + 1
        return objects


def made(
    verdict: str, codes: str | Iterable[str], tiers: str | Iterable[str], *parts: KubeObject | Iterable[KubeObject]
) -> Made:
    objects: Objects = []
    for part in parts:
        objects += [part] if isinstance(part, KubeObject) else part
    return Made(objects, verdict, _any(codes), _any(tiers))


def _any(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset([names] if isinstance(names, str) else names)


def two_queues() -> Objects:
    return [queue("q"), queue("others")]


def with_labels(obj: KubeObject, labels: Mapping[str, str]) -> ObjectMeta:
    return msgspec.structs.replace(obj.metadata, labels={**obj.metadata.labels, **labels})


def labelled(obj: KubeObject, labels: Mapping[str, str]) -> KubeObject:
    return msgspec.structs.replace(obj, metadata=with_labels(obj, labels))


def selecting(obj: KubeObject, **spec: object) -> KubeObject:
    if not isinstance(obj, Pod):
        return obj
    return msgspec.structs.replace(
        obj, spec=msgspec.structs.replace(obj.spec, **(spec or {"nodeSelector": {LABEL: "fast"}}))
    )


def in_order(objects: Objects) -> Objects:
    """Pod groups before their pods, as informers deliver them."""
    return sorted(objects, key=lambda each: (isinstance(each, Pod), isinstance(each, PodGroup)))
