"""Access: which jobs may not use their queue or priority class, because of their namespace.

Computed for each snapshot for the waiting jobs. Running jobs stay: the rules are about what is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bosket.api.core import Namespace
from bosket.api.kai import Queue
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.access import against_namespace, class_rules, queue_rules
from bosket.scheduler.model.job import Job
from bosket.scheduler.state.invalidation import Dirty
from bosket.scheduler.state.pod_selectors import PodSelectors


def put_namespace(pod_selectors: PodSelectors, dirty: Dirty, namespace: Namespace) -> Iterable[ObjectKey]:
    """Puts a namespace into the state: its labels may admit jobs to queues, and pod affinity may select by them."""
    before = pod_selectors.namespaces.get(namespace.metadata.name)
    if before is None or before.metadata.labels != namespace.metadata.labels:
        dirty.other = True
    return pod_selectors.put_namespace(namespace)


class Access:
    """Applies the access rules, on tables of the live state."""

    def __init__(
        self,
        queues: Mapping[str, Queue],
        classes: Mapping[str, PriorityClass],
        namespaces: Mapping[str, Namespace],
        *,
        enabled: bool,
    ) -> None:
        self._queues, self._classes, self._namespaces = queues, classes, namespaces
        self._enabled = enabled

    def denied(self, jobs: Iterable[Job]) -> Mapping[ObjectKey, str]:
        """The jobs without access, each with the reason."""
        if not self._enabled:
            return {}
        found = {}
        # cached per (namespace, queue): there are many jobs, and few of these pairs
        verdicts: dict[tuple[str, str, str], str | None] = {}
        for job in jobs:
            asked = (job.key.namespace, job.queue, job.group.spec.priorityClassName or "")
            if asked not in verdicts:
                verdicts[asked] = self._verdict(*asked)
            why = verdicts[asked]
            if why is not None:
                found[job.key] = why
        return found

    def _verdict(self, namespace: str, queue: str, priority_class: str) -> str | None:
        known = self._namespaces.get(namespace)
        labels = known.metadata.labels if known is not None else {}
        rules = [*queue_rules(queue, self._queues), *class_rules(priority_class, self._classes)]
        return against_namespace(rules, namespace, labels)
