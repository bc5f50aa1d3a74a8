"""Who selects whom: which pods match the selectors of which other pods' affinity, anti-affinity and spreading.

The live state asks what a pod wishes, and which selectors it matches, when it makes a task of it; and it says when a
task came or went. Only selectors that some pod carries are looked at. When one is carried for the first time, the pods
that match it must be made tasks of anew, because others can tell them apart from now on; so too when nobody carries it
any more. Pods are found by their labels, and only labels that selectors ask for are kept track of: in a cluster without
such pods all this costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bosket.api.core import Namespace, Pod
from bosket.api.object import ObjectKey
from bosket.scheduler.model.peer import PeerTerm, PeerWishes, PodSelector
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, WAITING, Task
from bosket.scheduler.state.wishes import WishReader

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


class Peers:
    """The selectors in use, and the labels that they ask for.

    `tasks` is the owner's own table; it says when an entry changed.
    """

    def __init__(self, tasks: Mapping[ObjectKey, Task]) -> None:
        self._tasks = tasks
        self._wishes = WishReader()
        self._carriers = Counter[PeerWishes]()
        self.selectors = Counter[PodSelector]()  #: in use, by how many different wishes
        self._uses_of_term = Counter[PeerTerm]()
        self._by_label: dict[str, dict[str, dict[PodSelector, None]]] = {}  # label → value → selectors that ask for it
        self._by_no_label: dict[PodSelector, None] = {}  # those that ask for no particular value
        self._pods_by_label: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._terms: Shared[PodSelector, tuple[PeerTerm, ...]] = Shared()
        self.namespaces: dict[str, Namespace] = {}

    def terms(self) -> Mapping[PodSelector, tuple[PeerTerm, ...]]:
        """By selector: the terms that some pod carries which is on a node, or may be placed."""
        return self._terms.freeze()

    def look_at(self, pod: Pod) -> tuple[PeerWishes | None, Sequence[PodSelector]]:
        """What the pod wishes, and the selectors in use, its own included, that it matches, in order of numbers."""
        wishes = self._wishes.read(pod)
        candidates = set(self._asking_for(pod.metadata.labels))
        if wishes is not None:
            candidates |= wishes.selectors
        return wishes, sorted((each for each in candidates if self._matches(each, pod)), key=_number)

    def follow(self, key: ObjectKey, before: Task | None, after: Task | None) -> Iterable[ObjectKey]:
        """A task came, changed or went. Returns the pods that others can, or can no longer, tell apart."""
        self._keep_labels(key, before, after)
        gone, come = _carried(before), _carried(after)
        if gone is come:
            return ()
        affected: set[ObjectKey] = set()
        if come is not None:
            affected |= self._take_up(come) - {key}
        if gone is not None:
            affected |= self._let_go(gone)
        return sorted(affected)

    def put_namespace(self, namespace: Namespace) -> Iterable[ObjectKey]:
        """The pods that may be selected differently, because their namespace's labels are others than before."""
        name = namespace.metadata.name
        before = self._labels_of(name)
        self.namespaces[name] = namespace
        return self._pods_in(name) if before != namespace.metadata.labels else ()

    def drop_namespace(self, name: str) -> Iterable[ObjectKey]:
        before = self._labels_of(name)
        self.namespaces.pop(name, None)
        return self._pods_in(name) if before else ()

    # Selectors

    def _take_up(self, wishes: PeerWishes) -> set[ObjectKey]:
        """Counts a pod that carries these wishes; returns the pods that match a selector nobody carried before."""
        self._carriers[wishes] += 1
        if self._carriers[wishes] > 1:
            return set()
        for term in wishes.terms:
            self._uses_of_term[term] += 1
            known = self._terms.get(term.selector, ())
            if term not in known:
                self._terms.put(term.selector, (*known, term))
        new = {selector for selector in wishes.selectors if selector not in self.selectors}
        self.selectors.update(wishes.selectors)
        for selector in new:
            self._list(selector)
        return {pod for selector in new for pod in self._pods_for(selector)}

    def _let_go(self, wishes: PeerWishes) -> set[ObjectKey]:
        """The opposite; returns the pods that match a selector nobody carries any more."""
        self._carriers[wishes] -= 1
        if self._carriers[wishes]:
            return set()
        del self._carriers[wishes]
        for term in wishes.terms:
            self._uses_of_term[term] -= 1
            if not self._uses_of_term[term]:
                del self._uses_of_term[term]
                left = tuple(each for each in self._terms.get(term.selector, ()) if each is not term)
                if left:
                    self._terms.put(term.selector, left)
                else:
                    self._terms.drop(term.selector)
        self.selectors.subtract(wishes.selectors)
        old = {selector for selector in wishes.selectors if not self.selectors[selector]}
        affected = {pod for selector in old for pod in self._pods_for(selector)}
        for selector in old:
            del self.selectors[selector]
            self._unlist(selector)
        return affected

    def _list(self, selector: PodSelector) -> None:
        label = _label_of(selector)
        if label is None:
            self._by_no_label[selector] = None
            return
        key, values = label
        if key not in self._by_label:
            self._by_label[key] = {}
            by_value = self._pods_by_label[key] = {}
            for pod, task in self._tasks.items():
                value = task.pod.metadata.labels.get(key)
                if value is not None:
                    by_value.setdefault(value, {})[pod] = None
        for value in values:
            self._by_label[key].setdefault(value, {})[selector] = None

    def _unlist(self, selector: PodSelector) -> None:
        label = _label_of(selector)
        if label is None:
            del self._by_no_label[selector]
            return
        key, values = label
        for value in values:
            selectors = self._by_label[key][value]
            del selectors[selector]
            if not selectors:
                del self._by_label[key][value]
        if not self._by_label[key]:
            del self._by_label[key], self._pods_by_label[key]

    def _asking_for(self, labels: Labels) -> Iterator[PodSelector]:
        for key, by_value in self._by_label.items():
            value = labels.get(key)
            if value is not None:
                yield from by_value.get(value, ())
        yield from self._by_no_label

    # Pods

    def _keep_labels(self, key: ObjectKey, before: Task | None, after: Task | None) -> None:
        old = before.pod.metadata.labels if before is not None else NO_LABELS
        new = after.pod.metadata.labels if after is not None else NO_LABELS
        for label, by_value in self._pods_by_label.items():
            was, now = old.get(label), new.get(label)
            if was is not None and was != now:
                pods = by_value.get(was, {})
                pods.pop(key, None)
                if not pods:
                    by_value.pop(was, None)
            if now is not None:
                by_value.setdefault(now, {})[key] = None

    def _pods_for(self, selector: PodSelector) -> Iterator[ObjectKey]:
        """The pods that match a selector in use."""
        candidates: Iterable[ObjectKey] = self._tasks
        label = _label_of(selector)
        if label is not None:
            by_value = self._pods_by_label[label[0]]
            candidates = (pod for value in label[1] for pod in by_value.get(value, ()))
        return (key for key in candidates if self._matches(selector, self._tasks[key].pod))

    def _pods_in(self, namespace: str) -> list[ObjectKey]:
        return sorted(key for key in self._tasks if key.namespace == namespace) if self.selectors else []

    def _matches(self, selector: PodSelector, pod: Pod) -> bool:
        meta = pod.metadata
        return selector.matches(meta.namespace, meta.labels, self._labels_of(meta.namespace))

    def _labels_of(self, namespace: str) -> Labels:
        known = self.namespaces.get(namespace)
        return known.metadata.labels if known is not None else NO_LABELS


def _carried(task: Task | None) -> PeerWishes | None:
    """What a pod wishes that is on a node, or may be placed by us; what others' waiting pods wish concerns nobody."""
    if task is None:
        return None
    concerns = task.node if task.status in ACTIVE_USED else task.group if task.status in WAITING else None
    return task.pod_class.wishes if concerns else None


def _label_of(selector: PodSelector) -> tuple[str, set[str]] | None:
    """A label that every pod which matches has, and the values it may have; None if there is no such label."""
    for clause in selector.clauses:
        for requirement in clause.labels.requirements:
            if requirement.operator == "in":
                return requirement.key, set(requirement.values)
    return None


def _number(selector: PodSelector) -> int:
    return selector.number
