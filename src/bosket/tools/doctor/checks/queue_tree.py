"""Queues: a tree without loose ends, amounts that make sense, jobs in leaves only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api import keys
from bosket.api.kai import UNLIMITED, PodGroup, Queue, QueueResource, QueueResources
from bosket.tools.doctor.amount import RESOURCES, as_quota, held_by, total
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

#: Without these a pod can hardly be; a queue that allows no GPUs is one for other work.
_NEEDED: Final = ("cpu", "memory")


def check_tree(installation: Installation) -> Iterator[Finding]:
    """Queues that hang in the air: no parent, a circle, a parent in another shard."""
    queues = installation.queues
    if not queues:
        yield Finding(
            "queue-none",
            Severity.ERROR,
            "Queue",
            "",
            "there are no queues, so nothing is scheduled",
            "install the default queues, or create your own",
            "bosket crds --install",
        )
        return
    if keys.DEFAULT_QUEUE not in queues:
        yield Finding(
            "queue-default-missing",
            Severity.WARNING,
            f"Queue {keys.DEFAULT_QUEUE}",
            "",
            f"work that names no queue goes to {keys.DEFAULT_QUEUE}, which isn't there, and waits for ever",
            "create it, or see to it that all work names a queue",
            "bosket crds --install",
        )
    circles: set[frozenset[str]] = set()
    for queue in queues.values():
        circle = _circle(installation, queue)
        if circle and frozenset(circle) not in circles:
            circles.add(frozenset(circle))
            yield _in_circle(queue, circle)
        parent = queue.spec.parentQueue
        above = queues.get(parent)
        if parent and above is None:
            yield _without_parent(queue, parent)
        elif above is not None and installation.pool_of(above) != installation.pool_of(queue):
            yield _apart_from_parent(installation, queue, above)


def _without_parent(queue: Queue, parent: str) -> Finding:
    return Finding(
        "queue-parent-missing",
        Severity.ERROR,
        named(queue),
        "spec.parentQueue",
        f'there is no queue "{parent}", so nothing runs in this queue or below it',
        f"create {parent}, or name another parent",
        _set_parent(queue),
    )


def _in_circle(queue: Queue, circle: list[str]) -> Finding:
    return Finding(
        "queue-circle",
        Severity.ERROR,
        named(queue),
        "spec.parentQueue",
        f"the queue is its own ancestor ({' → '.join((*circle, circle[0]))}), so nothing runs in any of them",
        "give one of them a parent that isn't below it",
        _set_parent(queue),
    )


def _apart_from_parent(installation: Installation, queue: Queue, above: Queue) -> Finding:
    label, pool, parent = installation.pool_label, installation.pool_of(queue), above.metadata.name
    return Finding(
        "queue-parent-in-other-shard",
        Severity.ERROR,
        named(queue),
        f"metadata.labels[{label}]",
        f'the queue is in node pool "{pool}" and its parent {parent} in "{installation.pool_of(above)}": the scheduler '
        "of either doesn't see both, and nothing runs in it",
        "give both the same label",
        f"kubectl label queue {parent} {label}={pool} --overwrite",
    )


def _set_parent(queue: Queue) -> str:
    return f'kubectl patch queue {queue.metadata.name} --type merge -p \'{{"spec":{{"parentQueue":"…"}}}}\''


def _circle(installation: Installation, queue: Queue) -> list[str]:
    path = [each.metadata.name for each in installation.lineage(queue.metadata.name)]
    last = installation.queues[path[-1]].spec.parentQueue
    return path if last == path[0] else []


def check_amounts(installation: Installation) -> Iterator[Finding]:
    """Quotas, limits and weights that make no sense, alone or beside each other."""
    for queue in installation.queues.values():
        if queue.spec.resources is None:
            yield Finding(
                "queue-resources-missing",
                Severity.WARNING,
                named(queue),
                "spec.resources",
                "the queue says nothing about resources: it is owed nothing, and gets what others leave",
                "give it quota, limit and overQuotaWeight of gpu, cpu and memory (-1 is unlimited)",
                f"kubectl edit queue {queue.metadata.name}",
            )
            continue
        for name in RESOURCES:
            yield from _check_amount(installation, queue, name)
        yield from _check_sums(installation, queue, queue.spec.resources)


def _check_amount(installation: Installation, queue: Queue, name: str) -> Iterator[Finding]:
    resource: QueueResource = getattr(queue.spec.resources, name)
    where = f"spec.resources.{name}"
    negative = [
        key for key in ("quota", "limit") if (value := getattr(resource, key) or 0.0) < 0 and value != UNLIMITED
    ]
    negative += ["overQuotaWeight"] if resource.overQuotaWeight < 0 else []
    for key in negative:
        allowed = "0 or more" if key == "overQuotaWeight" else "0 or more, or -1 for unlimited"
        yield Finding(
            "queue-amount-negative",
            Severity.ERROR,
            named(queue),
            f"{where}.{key}",
            f"{getattr(resource, key):g} makes no sense, so the queue and its jobs are ignored",
            f"set it to {allowed}",
            set_amount(queue, name, key, "0"),
        )
    if "limit" in negative or "quota" in negative:
        return
    if resource.limit == 0 and (name in _NEEDED or resource.quota):
        yield Finding(
            "queue-limit-zero",
            Severity.ERROR,
            named(queue),
            f"{where}.limit",
            f"the limit is 0: nothing that asks for {name} runs in this queue",
            "set it to what the queue may use at most, such as its quota or what all nodes have; -1 is unlimited",
            set_amount(queue, name, "limit", _ample(installation, queue, name)),
        )
    elif resource.most > 0 and (resource.quota > resource.most or resource.quota == UNLIMITED):
        quota = "unlimited" if resource.quota == UNLIMITED else f"{resource.quota:g}"
        yield Finding(
            "queue-limit-below-quota",
            Severity.WARNING,
            named(queue),
            f"{where}.limit",
            f"the limit of {resource.most:g} is below the quota ({quota}): the queue never gets what it is promised",
            "raise the limit, or lower the quota",
            set_amount(queue, name, "quota", f"{resource.most:g}"),
        )


def _ample(installation: Installation, queue: Queue, name: str) -> str:
    """A limit under which the queue gets its quota; without one, as much as the nodes of its shard have."""
    quota = getattr(queue.spec.resources, name).quota
    if quota > 0:
        return f"{quota:g}"
    place = RESOURCES.index(name)
    pool = installation.pool_of(queue)
    nodes = [held_by(node) for node in installation.nodes.values() if installation.pool_of(node) == pool]
    return as_quota(total(nodes)[place], place) if nodes else "-1"


def _check_sums(installation: Installation, queue: Queue, resources: QueueResources) -> Iterator[Finding]:
    """Children that are promised more than their parent has."""
    children = installation.children.get(queue.metadata.name, ())
    for name in RESOURCES:
        own: QueueResource = getattr(resources, name)
        bounds = [value for value in (own.quota, own.most) if value >= 0]
        quotas = [getattr(each.spec.resources or QueueResources(), name).quota for each in children]
        if not bounds or not quotas:
            continue
        promised = sum(quota for quota in quotas if quota > 0)
        # A child without a bound takes what its parent has; only numbers can be more than that.
        if promised > min(bounds):
            which = "quota" if own.quota == min(bounds) else "limit"
            yield Finding(
                "queue-children-quota",
                Severity.WARNING,
                named(queue),
                f"spec.resources.{name}.{which}",
                f"the queues below it have a quota of {promised:g} together, more than its own {which} of "
                f"{min(bounds):g}: they don't get what they are promised",
                f"raise it, or lower the quotas of {some(each.metadata.name for each in children)}",
                set_amount(queue, name, which, f"{promised:g}"),
            )


def set_amount(queue: Queue, resource: str, key: str, value: str) -> str:
    """The command that sets one amount of a queue."""
    patch = f'{{"spec":{{"resources":{{"{resource}":{{"{key}":{value}}}}}}}}}'
    return f"kubectl patch queue {queue.metadata.name} --type merge -p '{patch}'"


def check_jobs(installation: Installation) -> Iterator[Finding]:
    """Jobs in queues that aren't there, or that only hold other queues."""
    groups: dict[str, list[PodGroup]] = {}
    for group in installation.bundle.of(PodGroup):
        groups.setdefault(group.spec.queue, []).append(group)
    for name, jobs in groups.items():
        number, examples = counted(len(jobs), "pod group"), some(job.key for job in jobs)
        if name not in installation.queues:
            yield Finding(
                "podgroup-queue-unknown",
                Severity.ERROR,
                named(jobs[0]),
                "spec.queue",
                f'there is no queue "{name}", which keeps {number} ({examples}) waiting',
                "create the queue, or set the pod groups' queue to one that is there",
                f"kubectl patch podgroups.scheduling.run.ai -n {jobs[0].metadata.namespace} {jobs[0].metadata.name} "
                '--type merge -p \'{"spec":{"queue":"default-queue"}}\'',
            )
        elif name in installation.children:
            children = [each.metadata.name for each in installation.children[name]]
            yield Finding(
                "queue-inner-with-jobs",
                Severity.ERROR,
                f"Queue {name}",
                "",
                f"it has queues below it ({some(sorted(children))}), so jobs can't run in it, which keeps {number} "
                f"({examples}) waiting",
                "move the jobs to one of the queues below",
                f"kubectl patch podgroups.scheduling.run.ai -n {jobs[0].metadata.namespace} {jobs[0].metadata.name} "
                f'--type merge -p \'{{"spec":{{"queue":"{sorted(children)[0]}"}}}}\'',
            )
