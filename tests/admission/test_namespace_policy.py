"""A namespace's labels say who schedules its pods, and in which queue, where the pods don't."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.core import Namespace, Pod
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.embedded.cluster import EmbeddedCluster
from bosket.runtime.clock import LoopClock
from bosket.services.admission.namespace_policy import follow
from tests.admission.pods import pod

POLICY = {"bosket.dev/scheduler-name": "kai-scheduler", "kai.scheduler/queue": "team-a"}
DAEMON = OwnerReference(apiVersion="apps/v1", kind="DaemonSet", name="d", uid="1")


def followed(given: Pod, labels: dict[str, str]) -> tuple[str, str | None]:
    after = follow(given, labels, "kai-scheduler", "kai.scheduler/queue")
    return after.spec.schedulerName, after.metadata.labels.get("kai.scheduler/queue")


@pytest.mark.parametrize(
    ("given", "labels", "expected"),
    [
        (pod(scheduler="default-scheduler"), POLICY, ("kai-scheduler", "team-a")),
        (pod(scheduler="default-scheduler"), {}, ("default-scheduler", None)),
        (pod(scheduler="theirs"), POLICY, ("theirs", None)),
        (pod(), {"kai.scheduler/queue": "team-a"}, ("kai-scheduler", "team-a")),
        (pod(meta={"labels": {"kai.scheduler/queue": "own"}}), POLICY, ("kai-scheduler", "own")),
        (pod(scheduler="default-scheduler"), {"bosket.dev/scheduler-name": "another"}, ("default-scheduler", None)),
        (pod(scheduler="default-scheduler", nodeName="n"), POLICY, ("default-scheduler", None)),
        (pod(scheduler="default-scheduler", meta={"ownerReferences": (DAEMON,)}), POLICY, ("default-scheduler", None)),
    ],
)
def test_what_a_pod_says_itself_stays(given: Pod, labels: dict[str, str], expected: tuple[str, str | None]) -> None:
    assert followed(given, labels) == expected
    again = follow(given, labels, "kai-scheduler", "kai.scheduler/queue")
    assert follow(again, labels, "kai-scheduler", "kai.scheduler/queue") is again


@pytest.mark.looptime
async def test_the_embedded_cluster_follows_it() -> None:
    async with EmbeddedCluster(nodes=0, services=("admission",), clock=LoopClock()) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await client.create(Namespace(metadata=ObjectMeta(name="ml", labels=POLICY)))
        made: Any = await client.create(pod(scheduler="default-scheduler"))
    assert (made.spec.schedulerName, made.metadata.labels) == ("kai-scheduler", {"kai.scheduler/queue": "team-a"})
