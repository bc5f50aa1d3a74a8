"""TAS2 to TAS16 and TAS23: topology constraints reach the scheduler at every level, and pods end up close together.

28 nodes: one zone, two blocks, four racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from bosket.api.core import Node
from bosket.api.grove import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    PodCliqueSet,
    PodCliqueTemplateSpec,
    TopologyConstraint,
    TopologyLevel,
    TopologyPackConstraint,
)
from bosket.api.kai import PodGroup
from bosket.api.kai import TopologyConstraint as GroupConstraint
from bosket.api.object import ObjectMeta
from tests.grove.sets import QUEUE, clique, clique_set, group
from tests.grove.world import World, Worlds

pytestmark = pytest.mark.looptime

ZONE, BLOCK, RACK, HOST = (f"kubernetes.io/{each}" for each in ("zone", "block", "rack", "hostname"))
LABELS = [{ZONE: "z", BLOCK: f"b{index // 14}", RACK: f"r{index // 7}"} for index in range(28)]
BINDING = ClusterTopologyBinding(
    metadata=ObjectMeta(name="grove-topology"),
    spec=ClusterTopologyBindingSpec(
        levels=tuple(
            TopologyLevel(domain=domain, key=key)
            for domain, key in (("zone", ZONE), ("block", BLOCK), ("rack", RACK), ("host", HOST))
        )
    ),
)


def packed(required: str | None = None, preferred: str | None = None) -> dict[str, Any]:
    pack = TopologyPackConstraint(required=required, preferred=preferred)
    return {"topologyConstraint": TopologyConstraint(topologyName="grove-topology", pack=pack)}


def role(name: str, replicas: int, *, memory: str = "10Mi", **options: Any) -> PodCliqueTemplateSpec:
    labels = {"kai.scheduler/queue": QUEUE}
    return clique(name, replicas, memory=memory, scheduler="kai-scheduler", labels=labels, **options)


#: What a PodGroup says: its own levels (required, preferred), and of each sub-group the minimum, parent and levels.
Levels = tuple[str, str]
Group = tuple[Levels, Mapping[str, tuple[int, str, Levels]]]
NONE: Levels = ("", "")


@dataclass(frozen=True)
class Case:
    """A set, how many pods it has, which of them end up in one domain, and what the scheduler gets."""

    owner: PodCliqueSet
    pods: int
    #: Pods whose names begin so share the value of a label.
    near: Sequence[tuple[str, str]] = ()
    groups: Mapping[str, Group] | None = None


def _inference(**options: Any) -> PodCliqueSet:
    groups = [
        group("decoder", "dleader", "dworker", replicas=2, **packed("rack")),
        group("prefill", "pleader", "pworker", replicas=2, **packed("rack")),
    ]
    cliques = [
        *(role("dworker", 1), role("dleader", 1), role("pworker", 1, **options.pop("worker", {}))),
        *(role("pleader", 1), role("router", 2)),
    ]
    return clique_set("s", *cliques, groups=groups, **packed("block"), **options)


def _inference_near(replica: int) -> list[tuple[str, str]]:
    groups = [(f"s-{replica}-{name}-{index}-", RACK) for name in ("decoder", "prefill") for index in (0, 1)]
    return [*groups, (f"s-{replica}-", BLOCK)]


def _inference_groups(replica: int, worker: Levels = NONE) -> dict[str, Group]:
    """The base gang with a parent for each group, and a gang in one rack for each group's second replica."""
    own = f"s-{replica}"
    parents = {f"{own}-{name}-0": (2, "", (RACK, "")) for name in ("decoder", "prefill")}

    def members(group_name: str, index: int, parent: str) -> dict[str, tuple[int, str, Levels]]:
        names = ("dleader", "dworker") if group_name == "decoder" else ("pleader", "pworker")
        return {
            f"{own}-{group_name}-{index}-{name}": (1, parent, worker if name == "pworker" else NONE) for name in names
        }

    base = {f"{own}-router": (2, "", NONE), **parents}
    for name in ("decoder", "prefill"):
        base |= members(name, 0, f"{own}-{name}-0")
    scaled: dict[str, Group] = {
        f"{own}-{name}-0": ((RACK, ""), members(name, 1, "")) for name in ("decoder", "prefill")
    }
    return {own: ((BLOCK, ""), base), **scaled}


