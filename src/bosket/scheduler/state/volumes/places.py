"""Where an open claim can be satisfied: by an existing volume, or by provisioning one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bosket.api.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
)
from bosket.api.object import ObjectKey
from bosket.api.storage import StorageClass
from bosket.kube.node_selector import NodeTest, node_test
from bosket.kube.volume import Demand, can_be_made, is_free, size_of, suits
from bosket.scheduler.model.volume import FreeVolume, Offer, Places, Room, Space, VolumeNeeds

ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
#: Between the zones of a volume that is in several.
ZONE_SEPARATOR = "__"


class Question(NamedTuple):
    """What a claim asks for and what is settled about it; claims with equal questions share an answer."""

    demand: Demand
    promised: str  #: the volume that is for this claim alone, and for which it waits
    selected_node: str  #: where a volume is being made for it already


class Answer(NamedTuple):
    """An offer, and the nodes where it can be used if no other pod does."""

    offer: Offer
    places: Places
    space: Space | None  #: where the driver tells how much it can make


def answer(
    question: Question,
    volumes: Iterable[PersistentVolume],
    taken: Iterable[str],
    storage_class: StorageClass,
    rooms: tuple[Room, ...] | None,
) -> Answer:
    """`volumes`: all of the class; `taken`: those of pods that are being bound."""
    demand = question.demand
    if question.selected_node:
        field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(question.selected_node,))
        there = Places(False, (), (NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchFields=(field,)),)),))
        return Answer(Offer(demand.storage_class, demand.size, (), there, None), there, None)
    suitable = [each for each in volumes if suits(each, demand)]
    if question.promised:
        free = [each for each in suitable if each.metadata.name == question.promised]
    else:
        gone = set(taken)
        free = [each for each in suitable if is_free(each) and each.metadata.name not in gone]
    found = tuple(sorted((_free(each) for each in free), key=lambda each: (each.size, each.name)))
    reach = [each.reach for each in found]
    if question.promised or not can_be_made(storage_class):
        return Answer(Offer(demand.storage_class, demand.size, found, None, None), _union(reach), None)
    allowed = _allowed(storage_class)
    offer = Offer(demand.storage_class, demand.size, found, _union([allowed]), rooms)
    space = None
    if rooms is not None:
        large = tuple(dict.fromkeys(each.nodes for each in rooms if each.largest >= demand.size))
        space = Space(_union(reach), large)
    return Answer(offer, _union([*reach, allowed]), space)


def same(left: Answer, right: Answer) -> bool:
    """Whether two answers say the same."""
    mine, other = left.offer, right.offer
    return (
        left[1:] == right[1:]
        and mine.volumes == other.volumes
        and mine.made == other.made
        and mine.rooms == other.rooms
    )


def needs_of(
    claims: Iterable[PersistentVolumeClaim],
    answers: Mapping[ObjectKey, Answer],
    volumes: Mapping[str, PersistentVolume],
) -> VolumeNeeds:
    """What a pod's claims require of its node: claims with an answer are open, the others bound."""
    reach: dict[NodeSelector, None] = {}
    zones: dict[tuple[str, frozenset[str]], None] = {}
    places: dict[Places, None] = {}
    space: dict[Space, None] = {}
    lost = False
    for claim in claims:
        found = answers.get(claim.key)
        if found is not None:
            places[found.places] = None
            if found.space is not None:
                space[found.space] = None
            continue
        volume = volumes.get(claim.spec.volumeName)
        if volume is None:
            lost = True
            continue
        affinity = volume.spec.nodeAffinity
        if affinity is not None and affinity.required is not None:
            reach[affinity.required] = None
        zones.update(dict.fromkeys(_zones_of(volume)))
    return VolumeNeeds(tuple(reach), tuple(sorted(zones, key=repr)), tuple(places), tuple(space), lost)


def _zones_of(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    """The labels that say where a volume is; a label with an empty zone in it says nothing."""
    for label in ZONE_LABELS:
        zones = frozenset(volume.metadata.labels.get(label, "").split(ZONE_SEPARATOR))
        if "" not in zones:
            yield label, zones


def place_test(places: Places) -> NodeTest:
    """A test of whether a node is one of these places."""
    selectors = [node_test(selector) for selector in places.selectors]

    def test(node: Node) -> bool:
        labels = node.metadata.labels
        return (
            places.everywhere
            or any(labels.get(key) in values for key, values in places.by_label)
            or any(selector(node) for selector in selectors)
        )

    return test


def one_label(selector: NodeSelector) -> NodeSelectorRequirement | None:
    """The requirement, if the selector is nothing but values of one label."""
    terms = selector.nodeSelectorTerms
    if len(terms) != 1 or terms[0].matchFields or len(terms[0].matchExpressions) != 1:
        return None
    only = terms[0].matchExpressions[0]
    return only if only.operator == "In" else None


def _free(volume: PersistentVolume) -> FreeVolume:
    affinity = volume.spec.nodeAffinity
    return FreeVolume(volume.metadata.name, size_of(volume), affinity.required if affinity is not None else None)


def _allowed(storage_class: StorageClass) -> NodeSelector | None:
    if not storage_class.allowedTopologies:
        return None
    terms = tuple(
        NodeSelectorTerm(
            matchExpressions=tuple(
                NodeSelectorRequirement(key=each.key, operator="In", values=each.values)
                for each in term.matchLabelExpressions
            )
        )
        for term in storage_class.allowedTopologies
    )
    return NodeSelector(nodeSelectorTerms=terms)


def _union(options: list[NodeSelector | None]) -> Places:
    """One selector for many places: local disks are many, and each asks for one value of one label."""
    if any(option is None for option in options):
        return Places(True, (), ())
    by_label: dict[str, set[str]] = {}
    others: dict[NodeSelector, None] = {}
    for option in options:
        assert option is not None
        simple = one_label(option)
        if simple is None:
            others[option] = None
        else:
            by_label.setdefault(simple.key, set()).update(simple.values)
    labels = tuple((key, frozenset(values)) for key, values in sorted(by_label.items()))
    return Places(False, labels, tuple(others))
