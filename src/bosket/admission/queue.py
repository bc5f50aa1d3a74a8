"""Queues: they form a tree, and say what they are entitled to.

What can't work, wherever the other queues are, is refused. What may be on its way (a parent that is created next) or
is odd but has a meaning (a limit of 0) is a warning: manifests may be applied in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bosket.api.kai import Queue, QueueResource, QueueResources
from bosket.api.kai.queue import UNLIMITED
from bosket.api.quantity import InvalidQuantity, Quantity, to_milli
from bosket.webhook.verdict import Refusal, Verdict, quoted


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


def check_deletion(queue: Queue, queues: Mapping[str, Queue]) -> Verdict:
    """Whether nobody needs the queue any more."""
    name = queue.metadata.name
    children = sorted({each.metadata.name for each in queues.values() if each.spec.parentQueue == name})
    if children:
        shown = ", ".join(map(quoted, children[:5])) + (" …" if len(children) > 5 else "")
        message = f"queue {quoted(name)} has queues below it ({shown}): delete them, or give them another parent, first"
        return Verdict((Refusal("status.childQueues", message),))
    if any(map(_is_positive, queue.status.allocated.values())):
        message = f"queue {quoted(name)} is in use: jobs of it are running; end them, or move them, first"
        return Verdict((Refusal("status.allocated", message),))
    if any(map(_is_positive, queue.status.requested.values())):
        return Verdict(warnings=(f"jobs wait in queue {quoted(name)}; without it they will never run",))
    return Verdict()


def _amounts(queue: Queue) -> Iterator[Refusal]:
    if queue.spec.resources is None:
        yield Refusal(
            "spec.resources",
            f"queue {quoted(queue.metadata.name)} says nothing about resources, so nothing could run in it: "
            "give it quota, limit and overQuotaWeight of gpu, cpu and memory (-1 is unlimited)",
        )
        return
    for name, resource in _resources(queue.spec.resources):
        for key, amount in (("quota", resource.quota), ("limit", resource.limit)):
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
            yield f"{field} is 0, also where it is left out: nothing that asks for {name} will run; -1 is unlimited"
        elif resource.limit > 0 and (resource.quota > resource.limit or resource.quota == UNLIMITED):
            quota = "unlimited" if resource.quota == UNLIMITED else f"{resource.quota:g}"
            yield f"{field} is {resource.limit:g}, below the quota ({quota}): the queue never gets all of its quota"


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