CASES = {
    "TAS2": Case(
        clique_set("s", role("rack", 3, **packed("rack")), role("block", 4, **packed("block"))),
        7,
        [("s-0-rack-", RACK), ("s-0-block-", BLOCK)],
        {"s-0": (NONE, {"s-0-rack": (3, "", (RACK, "")), "s-0-block": (4, "", (BLOCK, ""))})},
    ),
    "TAS3": Case(
        clique_set(
            "s", role("w", 1), role("router", 2), groups=[group("g", "w", replicas=2, minimum=2)], **packed("rack")
        ),
        4,
        [("s-0-", RACK)],
        {
            "s-0": (
                (RACK, ""),
                {"s-0-router": (2, "", NONE), "s-0-g-0-w": (1, "", NONE), "s-0-g-1-w": (1, "", NONE)},
            )
        },
    ),
    "TAS4": Case(
        clique_set(
            "s",
            role("w", 2),
            role("router", 2),
            groups=[group("g", "w", replicas=2, minimum=2, **packed("rack"))],
        ),
        6,
        [("s-0-g-0-", RACK), ("s-0-g-1-", RACK)],
        {
            "s-0": (
                NONE,
                {
                    "s-0-g-0": (1, "", (RACK, "")),
                    "s-0-g-1": (1, "", (RACK, "")),
                    "s-0-router": (2, "", NONE),
                    "s-0-g-0-w": (2, "s-0-g-0", NONE),
                    "s-0-g-1-w": (2, "s-0-g-1", NONE),
                },
            )
        },
    ),
    "TAS5": Case(
        clique_set("s", role("a", 2, **packed("host"))),
        2,
        [("s-0-a-", HOST)],
        {"s-0": (NONE, {"s-0-a": (2, "", (HOST, ""))})},
    ),
    "TAS6": Case(
        clique_set("s", role("a", 4), **packed("zone")),
        4,
        [("s-0-a-", ZONE)],
        {"s-0": ((ZONE, ""), {"s-0-a": (4, "", NONE)})},
    ),
    "TAS7": Case(
        clique_set("s", role("w", 2), groups=[group("g", "w", replicas=2, minimum=2)]),
        4,
        [],
        {"s-0": (NONE, {"s-0-g-0-w": (2, "", NONE), "s-0-g-1-w": (2, "", NONE)})},
    ),
    "TAS8": Case(
        clique_set(
            "s",
            role("prefill", 2, **packed("host")),
            role("decode", 2, **packed("host")),
            groups=[group("g", "prefill", "decode", replicas=2, minimum=2, **packed("rack"))],
            **packed("block"),
        ),
        8,
        [
            *((f"s-0-g-{index}-{name}-", HOST) for index in (0, 1) for name in ("prefill", "decode")),
            *((f"s-0-g-{index}-", RACK) for index in (0, 1)),
            ("s-0-", BLOCK),
        ],
        {
            "s-0": (
                (BLOCK, ""),
                {
                    **{f"s-0-g-{index}": (2, "", (RACK, "")) for index in (0, 1)},
                    **{
                        f"s-0-g-{index}-{name}": (2, f"s-0-g-{index}", (HOST, ""))
                        for index in (0, 1)
                        for name in ("prefill", "decode")
                    },
                },
            )
        },
    ),
    "TAS9": Case(
        clique_set("s", role("a", 2, **packed("host")), **packed("block")),
        2,
        [("s-0-a-", HOST)],
        {"s-0": ((BLOCK, ""), {"s-0-a": (2, "", (HOST, ""))})},
    ),
    "TAS10": Case(
        clique_set("s", role("w", 2), groups=[group("g", "w", replicas=3, **packed("rack"))], **packed("block")),
        6,
        [*((f"s-0-g-{index}-", RACK) for index in range(3)), ("s-0-", BLOCK)],
        {
            "s-0": ((BLOCK, ""), {"s-0-g-0": (1, "", (RACK, "")), "s-0-g-0-w": (2, "s-0-g-0", NONE)}),
            "s-0-g-0": ((RACK, ""), {"s-0-g-1-w": (2, "", NONE)}),
            "s-0-g-1": ((RACK, ""), {"s-0-g-2-w": (2, "", NONE)}),
        },
    ),
    "TAS11": Case(
        clique_set(
            "s",
            role("w", 2, **packed("host")),
            groups=[group("g", "w", replicas=2, minimum=2, **packed("rack"))],
        ),
        4,
        [("s-0-g-0-", HOST), ("s-0-g-1-", HOST)],
        {
            "s-0": (
                NONE,
                {
                    **{f"s-0-g-{index}": (1, "", (RACK, "")) for index in (0, 1)},
                    **{f"s-0-g-{index}-w": (2, f"s-0-g-{index}", (HOST, "")) for index in (0, 1)},
                },
            )
        },
    ),
    "TAS12": Case(
        clique_set(
            "s",
            role("w", 2, **packed("host")),
            groups=[group("g", "w", replicas=10, minimum=3)],
            **packed("block"),
        ),
        20,
        [*((f"s-0-g-{index}-", HOST) for index in range(10)), ("s-0-", BLOCK)],
        {
            "s-0": ((BLOCK, ""), {f"s-0-g-{index}-w": (2, "", (HOST, "")) for index in range(3)}),
            **{f"s-0-g-{index}": ((BLOCK, ""), {f"s-0-g-{index + 3}-w": (2, "", (HOST, ""))}) for index in range(7)},
        },
    ),
    "TAS14": Case(
        clique_set("s", role("a", 2), replicas=2, **packed("rack")),
        4,
        [("s-0-", RACK), ("s-1-", RACK)],
        {f"s-{index}": ((RACK, ""), {f"s-{index}-a": (2, "", NONE)}) for index in (0, 1)},
    ),
    "TAS15": Case(
        _inference(),
        10,
        _inference_near(0),
        _inference_groups(0),
    ),
    "TAS16": Case(
        _inference(replicas=2, worker=packed("host")),
        20,
        [*_inference_near(0), *_inference_near(1)],
        {**_inference_groups(0, (HOST, "")), **_inference_groups(1, (HOST, ""))},
    ),
    "TAS23": Case(
        clique_set(
            "s",
            role("w", 1),
            role("router", 1, **packed(None, "host")),
            groups=[group("g", "w", replicas=2, **packed(None, "host"))],
            **packed("block", "rack"),
        ),
        3,
        [],
        {
            "s-0": (
                (BLOCK, RACK),
                {
                    "s-0-g-0": (1, "", ("", HOST)),
                    "s-0-router": (1, "", ("", HOST)),
                    "s-0-g-0-w": (1, "s-0-g-0", NONE),
                },
            ),
            "s-0-g-0": (("", HOST), {"s-0-g-1-w": (1, "", NONE)}),
        },
    ),
}


