"""Jobs that wait for their queue: its limit, quota and fair share, whose turn it is, and who may be evicted for it."""

from __future__ import annotations

import msgspec

from benchmarks.explain_cases.case import (
    KEY,
    NEVER,
    NOT_NOW,
    Draw,
    Made,
    Objects,
    made,
    two_queues,
    with_labels,
)
from bosket.api.core import (
    Pod,
    PodCondition,
)
from bosket.api.kai import QueueResource
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.testing.build import (
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)
from bosket.testing.cluster import NOW


def over_limit(draw: Draw) -> Made:
    need = draw.rng.randint(1, draw.gpus)
    held = draw.gpus * (draw.nodes - 1)
    running = [
        each
        for number in range(draw.nodes - 1)
        for each in job(f"mine-{number}", gpus=draw.gpus, on=f"node-{number}", namespace="ml", created=NOW - 3600)
    ]
    limit = draw.rng.randint(max(held, need), held + need - 1) if held + need - 1 >= max(held, need) else held
    return made(NOT_NOW, "OverLimit", "queue", queue("q", limit=limit), draw.machines(), running, draw.asked(gpus=need))


def over_limit_of_parent(draw: Draw) -> Made:
    running = [
        each
        for number in range(draw.nodes - 1)
        for each in job(
            f"theirs-{number}",
            gpus=draw.gpus,
            on=f"node-{number}",
            queue="sibling",
            namespace="others",
            preemptibility="non-preemptible",
            created=NOW - 3600,
        )
    ]
    limit = draw.gpus * (draw.nodes - 1)
    return made(
        NOT_NOW,
        "OverLimit",
        "queue",
        queue("top", limit=limit),
        queue("q", parent="top"),
        queue("sibling", parent="top"),
        draw.machines(),
        running,
        draw.asked(gpus=draw.gpus),
    )


def over_limit_of_cpu(draw: Draw) -> Made:
    held = draw.rng.randint(8, 32)
    bound = QueueResource(quota=-1, limit=held * 1000, overQuotaWeight=1)
    running = pod("mine-0", "ml").cpu(str(held)).of_group("mine").running_on("node-0").build()
    groups = [
        pod_group("mine", namespace="ml", created=NOW - 3600),
        pod_group(KEY.name, namespace="ml", created=NOW - 60),
    ]
    asked = pod("asked-0", "ml").cpu(str(draw.rng.randint(1, 8))).of_group(KEY.name).build()
    return made(NOT_NOW, "OverLimit", "queue", queue("q", cpu=bound), draw.machines(), groups, running, asked)


def limit_below_request(draw: Draw) -> Made:
    need = draw.rng.randint(2, draw.gpus)
    return made(NEVER, "OverLimit", "queue", queue("q", limit=need - 1), draw.machines(), draw.asked(gpus=need))


def over_quota(draw: Draw) -> Made:
    need = draw.rng.randint(1, draw.gpus)
    running = job(
        "mine", gpus=draw.gpus, on="node-0", namespace="ml", preemptibility="non-preemptible", created=NOW - 3600
    )
    return made(
        NOT_NOW,
        "NonPreemptibleOverQuota",
        "queue",
        queue("q", quota=max(draw.gpus, need)),
        draw.machines(),
        running,
        draw.asked(gpus=need, preemptibility="non-preemptible"),
    )


def quota_below_request(draw: Draw) -> Made:
    need = draw.rng.randint(2, draw.gpus)
    return made(
        NEVER,
        "NonPreemptibleOverQuota",
        "queue",
        queue("q", quota=need - 1),
        draw.machines(),
        draw.asked(gpus=need, preemptibility="non-preemptible"),
    )


def queue_missing(draw: Draw) -> Made:
    return made(NEVER, "QueueDoesNotExist", "queue", queue("others"), draw.machines(), draw.asked(queue="nobodys"))


def queue_has_children(draw: Draw) -> Made:
    return made(NEVER, "QueueUnusable", "queue", queue("q"), queue("leaf", parent="q"), draw.machines(), draw.asked())


