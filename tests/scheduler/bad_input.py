"""Clusters with something wrong in them: the objects, the job that suffers from it, and the message that it must get.

Names begin with the case's own name, so that all of them can be in one cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from bosket.api.core import PersistentVolumeClaim, Pod
from bosket.api.kai import PodGroup, QueueResource, SubGroup
from bosket.api.object import KubeObject, LabelSelector, LabelSelectorRequirement
from bosket.testing.build import gang, pod, pod_group, queue
from tests.scheduler.storage import claim, member, storage_class


@dataclass(frozen=True)
class Case:
    """Objects of which one job, named like the case, can't be scheduled; `text` is in its reason."""

    name: str
    objects: tuple[KubeObject, ...]
    text: str
    in_json: bool = True  #: whether JSON has words for it


def cases() -> list[Case]:
    """Everything wrong that some job must get a message about."""
    return [*_queues(), *_amounts(), *_groups(), *_subgroups(), *_volumes()]


def _queues() -> Iterator[Case]:
    yield Case(
        "circle",
        (queue("circle-a", parent="circle-b"), queue("circle-b", parent="circle-a"), *_job("circle", "circle-a")),
        "Queue 'circle-a' can't be used: its parents form a circle (circle-a → circle-b → circle-a)",
    )
    yield Case(
        "self",
        (queue("self-a", parent="self-a"), *_job("self", "self-a")),
        "Queue 'self-a' can't be used: its parents form a circle (self-a → self-a)",
    )
    yield Case(
        "below",
        (
            queue("below-a", parent="below-b"),
            queue("below-b", parent="below-a"),
            queue("below-c", parent="below-b"),
            *_job("below", "below-c"),
        ),
        "Queue 'below-c' can't be used: its parents form a circle",
    )
    yield Case(
        "orphan",
        (queue("orphan-a", parent="nobody"), *_job("orphan", "orphan-a")),
        "Queue 'orphan-a' can't be used: its parent queue 'nobody' does not exist",
    )
    yield Case(
        "grandchild",
        (
            queue("grandchild-a", parent="nobody"),
            queue("grandchild-b", parent="grandchild-a"),
            *_job("grandchild", "grandchild-b"),
        ),
        "its parent queue 'nobody' does not exist",
    )
    yield Case(
        "heir",
        (queue("heir-a", quota=-5), queue("heir-b", parent="heir-a"), *_job("heir", "heir-b")),
        "its parent queue 'heir-a' is refused: Queue heir-a: spec.resources.gpu.quota is -5",
    )


def _amounts() -> Iterator[Case]:
    """Numbers that can't be; JSON has no word for some of them, other callers have."""
    for number, wrong in enumerate((-5.0, -0.5, math.nan, math.inf, -math.inf)):
        for part, right in (("quota", "0 or more, or -1 for unlimited"), ("overQuotaWeight", "0 or more")):
            name = f"{part.lower()}{number}"
            share = QueueResource(**{"quota": -1, "limit": -1, "overQuotaWeight": 1, part: wrong})
            bad = queue(f"{name}-a", memory=share)
            text = f"Queue {name}-a: spec.resources.memory.{part} is {wrong:g}, it must be {right}"
            yield Case(name, (bad, *_job(name, f"{name}-a")), text, in_json=math.isfinite(wrong))
    yield Case(
        "limit",
        (queue("limit-a", limit=-2), *_job("limit", "limit-a")),
        "Queue limit-a: spec.resources.gpu.limit is -2, it must be 0 or more, or -1 for unlimited",
    )


def _groups() -> Iterator[Case]:
    yield Case("nowhere", _job("nowhere", ""), "The pod group names no queue (spec.queue is empty)")
    yield Case("unknown", _job("unknown", "zzz"), "Queue 'zzz' does not exist")
    yield Case(
        "inner",
        (queue("inner-a"), queue("inner-b", parent="inner-a"), *_job("inner", "inner-a")),
        "Queue 'inner-a' has child queues, only a leaf queue can hold jobs",
    )
    yield Case(
        "endless",
        (pod_group("endless", min_member=10**12), *gang("endless", 2)),
        "Waiting for 1000000000000 pods, currently 2 exist",
    )
    yield Case(
        "negative",
        (pod_group("negative", min_member=-3), *gang("negative", 1)),
        "PodGroup default/negative can't be scheduled: spec.minMember is -3, it must be 0 or more",
    )
    for number, amount in enumerate(("-1", "NaN", "1e400", "9e99", "", "abc", "1E18", "9" * 5000)):
        name = f"uncountable{number}"
        member = pod(f"{name}-0").of_group(name).asks("cpu", amount).build()
        yield Case(
            name, (pod_group(name), member), f"default/{name} can't be scheduled: pod default/{name}-0: resources: "
        )


