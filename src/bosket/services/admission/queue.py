"""Validation of queues: they form a tree, and have valid amounts.

What is wrong whatever other queues exist is refused. What may be completed later (a parent that is created next), or is
odd but meaningful (a limit of 0), is a warning: manifests may be applied in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bosket.api.kai import PodGroup, Queue, QueueResource, QueueResources
from bosket.api.kai.queue import UNLIMITED
from bosket.api.keys import RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE, SYSTEM_NAMESPACE
from bosket.api.quantity import InvalidQuantity, Quantity, to_milli
from bosket.runtime.webhook.verdict import Refusal, Verdict, quoted

#: Where pods of Bosket itself run, by their usual names.
OWN_NAMESPACES: Final = frozenset((SYSTEM_NAMESPACE, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE))
_SHOWN: Final = 5


def check(new: Queue, old: Queue | None, queues: Mapping[str, Queue], *, sums: bool) -> Verdict:
    """What is wrong with a queue that is created, or changed from `old`; `queues` are those that there are.

    With `sums` also whether quotas add up, which only ever warns.
    """
    if new.metadata.deletionTimestamp is not None:
        return Verdict()  # it is on its way out: only finalizers change
    refusals = [*_amounts(new)]
    moved = old is None or old.spec.parentQueue != new.spec.parentQueue
    circle = _circle(new, queues) if moved else None
    if circle:
        refusals.append(
            Refusal(
                "spec.parentQueue",
                f"queue {quoted(new.metadata.name)} would be its own ancestor ({' → '.join(circle)}): "
                "choose a parent that is not below it",
            )
        )
    warnings = [*_odd_limits(new)]
    parent = new.spec.parentQueue
    if parent and parent not in queues and not circle:
        warnings.append(
            f"spec.parentQueue: there is no queue {quoted(parent)} (yet); until there is, nothing runs in this queue"
        )
    if sums and not refusals:
        warnings += _sums(new, queues)
    return Verdict(tuple(refusals), tuple(warnings))


def says_it_is_used(queue: Queue) -> bool:
    """Whether the status of a queue says that something runs in it or below it."""
    return any(map(_is_positive, queue.status.allocated.values()))


def check_deletion(queue: Queue, queues: Mapping[str, Queue], groups: Iterable[PodGroup]) -> Verdict:
    """Whether the queue may go: not while one of `groups` runs in it or below it, which nobody would schedule any more.

    Queues below it are no obstacle. They may be next to go (`kubectl delete queues --all`, pruning, an owner that
    is deleted), in whatever order; the scheduler ignores those that remain, and the queue controller says so in
    their condition Orphan. Bosket's own pods need no queue.
    """
    name = queue.metadata.name
    children = sorted({each.metadata.name for each in queues.values() if each.spec.parentQueue == name})
    below = _with_all_below(name, queues)
    running = sorted(str(each.key) for each in groups if each.spec.queue in below and _is_running(each))
    if running:
        shown = ", ".join(running[:_SHOWN]) + (" …" if len(running) > _SHOWN else "")
        # The beginning is KAI's, for those who match it.
        where = f"it has child queues [{' '.join(children)}], and jobs" if children else "jobs"
        message = f"cannot delete queue {name}: {where} of it are running ({shown}): end them, or move them, first"
        return Verdict((Refusal("status.allocated", message),))
    warnings = []
    if children:
        shown = ", ".join(map(quoted, children[:_SHOWN])) + (" …" if len(children) > _SHOWN else "")
        warnings.append(
            f"queues below {quoted(name)} ({shown}) can't be used without it: "
            "nothing runs in them until they are given another parent"
        )
    if any(map(_is_positive, queue.status.requested.values())):
        warnings.append(f"jobs wait in queue {quoted(name)}; without it they will never run")
    return Verdict(warnings=tuple(warnings))


def _with_all_below(name: str, queues: Mapping[str, Queue]) -> set[str]:
    children: dict[str, list[str]] = {}
    for each in queues.values():
        children.setdefault(each.spec.parentQueue, []).append(each.metadata.name)
    found, to_visit = {name}, [name]
    while to_visit:
        more = [each for each in children.get(to_visit.pop(), ()) if each not in found]
        found.update(more)
        to_visit += more
    return found


def _is_running(group: PodGroup) -> bool:
    is_going = group.metadata.deletionTimestamp is not None
    held = group.status.resourcesStatus.allocated.values()
    return not is_going and group.metadata.namespace not in OWN_NAMESPACES and any(map(_is_positive, held))


def _amounts(queue: Queue) -> Iterator[Refusal]:
    if queue.spec.resources is None:
        yield Refusal(
            "spec.resources",
            f"resources must be specified: queue {quoted(queue.metadata.name)} would be owed nothing; "
            "give it quota, limit and overQuotaWeight of gpu, cpu and memory (-1 is unlimited)",
        )
        return
    for name, resource in _resources(queue.spec.resources):
        for key, amount in (("quota", resource.quota), ("limit", resource.most)):
            if amount < 0 and amount != UNLIMITED:
                field = f"spec.resources.{name}.{key}"
                yield Refusal(field, f"{field} is {amount:g}: it must be 0 or more, or -1 for unlimited")
        if resource.overQuotaWeight < 0:
            field = f"spec.resources.{name}.overQuotaWeight"
            yield Refusal(field, f"{field} is {resource.overQuotaWeight:g}: it must be 0 or more")


def _odd_limits(queue: Queue) -> Iterator[str]:
    for name, resource in _resources(queue.spec.resources or QueueResources()):
        field = f"spec.resources.{name}.limit"
        if resource.limit == 0:
            yield f"{field} is 0: nothing that asks for {name} will run; -1 is unlimited"
        elif resource.most > 0 and (resource.quota > resource.most or resource.quota == UNLIMITED):
            quota = "unlimited" if resource.quota == UNLIMITED else f"{resource.quota:g}"
            yield f"{field} is {resource.most:g}, below the quota ({quota}): the queue never gets all of its quota"


def _circle(queue: Queue, queues: Mapping[str, Queue]) -> list[str]:
    """The way up from the queue, if it leads back to it."""
    path = [queue.metadata.name]
    at = queue.spec.parentQueue
    while at and at not in path:
        path.append(at)
        at = queues[at].spec.parentQueue if at in queues else ""
    return [*path, at] if at == queue.metadata.name else []


def _sums(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[str]:
    """Quotas that are more than there is above them, on either side of the queue."""
    known = {**queues, queue.metadata.name: queue}
    for parent_name in (queue.spec.parentQueue, queue.metadata.name):
        parent = known.get(parent_name)
        if parent is None or parent.spec.resources is None:
            continue
        children = [each for each in known.values() if each.spec.parentQueue == parent_name]
        for name, resource in _resources(parent.spec.resources):
            quotas = [dict(_resources(each.spec.resources or QueueResources()))[name].quota for each in children]
            if resource.quota == UNLIMITED or not quotas:
                continue
            if UNLIMITED in quotas or sum(quotas) > resource.quota:
                total = "unlimited" if UNLIMITED in quotas else f"{sum(quotas):g}"
                yield (
                    f"the quotas of {name} below queue {quoted(parent_name)} are {total} together, "
                    f"more than its own {resource.quota:g}"
                )


def _resources(resources: QueueResources) -> tuple[tuple[str, QueueResource], ...]:
    return (("gpu", resources.gpu), ("cpu", resources.cpu), ("memory", resources.memory))


def _is_positive(quantity: Quantity) -> bool:
    try:
        return to_milli(quantity) > 0
    except InvalidQuantity:
        return False
