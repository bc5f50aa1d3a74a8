"""`bosket doctor` reads a cluster over the network, with the rights of whoever asks, and finds what kubectl broke.

On a server that others use at the same time, only what is said of the test's own objects counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import ServiceAccount
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.object import ObjectMeta
from bosket.api.rbac import ClusterRole
from bosket.embedded.bootstrap import create_if_absent
from bosket.kube.client import Client
from bosket.kube.credentials import Credential, FixedCredential, bearer
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import load
from bosket.tools.doctor.collect import collect
from bosket.tools.doctor.diagnose import diagnose
from tests.e2e.cluster import Cluster
from tests.e2e.identity import give_rights
from tests.e2e.manifest import job

BROKEN = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}-orphan}}
spec:
  parentQueue: {name}-nowhere
  resources: {{gpu: {{quota: 4, limit: 2}}, cpu: {{limit: -1}}, memory: {{limit: -1}}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}-circle}}
spec:
  parentQueue: {name}-circle
  resources: {{gpu: {{limit: -1}}, cpu: {{limit: -1}}, memory: {{limit: 0}}}}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {{name: {name}-levels}}
spec: {{levels: [{{nodeLabel: example.com/nowhere}}]}}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {{name: {name}-shard}}
spec: {{partitionLabelValue: {name}, plugins: {{proportional: {{}}}}}}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {{name: {name}-default}}
spec: {{partitionLabelValue: ""}}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: lost, namespace: {name}}}
spec:
  minMember: 1
  queue: {name}-missing
  priorityClassName: {name}-urgent
  topologyConstraint: {{topology: {name}-t}}
---
apiVersion: v1
kind: Pod
metadata: {{name: stray, namespace: {name}}}
spec: {{schedulerName: {name}-scheduler, containers: [{{name: main, image: x}}]}}
"""
FOUND = {
    ("queue-parent-missing", "Queue {name}-orphan", "spec.parentQueue"),
    ("queue-limit-below-quota", "Queue {name}-orphan", "spec.resources.gpu.limit"),
    ("queue-circle", "Queue {name}-circle", "spec.parentQueue"),
    ("queue-limit-zero", "Queue {name}-circle", "spec.resources.memory.limit"),
    ("topology-level-on-no-node", "Topology {name}-levels", "spec.levels[0].nodeLabel"),
    ("shard-plugin-unknown", "SchedulingShard {name}-shard", "spec.plugins.proportional"),
    ("shard-without-nodes", "SchedulingShard {name}-shard", "spec.partitionLabelValue"),
    ("shard-without-queues", "SchedulingShard {name}-shard", "spec.partitionLabelValue"),
    ("podgroup-queue-unknown", "PodGroup {name}/lost", "spec.queue"),
    ("priority-class-missing", "PodGroup {name}/lost", "spec.priorityClassName"),
    ("topology-unknown", "PodGroup {name}/lost", "spec.topologyConstraint.topology"),
    ("scheduler-unknown", "Pod {name}/stray", "spec.schedulerName"),
    ("lease-expired", "Lease {system}/{name}-lease", "spec.renewTime"),
}


async def doctor(kubeconfig: Path) -> tuple[int, dict[str, Any]]:
    """The command itself, as a user runs it: exit code, and what it says in JSON."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bosket"),
        *("doctor", f"--kubeconfig={kubeconfig}", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert output, errors.decode()
    assert process.returncode is not None
    return process.returncode, json.loads(output)


def about(told: dict[str, Any], name: str) -> set[tuple[str, str, str]]:
    return {(each["code"], each["object"], each["field"]) for each in told["findings"] if name in each["object"]}


@asynccontextmanager
async def applied(cluster: Cluster, manifest: str) -> AsyncIterator[None]:
    """What isn't in the test's namespace goes with the block."""
    await cluster.kubectl("apply", "-f", "-", stdin=manifest)
    try:
        yield
    finally:
        await cluster.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=manifest)


async def test_a_cluster_on_which_work_runs_has_nothing_wrong(cluster: Cluster) -> None:
    await cluster.start_services("podgrouper", "podgroup-controller", "queue-controller", "scheduler", "binder")
    await cluster.add_nodes(1, gpus=4)
    queue = await cluster.add_queue(gpu_quota=2)
    await cluster.client.create(job("work", pods=1, queue=queue, gpus=1), cluster.namespace)

    async def runs() -> bool:
        pods = await cluster.kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
        return "pod/work" in pods

    await cluster.eventually(runs)
    diagnosis = diagnose(await collect(cluster.client, runs_in_process=True))
    about_us = [each for each in diagnosis.findings if cluster.namespace in each.object]
    assert about_us == []
    assert [each for each in diagnosis.findings if each.code.startswith(("crd-", "kind-", "object-"))] == []
    assert diagnosis.not_checked == {}


async def test_what_kubectl_broke_is_found(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    names = {"name": cluster.namespace, "system": SYSTEM_NAMESPACE}
    old = LeaseSpec(holderIdentity="gone", leaseDurationSeconds=15, renewTime="2026-01-01T00:00:00.000000Z")
    lease = Lease(metadata=ObjectMeta(name=f"{cluster.namespace}-lease", namespace=SYSTEM_NAMESPACE), spec=old)
    await cluster.client.create(lease)
    try:
        async with applied(cluster, BROKEN.format(**names)):
            code, told = await doctor(cluster.kubeconfig)
    finally:
        await cluster.client.delete(Lease, lease.metadata.name, SYSTEM_NAMESPACE)
    expected = {tuple(part.format(**names) for part in each) for each in FOUND}
    assert about(told, cluster.namespace) == expected
    assert code == 1


async def test_rights_that_a_service_account_lacks_are_found(cluster: Cluster) -> None:
    """With the installation's own roles nothing is missing; without one rule of them, just that."""
    client, name = cluster.client, "queue-controller"
    await create_if_absent(client, ServiceAccount(metadata=ObjectMeta(name=name, namespace=SYSTEM_NAMESPACE)))
    await give_rights(client, name)
    whole = await client.get(ClusterRole, f"kai-{name}")

    async def nothing_is_missing() -> bool:
        return await _refusals(cluster, name) == set()

    async def one_is_missing() -> bool:
        return await _refusals(cluster, name) == {"patch queues.scheduling.run.ai/status"}

    await cluster.eventually(nothing_is_missing)
    rules = tuple(rule for rule in whole.rules or () if "queues/status" not in rule.resources)
    narrowed = await client.modify(whole, msgspec.structs.replace(whole, rules=rules))
    try:
        await cluster.eventually(one_is_missing)
    finally:
        await client.modify(narrowed, msgspec.structs.replace(narrowed, rules=whole.rules))


async def _refusals(cluster: Cluster, account: str) -> set[str]:
    bundle = await collect(cluster.client)
    return {str(each.need) for each in bundle.refused or () if each.need.service_account == account}


async def test_whoever_may_see_little_is_told_what_was_not_checked(cluster: Cluster) -> None:
    token = (await cluster.kubectl("create", "token", "default")).strip()
    config = replace(load(cluster.kubeconfig), credentials=FixedCredential(Credential(bearer(token))))
    client = Client(HttpTransport(config))
    try:
        diagnosis = diagnose(await collect(client))
    finally:
        await client.aclose()
    forbidden = {each.object for each in diagnosis.findings if each.code == "kind-forbidden"}
    assert {"pods", "nodes", "queues.scheduling.run.ai"} <= forbidden
    assert "queue tree" in diagnosis.not_checked