def _levels(constraint: GroupConstraint | None) -> Levels:
    if constraint is None:
        return NONE
    return constraint.requiredTopologyLevel or "", constraint.preferredTopologyLevel or ""


async def _told(grove: World) -> dict[str, Group]:
    """What the PodGroups say, by the gang that they are for."""
    found: dict[str, Group] = {}
    for each in (await grove.client.list(PodGroup, grove.namespace)).items:
        parts = {
            sub.name: (sub.minMember or sub.minSubGroup or 0, sub.parent or "", _levels(sub.topologyConstraint))
            for sub in each.spec.subGroups
        }
        found[each.metadata.ownerReferences[0].name] = (_levels(each.spec.topologyConstraint), parts)
    return found


@pytest.mark.parametrize("name", CASES)
async def test_pods_are_packed_as_the_set_says(name: str, world: Worlds) -> None:
    """TAS2 to TAS12, TAS14 to TAS16 and TAS23."""
    case = CASES[name]
    async with world(28, node_labels=LABELS) as grove:
        await grove.apply(BINDING, case.owner)
        await grove.expect(case.pods, case.pods)
        if case.groups is not None:
            assert await _told(grove) == case.groups
        labels = {each.metadata.name: each.metadata.labels for each in (await grove.client.list(Node)).items}
        for prefix, level in case.near:
            pods = [each for each in await grove.pods() if each.metadata.name.startswith(prefix)]
            assert pods
            assert len({labels[each.spec.nodeName][level] for each in pods}) == 1, prefix
        await _reports(grove, "False", "AllClusterTopologyLevelsAvailable")


async def test_a_gang_that_no_rack_can_hold_waits_as_a_whole(world: Worlds) -> None:
    """TAS13."""
    async with world(28, node_labels=LABELS) as grove:
        await grove.apply(BINDING, clique_set("s", role("a", 10, memory="80Mi"), **packed("rack")))
        await grove.expect(10, 0)
        await grove.expect_unschedulable(10)
        assert (await _told(grove))["s-0"][0] == (RACK, "")


async def test_a_set_runs_without_its_binding_and_says_so(world: Worlds) -> None:
    """TAS20."""
    async with world(4, node_labels=LABELS[:4]) as grove:
        await grove.apply(BINDING, clique_set("s", role("a", 2), replicas=0, **packed("rack")))
        await grove.settle()
        await grove.client.delete(ClusterTopologyBinding, "grove-topology")
        await _reports(grove, "Unknown", "ClusterTopologyNotFound")
        await grove.scale(PodCliqueSet, "s", 1)
        await grove.expect(2, 2)
        assert (await _told(grove))["s-0"][0] == NONE
        await grove.scale(PodCliqueSet, "s", 0)
        await grove.expect(0, 0)
        await grove.apply(BINDING)
        await _reports(grove, "False", "AllClusterTopologyLevelsAvailable")


async def _reports(grove: World, status: str, reason: str) -> None:
    async def said() -> bool:
        conditions = (await grove.clique_set("s")).status.conditions
        return [(each.status, each.reason) for each in conditions if each.type == "TopologyLevelsUnavailable"] == [
            (status, reason)
        ]

    await grove.until(reason, said)
