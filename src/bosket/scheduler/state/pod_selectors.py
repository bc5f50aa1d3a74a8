"""PodSelectors: the selectors of pods' affinity, anti-affinity and spread constraints, and the pods that match them.

`TaskReader` asks for a pod's affinity terms and the selectors that the pod matches; `Tasks` reports every task that
came, changed or went. Only selectors that some pod carries are matched. When a selector is carried for the first time,
or no longer, the tasks of all matching pods are read again, because their class changes. Pods are indexed only by
labels that selectors in use ask for: a cluster without pod affinity pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bosket.api.core import Namespace, Pod
from bosket.api.object import ObjectKey
from bosket.scheduler.model.pod_affinity import AffinityTerm, AffinityTerms, PodSelector
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, WAITING, Task
from bosket.scheduler.state.affinity_reader import AffinityReader

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


class PodSelectors:
    """Selectors in use, indexes of pods by the labels that these selectors ask for, and namespaces.

    `tasks` is the table of `Tasks`, which calls `follow` after every change of an entry.
    """

    def __init__(self, tasks: Mapping[ObjectKey, Task]) -> None:
        self._tasks = tasks
        self._reader = AffinityReader()
        self._carriers = Counter[AffinityTerms]()
        self.in_use = Counter[PodSelector]()  #: in use, by how many different AffinityTerms
        self._uses_of_term = Counter[AffinityTerm]()
        self._by_label: dict[str, dict[str, dict[PodSelector, None]]] = {}  # label → value → selectors that ask for it
        self._by_no_label: dict[PodSelector, None] = {}  # those that ask for no particular value
        self._pods_by_label: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._terms: Shared[PodSelector, tuple[AffinityTerm, ...]] = Shared()
        self.namespaces: dict[str, Namespace] = {}

    def terms(self) -> Mapping[PodSelector, tuple[AffinityTerm, ...]]:
        """By selector: the terms carried by pods that are on a node or may be placed."""
        return self._terms.freeze()

    def look_at(self, pod: Pod) -> tuple[AffinityTerms | None, Sequence[PodSelector]]:
        """The pod's affinity terms, and the selectors that it matches, its own included, in order of their numbers."""
        affinity_terms = self._reader.read(pod)
        candidates = set(self._asking_for(pod.metadata.labels))
        if affinity_terms is not None:
            candidates |= affinity_terms.selectors
        return affinity_terms, sorted((each for each in candidates if self._matches(each, pod)), key=_number)

    def follow(self, key: ObjectKey, before: Task | None, after: Task | None) -> Iterable[ObjectKey]:
        """Counts a task that came, changed or went. Returns the pods whose class changed by that."""
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
        """The pods whose matches may change, because the labels of their namespace changed."""
        name = namespace.metadata.name
        before = self._labels_of(name)
        self.namespaces[name] = namespace
        return self._pods_in(name) if before != namespace.metadata.labels else ()

    def drop_namespace(self, name: str) -> Iterable[ObjectKey]:
        before = self._labels_of(name)
        self.namespaces.pop(name, None)
        return self._pods_in(name) if before else ()

    # Selectors

    def _take_up(self, affinity_terms: AffinityTerms) -> set[ObjectKey]:
        """Counts a pod with these affinity terms; returns the pods that match a new selector."""
        self._carriers[affinity_terms] += 1
        if self._carriers[affinity_terms] > 1:
            return set()
        for term in affinity_terms.terms:
            self._uses_of_term[term] += 1
            known = self._terms.get(term.selector, ())
            if term not in known:
                self._terms.put(term.selector, (*known, term))
        new = {selector for selector in affinity_terms.selectors if selector not in self.in_use}
        self.in_use.update(affinity_terms.selectors)
        for selector in new:
            self._list(selector)
        return {pod for selector in new for pod in self._pods_for(selector)}

    def _let_go(self, affinity_terms: AffinityTerms) -> set[ObjectKey]:
        """The reverse of `_take_up`; returns the pods that match a selector which no pod carries any more."""
        self._carriers[affinity_terms] -= 1
        if self._carriers[affinity_terms]:
            return set()
        del self._carriers[affinity_terms]
        for term in affinity_terms.terms:
            self._uses_of_term[term] -= 1
            if not self._uses_of_term[term]:
                del self._uses_of_term[term]
                left = tuple(each for each in self._terms.get(term.selector, ()) if each is not term)
                if left:
                    self._terms.put(term.selector, left)
                else:
                    self._terms.drop(term.selector)
        self.in_use.subtract(affinity_terms.selectors)
        old = {selector for selector in affinity_terms.selectors if not self.in_use[selector]}
        affected = {pod for selector in old for pod in self._pods_for(selector)}
        for selector in old:
            del self.in_use[selector]
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
        return sorted(key for key in self._tasks if key.namespace == namespace) if self.in_use else []

    def _matches(self, selector: PodSelector, pod: Pod) -> bool:
        meta = pod.metadata
        return selector.matches(meta.namespace, meta.labels, self._labels_of(meta.namespace))

    def _labels_of(self, namespace: str) -> Labels:
        known = self.namespaces.get(namespace)
        return known.metadata.labels if known is not None else NO_LABELS


def _carried(task: Task | None) -> AffinityTerms | None:
    """The affinity terms of a pod that is on a node or may be placed by this scheduler; else None."""
    if task is None:
        return None
    concerns = task.node if task.status in ACTIVE_USED else task.group if task.status in WAITING else None
    return task.pod_class.affinity_terms if concerns else None


def _label_of(selector: PodSelector) -> tuple[str, set[str]] | None:
    """A label that every matching pod has, with its possible values; None if there is no such label."""
    for clause in selector.clauses:
        for requirement in clause.labels.requirements:
            if requirement.operator == "in":
                return requirement.key, set(requirement.values)
    return None


def _number(selector: PodSelector) -> int:
    return selector.number
