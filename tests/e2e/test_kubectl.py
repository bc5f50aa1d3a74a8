"""kubectl's daily verbs."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml

from bosket.api.batch import Job
from bosket.api.core import ConfigMap, Pod
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, config_map, deployment, job, pod

SERVICES = ("podgrouper", "scheduler", "binder")


def text(*manifests: Manifest) -> str:
    return yaml.safe_dump_all(manifests)


async def test_apply_creates_changes_and_leaves_alone(cluster: Cluster) -> None:
    manifest = config_map("settings", {"colour": "red", "size": "1"})
    assert await cluster.kubectl("apply", "-f", "-", stdin=text(manifest)) == "configmap/settings created\n"
    assert await cluster.kubectl("apply", "-f", "-", stdin=text(manifest)) == "configmap/settings unchanged\n"
    changed = config_map("settings", {"colour": "blue"})
    assert await cluster.kubectl("apply", "-f", "-", stdin=text(changed)) == "configmap/settings configured\n"
    assert (await cluster.client.get(ConfigMap, "settings", cluster.namespace)).data == {"colour": "blue"}


async def test_apply_on_the_server_side(cluster: Cluster) -> None:
    manifest = config_map("settings", {"colour": "red"})
    output = await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text(manifest))
    assert output == "configmap/settings serverside-applied\n"
    assert (await cluster.client.get(ConfigMap, "settings", cluster.namespace)).data == {"colour": "red"}


async def test_apply_refuses_what_the_schema_refuses_and_names_the_field(cluster: Cluster) -> None:
    bad = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": f"{cluster.namespace}-bad"}}
    bad["spec"] = {"resources": {"gpu": {"quota": -5}}}
    output = await cluster.kubectl("apply", "-f", "-", stdin=text(bad), code=1)
    assert "spec.resources.gpu.quota" in output


async def test_a_kind_that_is_not_there_is_named(cluster: Cluster) -> None:
    """kubectl reads the OpenAPI document in protobuf when it meets one."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "a"}}
    for verb in ("apply", "create", "replace"):
        output = await cluster.kubectl(verb, "-f", "-", stdin=text(unknown), code=1)
        assert 'no matches for kind "Nothing" in version "example.com/v1"' in output
        assert "NotAcceptable" not in output


