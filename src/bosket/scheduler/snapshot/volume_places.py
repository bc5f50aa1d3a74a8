"""Where a claim that isn't bound yet can be satisfied: by a volume that is there, or by making one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bosket.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
)
from bosket.api.quantity import InvalidQuantity, Quantity, to_int
from bosket.api.storage import StorageClass
from bosket.kube.selector import EVERYTHING, NOTHING, InvalidSelector, Selector, label_selector
from bosket.scheduler.model.volume import Places

WAIT = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
#: Between the zones of a volume that is in several.
ZONE_SEPARATOR = "__"


class Demand(NamedTuple):
    """What a volume must be to satisfy a claim; claims with the same demand can go to the same places."""

    storage_class: str
    selected_node: str
    size: int
    access_modes: frozenset[str]
    volume_mode: str
    labels: Selector


def demand_of(claim: PersistentVolumeClaim, storage_class: str, selected_node: str) -> Demand:
    """What a claim of this class asks for; `selected_node`: where a volume is being made for it already."""
    spec = claim.spec
    try:
        labels = EVERYTHING if spec.selector is None else label_selector(spec.selector)
    except InvalidSelector:
        labels = NOTHING
    size = _size(spec.resources.requests.get("storage"))
    mode = spec.volumeMode or "Filesystem"
    return Demand(storage_class, selected_node, size, frozenset(spec.accessModes), mode, labels)


def places_for(demand: Demand, volumes: Iterable[PersistentVolume], storage_class: StorageClass) -> Places:
    """Nodes that reach one of the volumes that are free, or where the class can make one."""
    if demand.selected_node:  # one is being made there
        field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(demand.selected_node,))
        return Places(False, (), (NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchFields=(field,)),)),))
    options: list[NodeSelector | None] = [_reach(volume) for volume in volumes if _satisfies(volume, demand)]
    if storage_class.provisioner not in ("", NO_PROVISIONER):
        options.append(_allowed(storage_class))
    return _union(options)


def zones_of(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    """The labels that say where a volume is; a label with an empty zone in it says nothing."""
    for label in ZONE_LABELS:
        zones = frozenset(volume.metadata.labels.get(label, "").split(ZONE_SEPARATOR))
        if "" not in zones:
            yield label, zones


def _satisfies(volume: PersistentVolume, demand: Demand) -> bool:
    spec = volume.spec
    return (
        volume.status.phase == "Available"
        and spec.claimRef is None
        and volume.metadata.deletionTimestamp is None
        and (spec.volumeMode or "Filesystem") == demand.volume_mode
        and demand.access_modes <= set(spec.accessModes)
        and _size(spec.capacity.get("storage")) >= demand.size
        and demand.labels.matches(volume.metadata.labels)
    )


def _reach(volume: PersistentVolume) -> NodeSelector | None:
    """None: every node reaches it."""
    affinity = volume.spec.nodeAffinity
    return affinity.required if affinity is not None else None


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
    """Local disks are many, and each asks for one value of one label: they are put together."""
    if any(option is None for option in options):
        return Places(True, (), ())
    by_label: dict[str, set[str]] = {}
    others: dict[NodeSelector, None] = {}
    for option in options:
        assert option is not None
        simple = _one_label(option)
        if simple is None:
            others[option] = None
        else:
            by_label.setdefault(simple.key, set()).update(simple.values)
    labels = tuple((key, frozenset(values)) for key, values in sorted(by_label.items()))
    return Places(False, labels, tuple(others))


def _one_label(selector: NodeSelector) -> NodeSelectorRequirement | None:
    """The requirement, if the selector is nothing but values of one label."""
    terms = selector.nodeSelectorTerms
    if len(terms) != 1 or terms[0].matchFields or len(terms[0].matchExpressions) != 1:
        return None
    only = terms[0].matchExpressions[0]
    return only if only.operator == "In" else None


def _size(quantity: Quantity | None) -> int:
    try:
        return to_int(quantity) if quantity is not None else 0
    except InvalidQuantity:
        return 0