def higher_priority_is_served_first(draw: Draw) -> Made:
    ahead = job("ahead", gpus=draw.gpus, namespace="ml", priority="high", created=NOW - 30)
    one = [node("node-0", gpus=draw.gpus)]
    return made(
        NOT_NOW,
        "LowerInOrder",
        "order",
        two_queues(),
        priority_class("high", 75),
        one,
        ahead,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def older_is_served_first(draw: Draw) -> Made:
    ahead = job("ahead", gpus=draw.gpus, namespace="ml", created=NOW - 3600)
    one = [node("node-0", gpus=draw.gpus)]
    return made(
        NOT_NOW, "LowerInOrder", "order", two_queues(), one, ahead, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


def another_queue_is_served_first(draw: Draw) -> Made:
    """The other queue is owed what is free; the job's own has used up its quota."""
    draw.nodes = 2
    mine = job(
        "mine", gpus=draw.gpus, on="node-0", namespace="ml", preemptibility="non-preemptible", created=NOW - 7200
    )
    theirs = job("theirs", gpus=draw.gpus, queue="others", namespace="others", created=NOW - 30)
    queues = [queue("q", quota=draw.gpus), queue("others", quota=draw.gpus)]
    asked = draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    return made(
        NOT_NOW, ("LowerInOrder", "OverFairShare"), ("order", "fairness"), queues, draw.machines(), mine, theirs, asked
    )


def beyond_its_fair_share(draw: Draw) -> Made:
    """Both queues hold their half, and may be reclaimed from; the job's queue would go beyond its own."""
    draw.nodes = 2
    half = draw.gpus
    mine = job("mine", gpus=draw.gpus, on="node-0", namespace="ml", created=NOW - 7200)
    theirs = job("theirs", gpus=draw.gpus, on="node-1", namespace="others", queue="others", created=NOW - 7200)
    return made(
        NOT_NOW,
        "OverFairShare",
        "fairness",
        queue("q", quota=half),
        queue("others", quota=half),
        draw.machines(),
        mine,
        theirs,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def equal_priorities(draw: Draw) -> Made:
    """The cluster is full of jobs that may be preempted, of its own queue, but not of lower priority."""
    busy = draw.filled(queue="q", preemptibility="preemptible", priority="train")
    asked = draw.asked(gpus=draw.rng.randint(1, draw.gpus), priority="train")
    return made(
        NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), priority_class("train", 50), draw.machines(), busy, asked
    )


def _reclaimable(draw: Draw, **queue_fields: str) -> tuple[Objects, Objects]:
    """Queues, nodes and jobs of another queue beyond its share, which the job in question would take back from."""
    total = draw.gpus * draw.nodes
    queues = [queue("q", quota=total), queue("others", quota=0, **queue_fields)]  # type: ignore[arg-type]
    busy = [
        each
        for number in range(draw.nodes)
        for each in job(
            f"busy-{number}",
            gpus=draw.gpus,
            on=f"node-{number}",
            queue="others",
            namespace="others",
            created=NOW - 300,
            started=NOW - 300,
        )
    ]
    return [*queues, *draw.machines()], busy


def preemption_delay(draw: Draw) -> Made:
    base, busy = _reclaimable(draw)
    return made(
        NOT_NOW,
        "PreemptionDelayNotElapsed",
        "fairness",
        base,
        busy,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus), preemption_delay=f"{draw.rng.randint(5, 60)}m"),
    )


def min_runtime(draw: Draw) -> Made:
    base, busy = _reclaimable(draw, reclaim_min_runtime=f"{draw.rng.randint(1, 5)}h")
    return made(
        NOT_NOW, "MinRuntimeNotElapsed", "fairness", base, busy, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


def disruption_budget(draw: Draw) -> Made:
    base, busy = _reclaimable(draw)
    labelled = [
        msgspec.structs.replace(
            each,
            metadata=with_labels(each, {"app": "busy"}),
            status=msgspec.structs.replace(each.status, conditions=(PodCondition(type="Ready", status="True"),)),
        )
        if isinstance(each, Pod)
        else each
        for each in busy
    ]
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="others", generation=1),
        spec=PodDisruptionBudgetSpec(maxUnavailable=0, selector=LabelSelector(matchLabels={"app": "busy"})),
        status=PodDisruptionBudgetStatus(
            disruptionsAllowed=0,
            currentHealthy=draw.nodes,
            desiredHealthy=draw.nodes,
            expectedPods=draw.nodes,
            observedGeneration=1,
        ),
    )
    return made(
        NOT_NOW, "EvictionRefused", "fairness", base, labelled, budget, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


BUILDERS = (
    over_limit,
    over_limit_of_parent,
    over_limit_of_cpu,
    limit_below_request,
    over_quota,
    quota_below_request,
    queue_missing,
    queue_has_children,
    higher_priority_is_served_first,
    older_is_served_first,
    another_queue_is_served_first,
    beyond_its_fair_share,
    equal_priorities,
    preemption_delay,
    min_runtime,
    disruption_budget,
)