async def test_get_shows_tables_for_people(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await cluster.client.create(pod("p", nodeName=node), cluster.namespace)

    async def running_row() -> list[str] | None:
        header, *rows = (await cluster.kubectl("get", "pods", "-o", "wide")).splitlines()
        assert header.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert {"IP", "NODE"} <= set(header.split())
        return rows[0].split() if "Running" in rows[0] else None

    row = await cluster.eventually(running_row)
    assert row[:3] == ["p", "1/1", "Running"]
    assert node in row
    nodes = await cluster.kubectl("get", "nodes", node)
    assert nodes.splitlines()[1].split()[:2] == [node, "Ready"]


async def test_get_shows_the_columns_of_custom_objects_and_knows_their_short_names(cluster: Cluster) -> None:
    parent = await cluster.add_queue()
    child = await cluster.add_queue(parent=parent)
    output = await cluster.kubectl("get", "queue", child)
    header, row = output.splitlines()
    assert header.split()[:3] == ["NAME", "PRIORITY", "PARENT"]
    assert row.split()[:2] == [child, parent]
    assert "No resources found" in await cluster.kubectl("get", "pg")


async def test_get_speaks_json_yaml_names_and_paths(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a", {"k": "v"}), cluster.namespace)
    assert json.loads(await cluster.kubectl("get", "cm", "a", "-o", "json"))["data"] == {"k": "v"}
    assert yaml.safe_load(await cluster.kubectl("get", "cm", "a", "-o", "yaml"))["data"] == {"k": "v"}
    assert await cluster.kubectl("get", "cm", "a", "-o", "name") == "configmap/a\n"
    assert await cluster.kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}") == "v"
    missing = await cluster.kubectl("get", "cm", "missing", code=1)
    assert 'Error from server (NotFound): configmaps "missing" not found' in missing


async def test_get_sorts_selects_and_shapes_what_it_shows(cluster: Cluster) -> None:
    for index in range(5):
        labels = {"parity": "odd" if index % 2 else "even", "set": "mine"}
        manifest = config_map(f"cm-{index}", {"rank": str(9 - index)}, labels=labels)
        await cluster.client.create(manifest, cluster.namespace)
    mine = ("get", "cm", "-l", "set=mine")
    names = [f"cm-{index}" for index in range(5)]
    rows = (await cluster.kubectl(*mine, "--chunk-size=2", "--no-headers")).splitlines()
    assert [row.split()[0] for row in rows] == names
    columns = await cluster.kubectl(*mine, "-o", "custom-columns=NAME:.metadata.name,RANK:.data.rank,NONE:.data.none")
    assert [line.split() for line in columns.splitlines()[:2]] == [["NAME", "RANK", "NONE"], ["cm-0", "9", "<none>"]]
    ranks = '-o=jsonpath={range .items[*]}{.data.rank}{"\\n"}{end}'
    assert await cluster.kubectl(*mine, "--sort-by=.data.rank", ranks) == "5\n6\n7\n8\n9\n"
    odd = await cluster.kubectl("get", "cm", "-l", "parity=odd", "-o", "name")
    assert odd == "configmap/cm-1\nconfigmap/cm-3\n"
    one = await cluster.kubectl("get", "cm", "--field-selector=metadata.name=cm-4", "-o", "name")
    assert one == "configmap/cm-4\n"
    assert "parity=even,set=mine" in await cluster.kubectl("get", "cm", "cm-0", "--show-labels")
    both = await cluster.kubectl("get", "cm/cm-0", "sa/default", "-o", "name")
    assert both == "configmap/cm-0\nserviceaccount/default\n"
    everywhere = await cluster.kubectl("get", "cm", "-A", "-l", "set=mine", "--no-headers")
    assert {line.split()[0] for line in everywhere.splitlines()} == {cluster.namespace}
    template = "--template={{range .items}}{{.metadata.name}} {{end}}"
    assert (await cluster.kubectl(*mine, "-o", "go-template", template)).split() == names


async def test_get_watches(cluster: Cluster) -> None:
    await cluster.client.create(config_map("first"), cluster.namespace)
    async with cluster.running_kubectl("get", "configmaps", "-w", "-o", "name") as process:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            await _until(process.stdout, "configmap/first")
            await cluster.client.create(config_map("second"), cluster.namespace)
            await _until(process.stdout, "configmap/second")
            await cluster.client.delete(ConfigMap, "first", cluster.namespace)
            await _until(process.stdout, "configmap/first")


async def test_describe_tells_of_a_pod_and_what_happened_to_it(cluster: Cluster) -> None:
    await cluster.start_services(*SERVICES)
    await cluster.client.create(pod("p", gpus=1), cluster.namespace)

    async def event_in_description() -> str | None:
        description = await cluster.kubectl("describe", "pod", "p")
        return description if "Unschedulable" in description else None

    description = await cluster.eventually(event_in_description)
    assert "Name:             p" in description
    assert "nvidia.com/gpu:  1" in description
    assert "kai-scheduler" in description


async def test_describe_tells_of_a_node(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    description = await cluster.kubectl("describe", "node", node)
    assert "KubeletReady" in description
    assert "nvidia.com/gpu" in description


async def test_wait_returns_when_the_condition_holds(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.kubectl("apply", "-f", "-", stdin=text(job("train", pods=2, gpus=1, run_duration="500ms")))
    output = await cluster.kubectl("wait", "--for=condition=Complete", "job/train", "--timeout=120s")
    assert output == "job.batch/train condition met\n"


async def test_wait_gives_up_in_time(cluster: Cluster) -> None:
    await cluster.client.create(pod("p"), cluster.namespace)
    output = await cluster.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=1s", code=1)
    assert "timed out waiting for the condition" in output


async def test_rollout_follows_a_deployment(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    queue = await cluster.add_queue()
    await cluster.kubectl("apply", "-f", "-", stdin=text(deployment("serve", replicas=2, queue=queue)))
    output = await cluster.kubectl("rollout", "status", "deployment/serve", "--timeout=120s")
    assert 'deployment "serve" successfully rolled out' in output


async def test_scale_sets_the_number_of_replicas(cluster: Cluster) -> None:
    await cluster.client.create(deployment("serve", replicas=1), cluster.namespace)
    assert await cluster.kubectl("scale", "deployment/serve", "--replicas=3") == "deployment.apps/serve scaled\n"
    assert await cluster.kubectl("get", "deployment", "serve", "-o", "jsonpath={.spec.replicas}") == "3"
    refused = await cluster.kubectl("scale", "deployment/serve", "--current-replicas=7", "--replicas=1", code=1)
    assert "Expected replicas to be 7, was 3" in refused


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"metadata": {"labels": {"seen": "yes"}}}'),
        ("merge", '{"metadata": {"labels": {"seen": "yes"}}}'),
        ("json", '[{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]'),
    ],
)
async def test_patch_of_every_type(cluster: Cluster, kind: str, patch: str) -> None:
    await cluster.client.create(config_map("a"), cluster.namespace)
    assert await cluster.kubectl("patch", "cm", "a", f"--type={kind}", "-p", patch) == "configmap/a patched\n"
    found = await cluster.client.get(ConfigMap, "a", cluster.namespace)
    assert found.metadata.labels == {"seen": "yes"}


async def test_label_and_annotate(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a"), cluster.namespace)
    await cluster.kubectl("label", "cm", "a", "colour=red")
    await cluster.kubectl("annotate", "cm", "a", "note=hello")
    assert await cluster.kubectl("get", "cm", "-l", "colour=red", "-o", "name") == "configmap/a\n"
    await cluster.kubectl("label", "cm", "a", "colour-")
    found = await cluster.client.get(ConfigMap, "a", cluster.namespace)
    assert found.metadata.labels == {}
    assert found.metadata.annotations["note"] == "hello"


async def test_delete_waits_until_it_is_gone(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await cluster.client.create(pod("p", nodeName=node), cluster.namespace)
    output = await cluster.kubectl("delete", "pod", "p")
    assert 'pod "p" deleted' in output
    assert (await cluster.client.list(Pod, cluster.namespace)).items == []


async def test_delete_of_a_job_takes_its_pods_along(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("train", pods=2, gpus=1), cluster.namespace)

    async def pods_run() -> bool:
        found = (await cluster.client.list(Pod, cluster.namespace)).items
        return [each.status.phase for each in found] == ["Running", "Running"]

    await cluster.eventually(pods_run)
    await cluster.kubectl("delete", "job", "train")

    async def nothing_is_left() -> bool:
        jobs = (await cluster.client.list(Job, cluster.namespace)).items
        return not jobs and not (await cluster.client.list(Pod, cluster.namespace)).items

    await cluster.eventually(nothing_is_left)


async def test_version_and_api_resources(cluster: Cluster) -> None:
    assert "Server Version" in await cluster.kubectl("version")
    output = await cluster.kubectl("api-resources", "-o", "name")
    assert {"pods", "jobs.batch", "queues.scheduling.run.ai", "podgroups.scheduling.run.ai"} <= set(output.split())


async def test_explain_tells_the_fields_of_a_kind(cluster: Cluster) -> None:
    output = await cluster.kubectl("explain", "queue.spec.resources.gpu.quota")
    assert "quota" in output
    assert "-1 is unlimited" in output


async def test_explain_tells_all_fields_below_one(cluster: Cluster) -> None:
    output = await cluster.kubectl("explain", "queue.spec", "--recursive")
    assert output.splitlines()[0].split() == ["GROUP:", "scheduling.run.ai"]
    fields = [line.split()[0] for line in output.partition("FIELDS:")[2].splitlines() if line.strip()]
    assert fields[:2] == ["displayName", "parentQueue"]
    resources = fields[fields.index("resources") :]
    assert resources[:5] == ["resources", "cpu", "limit", "overQuotaWeight", "quota"]
    assert "restartPolicy" in await cluster.kubectl("explain", "pod.spec.containers", "--recursive")
    assert 'field "colour" does not exist' in await cluster.kubectl("explain", "queue.spec.colour", code=1)


async def test_api_resources_can_be_filtered(cluster: Cluster) -> None:
    batch = await cluster.kubectl("api-resources", "--api-group=batch", "-o", "name")
    assert batch.split() == ["cronjobs.batch", "jobs.batch"]
    outside = (await cluster.kubectl("api-resources", "--namespaced=false", "-o", "name")).split()
    assert {"nodes", "namespaces", "queues.scheduling.run.ai"} <= set(outside)
    assert "pods" not in outside
    assert {"v1", "apps/v1", "scheduling.run.ai/v2"} <= set((await cluster.kubectl("api-versions")).split())


async def _until(stream: asyncio.StreamReader, line: str) -> None:
    while True:
        read = (await stream.readline()).decode()
        assert read, f"kubectl ended before it printed {line}"
        if read.strip() == line:
            return
