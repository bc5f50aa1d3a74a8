"""Simulated init containers that wait for other pods: which of them may finish.

No programs run in simulated pods, so the kubelet asks here what Grove's init container would find out. Kept up change
by change: a pod that becomes ready costs a look at those of its gang that wait.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from bosket.api.core import Pod
from bosket.api.grove.naming import GANG_LABEL, INIT_CONTAINER
from bosket.api.object import ObjectKey
from bosket.grove.initc import InvalidParent, Parent, ready_counts, waiting_for

_ARGUMENT: Final = "--podcliques="


class _Gang(NamedTuple):
    namespace: str
    name: str


class StartOrder:
    """Who is ready in which gang, and who waits for that."""

    def __init__(self) -> None:
        self._ready: dict[_Gang, Counter[str]] = {}
        self._waiting: dict[_Gang, dict[ObjectKey, list[Parent]]] = {}

    def changed(self, old: Pod | None, new: Pod | None) -> list[ObjectKey]:
        """A pod is another now, or gone; gives those that may go on because of it."""
        gangs = {gang for each in (old, new) if each is not None and (gang := _gang_of(each)) is not None}
        released: list[ObjectKey] = []
        for gang in gangs:
            ready = self._ready.setdefault(gang, Counter())
            before = +ready
            for each, sign in ((old, -1), (new, 1)):
                if each is not None and _gang_of(each) == gang:
                    for clique, count in ready_counts([each]).items():
                        ready[clique] += sign * count
            if +ready != before:
                waiting = self._waiting.get(gang, {})
                released += [key for key, parents in waiting.items() if not waiting_for(parents, ready)]
            if not +ready:
                del self._ready[gang]
        if new is None and old is not None:
            self._forget(old)
        return released

    def holds(self, pod: Pod) -> bool:
        """Whether the pod's init container still waits; it is remembered until it doesn't."""
        gang = _gang_of(pod)
        parents = _parents_of(pod) if gang is not None else []
        if gang is None or not waiting_for(parents, self._ready.get(gang, Counter())):
            self._forget(pod)
            return False
        self._waiting.setdefault(gang, {})[pod.key] = parents
        return True

    def _forget(self, pod: Pod) -> None:
        gang = _gang_of(pod)
        waiting = self._waiting.get(gang) if gang is not None else None
        if gang is not None and waiting is not None:
            waiting.pop(pod.key, None)
            if not waiting:
                del self._waiting[gang]


def _gang_of(pod: Pod) -> _Gang | None:
    name = pod.metadata.labels.get(GANG_LABEL)
    return _Gang(pod.metadata.namespace, name) if name else None


def _parents_of(pod: Pod) -> list[Parent]:
    """The arguments of the init container; an argument that the program would refuse keeps no pod from starting
    here."""
    found: list[Parent] = []
    for container in pod.spec.initContainers:
        if container.name != INIT_CONTAINER:
            continue
        for argument in container.args:
            if argument.startswith(_ARGUMENT):
                try:
                    found.append(Parent.parse(argument.removeprefix(_ARGUMENT)))
                except InvalidParent:
                    continue
    return found
