"""ByNode: filters by static properties of nodes: conditions, taints, labels, and the volumes that they reach.

Verdicts depend only on the class and on static properties, so they are remembered between cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from bosket.api.core import Node
from bosket.kube.node_selector import node_test
from bosket.kube.taint import tolerates
from bosket.scheduler.framework.extension import NodeFilter, ReasonBook, ReasonCodes, Rows
from bosket.scheduler.model.snapshot import Snapshot, WorkerLabels
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.model.volume import VolumeNeeds
from bosket.scheduler.plugins.predicates.node_selector import own_nodes
from bosket.scheduler.state.volumes.places import ZONE_LABELS, place_test

WRONG_LABELS = "node(s) didn't match Pod's node affinity/selector"
VOLUME_ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_ZONE = "node(s) had no available volume zone"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
VOLUME_LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOT_FOR_GPUS = "node(s) are not for pods with GPUs"
NOT_FOR_CPUS = "node(s) are not for pods without GPUs"

Objection = Callable[[Node], str | None]  #: what speaks against one node


class ByNode(NodeFilter):
    """All checks of one class against one node; the first objection counts."""

    static = True

    def __init__(self, snapshot: Snapshot, book: ReasonBook) -> None:
        self._snapshot, self._book = snapshot, book

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.fixed_index, pod_class.wants_gpu if self._snapshot.worker_labels else None

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        snapshot = self._snapshot
        texts, numbers = snapshot.memory.recall(
            snapshot.nodes.static_version, "by node", self.cache_key(pod_class), lambda: self._ask(pod_class)
        )
        codes: ReasonCodes = self._book.numbers(texts)[numbers[rows]]
        return codes

    def _ask(self, pod_class: PodClass) -> tuple[tuple[str, ...], np.ndarray]:
        """All objections there are, the first being none, and which of them each node has."""
        checks: list[Objection] = [_taints(pod_class)]
        if pod_class.node_selector or pod_class.required_nodes is not None:
            checks.append(_affinity(pod_class))
        if pod_class.volumes is not None:
            checks.append(_volumes(pod_class.volumes))
        if self._snapshot.worker_labels is not None:
            checks.append(_worker(self._snapshot.worker_labels, wants_gpu=pod_class.wants_gpu))
        number_of: dict[str, int] = {"": 0}
        nodes = self._snapshot.nodes.nodes
        refusals = self._snapshot.refusals()
        labels = self._labels_of(pod_class)
        if labels is None:
            found = [refusal or _first(checks, node) for node, refusal in zip(nodes, refusals, strict=True)]
        else:  # equal nodes are checked once: most clusters have a few kinds of nodes
            looks = list(zip(self._kinds(), *map(self._values, labels), strict=True))
            some = {look: row for row, look in enumerate(looks)}
            verdicts = {look: refusals[row] or _first(checks, nodes[row]) for look, row in some.items()}
            found = [verdicts[look] for look in looks]
        numbers = np.array([number_of.setdefault(each, len(number_of)) for each in found], dtype=np.intp)
        return tuple(number_of), numbers

    def _labels_of(self, pod_class: PodClass) -> list[str] | None:
        """The labels that verdicts about a class rest on, beside taints; None where they rest on more than that."""
        required = pod_class.required_nodes
        terms = required.nodeSelectorTerms if required is not None else ()
        if pod_class.volumes is not None or any(term.matchFields for term in terms):
            return None
        workers = self._snapshot.worker_labels
        return sorted(
            {*pod_class.node_selector, *(each.key for term in terms for each in term.matchExpressions)}
            | ({workers.gpu, workers.cpu} if workers is not None else set())
        )

    def _kinds(self) -> list[int]:
        """By node, a number: the same for those that refuse pods for the same reason and have the same taints."""
        snapshot, numbers = self._snapshot, dict[Hashable, int]()

        def look() -> list[int]:
            pairs = zip(snapshot.refusals(), snapshot.nodes.nodes, strict=True)
            return [numbers.setdefault((refusal, node.spec.taints), len(numbers)) for refusal, node in pairs]

        return snapshot.memory.recall(snapshot.nodes.static_version, "kinds of nodes", None, look)

    def _values(self, label: str) -> list[str | None]:
        """By node, the label's value."""
        snapshot = self._snapshot
        nodes = snapshot.nodes
        return snapshot.memory.recall(
            nodes.static_version, "label", label, lambda: [node.metadata.labels.get(label) for node in nodes.nodes]
        )


def _first(checks: list[Objection], node: Node) -> str:
    for check in checks:
        objection = check(node)
        if objection is not None:
            return objection
    return ""


def _taints(pod_class: PodClass) -> Objection:
    def objection(node: Node) -> str | None:
        for taint in node.spec.taints:
            if taint.effect == "PreferNoSchedule" or any(tolerates(each, taint) for each in pod_class.tolerations):
                continue
            value = f": {taint.value}" if taint.value else ""
            return f"node(s) had untolerated taint {{{taint.key}{value}}}"
        return None

    return objection


def _affinity(pod_class: PodClass) -> Objection:
    fits = own_nodes(pod_class)
    return lambda node: None if fits(node) else WRONG_LABELS


def _volumes(needs: VolumeNeeds) -> Objection:
    reach = [node_test(selector) for selector in needs.reach]
    places = [place_test(each) for each in needs.open]
    space = [(place_test(each.volumes), each.rooms) for each in needs.space]

    def objection(node: Node) -> str | None:
        if needs.lost:
            return VOLUME_LOST
        if not all(test(node) for test in reach):
            return VOLUME_ELSEWHERE
        if not all(test(node) for test in places):
            return NO_VOLUME
        labels = node.metadata.labels
        if not all(there(node) or any(room.matches(labels) for room in rooms) for there, rooms in space):
            return NO_SPACE
        return None if _in_zones(needs, node) else VOLUME_ZONE

    return objection


def _in_zones(needs: VolumeNeeds, node: Node) -> bool:
    """Zone labels of volumes; a node without any zone label satisfies them, because its cluster doesn't use zones."""
    labels = node.metadata.labels
    if not any(label in labels for label in ZONE_LABELS):
        return True
    for label, zones in needs.zones:
        zone = labels.get(label, labels.get(label.replace("failure-domain.beta.", "topology.")))
        if zone not in zones:
            return False
    return True


def _worker(labels: WorkerLabels, *, wants_gpu: bool) -> Objection:
    label, objection = (labels.gpu, NOT_FOR_GPUS) if wants_gpu else (labels.cpu, NOT_FOR_CPUS)
    return lambda node: None if label in node.metadata.labels else objection
