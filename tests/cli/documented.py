"""The cluster of docs/commands.md: what each command shows there is what it prints of this one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bosket.api.core import Event, ObjectReference, Pod
from bosket.api.kai import PodGroup
from bosket.api.keys import (
    EVICTOR_ACTION_ANNOTATION,
    EVICTOR_POD_GROUP_ANNOTATION,
    EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION,
)
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.api.time import format_time
from bosket.cli.cluster_source import History
from bosket.scheduler.model.cause import QueueBalance, Reclaimed
from bosket.testing.build import cordoned, job, node, priority_class, queue
from bosket.testing.cluster import NOW
from tests.cli.everyday import in_rack, owned

HOUR = 3600.0


def _work(
    name: str, queue_name: str, pods: int, gpus: int, *, on: tuple[str, ...] = (), hours: float, priority: str
) -> list[KubeObject]:
    """A batch Job with its pod group, as old as that; named as the pod grouper names it."""
    namespace, _, workload = name.partition("/")
    made = job(
        f"pg-{workload}-4f2c", pods, gpus=gpus, on=on, queue=queue_name, namespace=namespace,
        created=NOW - hours * HOUR, priority=priority,
    )  # fmt: skip
    return owned(made, workload)


def objects() -> list[KubeObject]:
    return [
        priority_class("train", 50),
        priority_class("inference", 125),
        queue("company", quota=48),
        queue("production", parent="company", quota=16),
        queue("research", parent="company", quota=32),
        queue("nlp", parent="research", quota=16),
        queue("vision", parent="research", quota=16, limit=24),
        *(in_rack(node(f"node-{at}"), f"rack-{at // 3}") for at in range(5)),
        in_rack(cordoned(node("node-5")), "rack-1"),
        *_work("web/serving", "production", 2, 2, on=("node-0", "node-0"), hours=50, priority="inference"),
        *_work("nlp/pretrain", "nlp", 3, 8, on=("node-1", "node-2", "node-3"), hours=6.2, priority="train"),
        *_work("nlp/finetune", "nlp", 1, 3, on=("node-0",), hours=1.5, priority="train"),
        *_work("nlp/llama-70b", "nlp", 4, 8, hours=5, priority="train"),
        *_work("nlp/nightly-eval", "nlp", 1, 2, hours=0.2, priority="train"),
        *_work("vision/detector", "vision", 2, 4, on=("node-4", "node-4"), hours=3, priority="train"),
        *_work("vision/segment", "vision", 2, 8, hours=2, priority="train"),
        *_work("vision/panorama", "vision", 4, 8, hours=1, priority="train"),
    ]


def history() -> History:
    """What happened in the last hours: `ablation` of nlp had to go for the detector of vision."""
    groups = [each for each in objects() if isinstance(each, PodGroup)]
    pods = [each for each in objects() if isinstance(each, Pod)]
    gone = owned(job("pg-ablation-77aa", 2, gpus=4, queue="nlp", namespace="nlp"), "ablation")[0]
    assert isinstance(gone, PodGroup)
    events = [
        *(_started(f"pretrain-{at}", "nlp", f"node-{at + 1}", 6.2) for at in range(3)),
        *(_evicted(f"ablation-{at}", 3.0) for at in range(2)),
        *(_started(f"detector-{at}", "vision", "node-4", 2.99) for at in range(2)),
        _started("finetune-0", "nlp", "node-0", 1.5),
    ]
    named = [_called(each) for each in pods]
    return History(events, [*groups, gone], named, NOW, "default", is_live=True)


def _called(pod: Pod) -> Pod:
    """The pod with the name that its Job gives it."""
    name = pod.metadata.name.replace("pg-", "").replace("-4f2c", "")
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def _started(pod: str, namespace: str, on: str, hours: float) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{pod}.s", namespace=namespace),
        involvedObject=ObjectReference(kind="Pod", name=pod, namespace=namespace),
        reason="Scheduled",
        message=f"Successfully assigned pod {namespace}/{pod} to node {on} at node-pool default",
        firstTimestamp=format_time(NOW - hours * HOUR),
    )


def _evicted(pod: str, hours: float) -> Event:
    def balance(name: str, gpus: float) -> QueueBalance:
        return QueueBalance(name, (gpus, 0.0, 0.0), (16.0, -1.0, -1.0), (16.0, 0.0, 0.0), 100)

    key, by = ObjectKey("nlp", pod), ObjectKey("vision", "pg-detector-4f2c")
    text = Reclaimed(balance("nlp", 35), balance("vision", 0), within_quota=True).text(key, by)
    lost = "Run time lost: 12.40 GPU hours of the pod, 24.80 of workload nlp/pg-ablation-77aa"
    return Event(
        metadata=ObjectMeta(
            name=f"{pod}.e",
            namespace="nlp",
            annotations={
                EVICTOR_ACTION_ANNOTATION: "reclaim",
                EVICTOR_POD_GROUP_ANNOTATION: by.name,
                EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION: by.namespace,
            },
        ),
        involvedObject=ObjectReference(kind="PodGroup", name="pg-ablation-77aa", namespace="nlp"),
        reason="Evict",
        message=f"{text}\n{lost}",
        firstTimestamp=format_time(NOW - hours * HOUR),
    )


#: Where the blocks are.
DOCUMENT = Path(__file__).parents[2] / "docs" / "commands.md"
