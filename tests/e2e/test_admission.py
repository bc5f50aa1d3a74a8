"""Admission as users meet it: through kubectl, on the embedded server in process, on a real one through webhooks.

That the webhooks work on the embedded server, too, is shown in `test_admission_webhooks.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bosket.api.node_k8s import RuntimeClass
from bosket.api.object import ObjectMeta
from bosket.services.admission import Options, PodRules
from tests.controlplane.plane import ControlPlane, free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job, pod
from tests.e2e.webhooks import withdraw_webhooks

HALF = {"gpu-fraction": "0.5"}
SENTENCE = 'annotation gpu-fraction is "1.5": it must be a number above 0 and below 1, such as 0.5'
PREFIX = "runai/shared-gpu-configmap"
SECRET = Options().secret_name
CONFIGURATIONS = ("validating-kai-admission", "kai-queue-validation-v2", "kai-podgroup-validation-v2alpha2")


@pytest.fixture
def embedded_services() -> tuple[str, ...]:
    return ("admission",)


@pytest.fixture
async def guarded(cluster: Cluster, control_plane_if_real: ControlPlane | None) -> AsyncIterator[Cluster]:
    """The cluster with admission in force."""
    # A real API server wants to know the runtime class that pods with shared GPUs are given.
    await cluster.client.create(RuntimeClass(metadata=ObjectMeta(name="nvidia"), handler="nvidia"))
    try:
        if control_plane_if_real is not None:
            await serve_admission(cluster)
        yield cluster
    finally:
        await cluster.client.delete(RuntimeClass, "nvidia")
        if control_plane_if_real is not None:
            await withdraw_admission(cluster)


async def serve_admission(cluster: Cluster) -> None:
    """Run the service beside the API server, and wait until it is asked."""
    (port,) = free_ports(1)
    rules = PodRules(gpu_sharing_enabled=True)
    options = Options(pods=rules, port=port, url=f"https://127.0.0.1:{port}", upkeep_seconds=0.2)
    await cluster.start_services("admission", options=options)

    async def in_force() -> bool:
        return "denied the request" in await apply(cluster, pod("probe", annotations={"gpu-fraction": "2"}), code=None)

    await cluster.eventually(in_force)


async def withdraw_admission(cluster: Cluster) -> None:
    await withdraw_webhooks(
        cluster, "admission", validating=CONFIGURATIONS, mutating="mutating-kai-admission", secret=SECRET
    )


async def apply(cluster: Cluster, manifest: dict[str, Any], *, code: int | None = 0, verb: str = "apply") -> str:
    """What kubectl says; any exit code will do if none is given."""
    if code is not None:
        return await cluster.kubectl(verb, "-f", "-", stdin=json.dumps(manifest), code=code)
    async with cluster.running_kubectl("create", "--dry-run=server", "-f", "-") as process:
        output, _ = await process.communicate(json.dumps(manifest).encode())
        return output.decode()


async def get(cluster: Cluster, kind: str, *arguments: str) -> Any:
    return json.loads(await cluster.kubectl("get", kind, *arguments, "-o", "json"))


async def test_a_bad_pod_is_refused_with_the_sentence(guarded: Cluster) -> None:
    output = await apply(guarded, pod("bad", annotations={"gpu-fraction": "1.5"}), code=1)
    assert SENTENCE in output
    assert "Forbidden" in output


async def test_a_good_pod_gets_annotation_variables_volume_and_runtime_class(guarded: Cluster) -> None:
    await apply(guarded, pod("good", annotations=HALF))
    made = await get(guarded, "pod", "good")
    prefix = made["metadata"]["annotations"][PREFIX]
    assert prefix.startswith("good-")
    assert prefix.endswith("-shared-gpu")
    (main,) = made["spec"]["containers"]
    assert [each["name"] for each in main["env"]] == ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"]
    assert {each["valueFrom"]["configMapKeyRef"]["name"] for each in main["env"]} == {f"{prefix}-0"}
    assert main["envFrom"] == [{"configMapRef": {"name": f"{prefix}-0-evar", "optional": False}}]
    volumes = {each["name"]: each for each in made["spec"]["volumes"]}
    assert volumes[f"{prefix}-0-vol"]["configMap"] == {"name": f"{prefix}-0", "defaultMode": 420}
    assert made["spec"]["runtimeClassName"] == "nvidia"
    # It may be changed, and not for the worse.
    await guarded.kubectl("label", "pod", "good", "a=b")
    output = await guarded.kubectl("annotate", "--overwrite", "pod", "good", "gpu-fraction=1.5", code=1)
    assert SENTENCE in output


async def test_pods_of_a_job_are_named_after_it_and_those_with_a_generated_name_after_its_beginning(
    guarded: Cluster,
) -> None:
    manifest = job("train", pods=1)
    manifest["spec"]["template"]["metadata"]["annotations"] |= HALF
    await apply(guarded, manifest)

    async def its_pod() -> dict[str, str] | None:
        found = await get(guarded, "pods", "-l", "workload=train")
        return found["items"][0]["metadata"]["annotations"] if found["items"] else None

    assert (await guarded.eventually(its_pod))[PREFIX].startswith("train-")

    generated = pod("", annotations=HALF)
    del generated["metadata"]["name"]
    generated["metadata"] |= {"generateName": "notebook-", "labels": {"made": "by-beginning"}}
    await apply(guarded, generated, verb="create")
    (made,) = (await get(guarded, "pods", "-l", "made=by-beginning"))["items"]
    assert made["metadata"]["annotations"][PREFIX].startswith("notebook-")


async def test_pods_of_other_schedulers_are_nobodys_business(guarded: Cluster) -> None:
    await apply(guarded, pod("other", annotations={"gpu-fraction": "1.5"}, scheduler="default-scheduler"))
    made = await get(guarded, "pod", "other")
    assert "env" not in made["spec"]["containers"][0]


def queue(name: str, parent: str, **gpu: float) -> dict[str, Any]:
    free = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": {**free, **gpu}, "cpu": free, "memory": free}},
    }


async def test_queues_are_warned_about_and_circles_of_them_refused(guarded: Cluster) -> None:
    one, two = f"{guarded.namespace}-a", f"{guarded.namespace}-b"
    try:
        output = await apply(guarded, queue(one, two, quota=4, limit=2))
        assert f'Warning: spec.parentQueue: there is no queue "{two}" (yet)' in output
        assert "Warning: spec.resources.gpu.limit is 2, below the quota (4)" in output

        async def refused() -> bool:
            output = await apply(guarded, queue(two, one), code=None)
            return f"would be its own ancestor ({two} → {one} → {two})" in output

        await guarded.eventually(refused)
    finally:
        await guarded.kubectl("delete", "queue", one)
