"""`bosket migrate` on a cluster with objects as KAI's chart and operator make them: says what becomes of each."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.diagnosis import test_migration
from tests.e2e.cluster import Cluster

HERE = Path(test_migration.__file__).parent
KUEUE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: topologies.kueue.x-k8s.io}
spec:
  group: kueue.x-k8s.io
  names: {kind: Topology, listKind: TopologyList, plural: topologies, singular: topology}
  scope: Cluster
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


async def migrate(kubeconfig: Path) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bosket"),
        *("migrate", f"--kubeconfig={kubeconfig}", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    document: dict[str, Any] = json.loads(output)
    return document


async def test_a_cluster_that_runs_kai_is_told_what_changes(cluster: Cluster) -> None:
    """Nothing is written: what was there before is there after, in the same version."""
    manifests = [(HERE / name).read_text() for name in ("kai_cluster.yaml", "kai_webhooks.yaml", "kueue_topology.yaml")]
    work = f"namespace: {cluster.namespace}"
    system, users = _parts(manifests[0].replace("namespace: ml", work), work)
    applied = [(users, cluster.namespace), (system, "kai-scheduler"), (KUEUE, "default"), (manifests[2], "default")]
    applied.append((manifests[1], "default"))  # last: from then on, queues can't be written
    try:
        for manifest, namespace in applied:
            await cluster.kubectl("apply", f"--namespace={namespace}", "-f", "-", stdin=manifest)
            if manifest is KUEUE:
                await cluster.kubectl("wait", "--for=condition=Established", "crd/topologies.kueue.x-k8s.io")
        before = await _versions(cluster)
        plan = await migrate(cluster.kubeconfig)
        assert await _versions(cluster) == before
    finally:
        for manifest, namespace in reversed(applied):
            arguments = ("delete", "--wait=false", "--ignore-not-found", f"--namespace={namespace}", "-f", "-")
            await cluster.kubectl(*arguments, stdin=manifest)
    told = {(each["outlook"], each["object"], each["field"]) for each in plan["items"]}
    # Others' pods and groups may be there, too: only single objects can be counted on.
    expected = {
        (outlook, name.replace(" ml/", f" {cluster.namespace}/"), field)
        for outlook, name, field in test_migration.EXPECTED
        if not name[0].isdigit()
    }
    assert expected <= told
    assert ("keep", "CustomResourceDefinition queues.scheduling.run.ai", "") in told
    assert plan["kaiVersion"] == "v0.17.1"
    assert "stop KAI's operator" in [step["title"] for step in plan["steps"]]


def _parts(text: str, work: str) -> tuple[str, str]:
    """What the chart made, and what users did: kubectl applies to one namespace at a time."""
    documents = text.split("\n---\n")
    return (
        "\n---\n".join(each for each in documents if work not in each),
        "\n---\n".join(each for each in documents if work in each),
    )


async def _versions(cluster: Cluster) -> str:
    kinds = "configs.kai.scheduler,schedulingshards,queues,topologies.kueue.x-k8s.io,validatingwebhookconfigurations"
    columns = "-o=custom-columns=NAME:.metadata.name,VERSION:.metadata.resourceVersion"
    return await cluster.kubectl("get", kinds, columns)
