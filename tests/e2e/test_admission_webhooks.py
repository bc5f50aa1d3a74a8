"""Our admission service behind webhooks, on the embedded server as on a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bosket.api.admission import MutatingWebhookConfiguration
from bosket.api.core import Secret
from bosket.api.kai import PodGroup, PodGroupSpec, Queue, SubGroup
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.node_k8s import RuntimeClass
from bosket.api.object import ObjectMeta
from bosket.kube.errors import Forbidden
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod
from tests.e2e.test_admission import (
    HALF,
    PREFIX,
    SECRET,
    SENTENCE,
    apply,
    get,
    queue,
    serve_admission,
    withdraw_admission,
)


@pytest.fixture
async def guarded(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster with the admission service running beside it."""
    await cluster.client.create(RuntimeClass(metadata=ObjectMeta(name="nvidia"), handler="nvidia"))
    try:
        await serve_admission(cluster)
        yield cluster
    finally:
        await cluster.client.delete(RuntimeClass, "nvidia")
        await withdraw_admission(cluster)


async def test_pods_are_completed_and_refused(guarded: Cluster) -> None:
    output = await apply(guarded, pod("bad", annotations={"gpu-fraction": "1.5"}), code=1)
    assert "denied the request" in output
    assert SENTENCE in output
    await apply(guarded, pod("good", annotations=HALF))
    made = await get(guarded, "pod", "good")
    assert made["metadata"]["annotations"][PREFIX].startswith("good-")
    assert made["spec"]["runtimeClassName"] == "nvidia"


async def test_when_the_webhooks_are_down_unrelated_pods_are_still_created(guarded: Cluster) -> None:
    await guarded.stop_service("admission")
    await apply(guarded, pod("unrelated", scheduler="default-scheduler"))
    assert "failed calling webhook" in await apply(guarded, pod("ours"), code=1)


async def test_what_the_rules_do_not_read_may_change_without_being_asked_about(guarded: Cluster) -> None:
    """So that finalizers come off, and groups are noted in, at no cost, and also while the webhooks are down."""
    await apply(guarded, pod("ours"))
    await guarded.stop_service("admission")
    await guarded.kubectl("label", "pod", "ours", "team=a")
    told = await guarded.kubectl("annotate", "pod", "ours", "gpu-fraction=0.5", code=1)
    assert "failed calling webhook" in told


async def test_pod_groups_are_checked_when_they_have_sub_groups(guarded: Cluster) -> None:
    """And when these change; what else is written on them isn't asked about."""
    meta = ObjectMeta(name="tree", namespace=guarded.namespace)
    twice = (SubGroup(name="a", parent="b", minMember=1), SubGroup(name="b", parent="a", minMember=1))
    with pytest.raises(Forbidden, match="a"):
        await guarded.client.create(PodGroup(metadata=meta, spec=PodGroupSpec(subGroups=twice)))
    whole = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=1))
    await guarded.client.create(PodGroup(metadata=meta, spec=PodGroupSpec(subGroups=whole)))
    bad = {"spec": {"subGroups": [{"name": "a", "parent": "b", "minMember": 1}, {"name": "b", "parent": "a"}]}}
    with pytest.raises(Forbidden):
        await guarded.client.patch(PodGroup, "tree", bad, namespace=guarded.namespace)
    note = {"metadata": {"annotations": {"note": "x"}}}
    await guarded.client.patch(PodGroup, "tree", note, namespace=guarded.namespace)


async def test_queues_are_deleted_in_any_order_unless_jobs_run_there(guarded: Cluster) -> None:
    """As `kubectl delete queues --all` and pruning delete them: the parent may be the first to go."""
    top, leaf = f"{guarded.namespace}-a-top", f"{guarded.namespace}-b-leaf"
    for each in (queue(top, ""), queue(leaf, top)):
        await apply(guarded, each)
    meta = ObjectMeta(name="train", namespace=guarded.namespace)
    await guarded.client.create(PodGroup(metadata=meta, spec=PodGroupSpec(queue=leaf, minMember=1)))
    running = {"status": {"resourcesStatus": {"allocated": {"cpu": "1"}}}}
    await guarded.client.patch(PodGroup, "train", running, namespace=guarded.namespace, subresource="status")
    for name in (top, leaf):  # as the queue controller has it
        status = {"status": {"allocated": {"cpu": "1"}}}
        await guarded.client.patch(Queue, name, status, subresource="status")

    async def refused() -> bool:
        told = await guarded.kubectl("delete", "queue", top, "--dry-run=server", code=1)
        return f"cannot delete queue {top}: it has child queues [{leaf}], and jobs of it are running" in told

    await guarded.eventually(refused)
    await guarded.client.delete(PodGroup, "train", guarded.namespace)
    told = await guarded.kubectl("delete", "queue", top, leaf)
    assert f'Warning: queues below "{top}" ("{leaf}") can\'t be used without it' in told


async def test_the_webhooks_go_on_with_another_certificate(guarded: Cluster) -> None:
    """Also when the Secret is lost, and with it the authority."""
    before = await guarded.client.get(Secret, SECRET, SYSTEM_NAMESPACE)
    assert await registration_generation(guarded) == 1  # what is right was not written again
    await guarded.client.delete(Secret, SECRET, SYSTEM_NAMESPACE)

    async def another() -> bool:
        after = await guarded.client.get(Secret, SECRET, SYSTEM_NAMESPACE)
        return after.data["ca.crt"] != before.data["ca.crt"]

    await guarded.eventually(another)

    async def refused() -> bool:
        return SENTENCE in await apply(guarded, pod("bad", annotations={"gpu-fraction": "1.5"}), code=None)

    await guarded.eventually(refused)
    await apply(guarded, pod("good", annotations=HALF))
    assert await registration_generation(guarded) == 2


async def registration_generation(cluster: Cluster) -> int:
    """How often the configuration was made or changed."""
    configuration = await cluster.client.get(MutatingWebhookConfiguration, "mutating-kai-admission")
    return configuration.metadata.generation
