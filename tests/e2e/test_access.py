"""Who may use which queue and priority class, end to end: admission by webhook, then the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import Event, Pod
from bosket.api.kai import PodGroup, PodGroupSpec, Queue
from bosket.api.object import ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.scheduler.options import Options as SchedulerOptions
from bosket.services.admission import Options
from tests.controlplane.plane import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job, pod
from tests.e2e.test_admission import withdraw_admission
from tests.e2e.wire import Answer, Wire, on_the_wire

NAMESPACES, SUBJECTS = "bosket.dev/allowed-namespaces", "bosket.dev/allowed-subjects"


async def closed(cluster: Cluster, **annotations: str) -> str:
    """A queue with a rule; `{here}` in it is the test's namespace."""
    name = await cluster.add_queue()
    said = {f"bosket.dev/{key.replace('_', '-')}": each for key, each in annotations.items()}
    await cluster.client.patch(Queue, name, {"metadata": {"annotations": said}})
    return name


@pytest.fixture
async def guarded(cluster: Cluster) -> AsyncIterator[Cluster]:
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    try:
        await cluster.start_services("admission", options=Options(port=port, url=url, access_control=True))
        yield cluster
    finally:
        await withdraw_admission(cluster)


async def refused(cluster: Cluster, wire: Wire, resource: str, body: dict[str, Any], told: str) -> None:
    async def is_refused() -> bool:
        answer: Answer = await wire.create(resource, body, dryRun="All")
        assert answer.status == 403, answer.body
        assert told in answer.message, answer.message
        return True

    await cluster.eventually(is_refused)


async def test_pods_and_workloads_are_refused_to_namespaces_and_users_that_a_queue_is_not_for(guarded: Cluster) -> None:
    elsewhere = await closed(guarded, allowed_namespaces="elsewhere")
    janes = await closed(guarded, allowed_namespaces=guarded.namespace, allowed_subjects="user:jane")
    urgent = f"{guarded.namespace}-urgent"
    meta = ObjectMeta(name=urgent, annotations={NAMESPACES: "elsewhere"})
    await guarded.add(PriorityClass(metadata=meta, value=125))
    group = ["system:masters-of-nothing"]
    async with on_the_wire(guarded) as admin:
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await admin.create("rbac.authorization.k8s.io/v1/roles", {"metadata": {"name": "all"}, "rules": [rule]})
        reference = {"kind": "Role", "name": "all", "apiGroup": "rbac.authorization.k8s.io"}
        subject = {"kind": "Group", "name": group[0], "apiGroup": "rbac.authorization.k8s.io"}
        body = {"metadata": {"name": "all"}, "roleRef": reference, "subjects": [subject]}
        await admin.create("rbac.authorization.k8s.io/v1/rolebindings", body)
    of_jane = PodGroup(metadata=ObjectMeta(name="of-jane"), spec=PodGroupSpec(queue=janes, minMember=1))
    await guarded.client.create(of_jane, guarded.namespace)
    async with on_the_wire(guarded, user="joe", groups=group) as joe:
        here = f"namespace {guarded.namespace} may not use "
        await refused(guarded, joe, "pods", pod("p", queue=elsewhere), f"{here}queue {elsewhere}")
        await refused(guarded, joe, "pods", pod("p", queue=janes), f"joe may not use queue {janes}")
        await refused(guarded, joe, "batch/v1/jobs", job("j", pods=1, queue=janes), f"joe may not use queue {janes}")
        important = pod("p")
        important["spec"]["priorityClassName"] = urgent
        await refused(guarded, joe, "pods", important, f"{here}priority class {urgent}")
        member, template = pod("p"), job("j", pods=1)
        for each in (member, template["spec"]["template"]):
            each.setdefault("metadata", {})["annotations"] = {"pod-group-name": "of-jane"}
        told = f"pod group of-jane: joe may not use queue {janes}"
        await refused(guarded, joe, "pods", member, told)
        await refused(guarded, joe, "batch/v1/jobs", template, told)
        unnamed = job("j", pods=1)
        assert (await joe.create("batch/v1/jobs", unnamed, dryRun="All")).status == 201
    async with on_the_wire(guarded, user="jane", groups=group) as jane:
        assert (await jane.create("batch/v1/jobs", job("j", pods=1, queue=janes))).status == 201

    async def made_by_its_controller() -> bool:
        return bool((await guarded.client.list(Pod, guarded.namespace)).items)

    await guarded.eventually(made_by_its_controller)


async def test_the_scheduler_leaves_out_who_got_past_admission(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=2)
    queue = await closed(cluster, allowed_namespaces="elsewhere")
    await cluster.start_services("podgrouper")
    await cluster.start_services("scheduler", options=SchedulerOptions(access_control=True))
    await cluster.start_services("binder")
    await cluster.client.create(pod("out", queue=queue, gpus=1), cluster.namespace)

    async def is_told() -> bool:
        events = (await cluster.client.list(Event, cluster.namespace)).items
        wanted = f"namespace {cluster.namespace} may not use queue {queue}"
        return any(wanted in each.message for each in events)

    await cluster.eventually(is_told)
    found = await cluster.client.get(Queue, queue)
    opened = replace(found.metadata, annotations={NAMESPACES: cluster.namespace, SUBJECTS: "user:jane"})
    await cluster.client.modify(found, replace(found, metadata=opened))

    async def is_bound() -> bool:
        return bool((await cluster.client.get(Pod, "out", cluster.namespace)).spec.nodeName)

    await cluster.eventually(is_bound)