def _subgroups() -> Iterator[Case]:
    yield _tree(
        "parentless",
        (SubGroup(name="a", parent="nobody", minMember=1),),
        "sub-group 'a' names the parent 'nobody', which spec.subGroups doesn't have",
    )
    yield _tree(
        "twice",
        (SubGroup(name="a", minMember=1), SubGroup(name="a", minMember=2)),
        "spec.subGroups has two entries named 'a'",
    )
    yield _tree(
        "round",
        (SubGroup(name="a", parent="b", minMember=1), SubGroup(name="b", parent="a")),
        "the parents of sub-group 'a' form a circle",
    )
    yield _tree("nameless", (SubGroup(name="", minMember=1),), "spec.subGroups has an entry without a name")
    yield _tree("own", (SubGroup(name="a", parent="a", minMember=1),), "the parents of sub-group 'a' form a circle")
    deep = [SubGroup(name="s0"), *(SubGroup(name=f"s{i}", parent=f"s{i - 1}") for i in range(1, 2000))]
    yield _tree(
        "deep",
        (*deep, SubGroup(name="a", parent="s1999", minMember=1)),
        "sub-group 's64' is nested more than 64 levels deep",
    )
    yield _tree(
        "hungry",
        (SubGroup(name="b", minSubGroup=3), SubGroup(name="a", parent="b", minMember=1)),
        "minSubGroup of sub-group 'b' is 3, it has 1 sub-groups",
    )
    yield _tree("below0", (SubGroup(name="a", minMember=-2),), "minMember of sub-group 'a' is -2, it must be 0 or more")
    yield _tree(
        "stranger",
        (SubGroup(name="b", minMember=1),),
        'Pod references subgroup "a", which does not exist in PodGroup default/stranger',
    )
    yield _tree(
        "greedy",
        (SubGroup(name="a", minMember=1),),
        "spec.minSubGroup is 3, there are 1 sub-groups",
        min_subgroup=3,
    )
    yield _tree(
        "fewer-than-none",
        (SubGroup(name="a", minMember=1),),
        "spec.minSubGroup is -1, it must be 0 or more",
        min_subgroup=-1,
    )
    yield _tree(
        "fewer-than-none-below",
        (SubGroup(name="b", minSubGroup=-1), SubGroup(name="a", parent="b", minMember=1)),
        "minSubGroup of sub-group 'b' is -1, it must be 0 or more",
    )


def _job(name: str, queue_name: str) -> tuple[PodGroup | Pod, ...]:
    return (pod_group(name, queue=queue_name), *gang(name, 1))


def _tree(name: str, subgroups: tuple[SubGroup, ...], text: str, min_subgroup: int | None = None) -> Case:
    group = pod_group(name, subgroups=subgroups, min_subgroup=min_subgroup)
    member = pod(f"{name}-0").gpu(1).of_group(name, "a").build()
    return Case(name, (group, member), f"PodGroup default/{name} can't be scheduled: {text}")


def _volumes() -> Iterator[Case]:
    unknown, size, selector = "no-class", "claim-size", "claim-selector"
    yield Case(
        unknown, _user(claim(unknown, storage_class="nowhere")), 'spec.storageClassName: there is no class "nowhere"'
    )
    waits = storage_class("waits")
    yield Case(
        size,
        (waits, *_user(claim(size, storage_class="waits", size="much"))),
        f'persistentvolumeclaim "{size}": spec.resources.requests.storage: ',
    )
    picky = claim(selector, storage_class="waits")
    wrong = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="speed", operator="Faster"),))
    picky = msgspec.structs.replace(picky, spec=msgspec.structs.replace(picky.spec, selector=wrong))
    yield Case(selector, (waits, *_user(picky)), f'persistentvolumeclaim "{selector}": spec.selector: ')
    yield Case("no-claim", _user(claim("no-claim"))[1:], 'persistentvolumeclaim "no-claim" not found')


def _user(wanted: PersistentVolumeClaim) -> tuple[KubeObject, ...]:
    """The claim, and a job of one pod with it; all of the same name."""
    name = wanted.metadata.name
    return wanted, pod_group(name), member(name, name=f"{name}-0", group=name).build()
