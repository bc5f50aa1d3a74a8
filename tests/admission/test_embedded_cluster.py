"""The embedded cluster refuses and completes as a real one with our webhooks does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

from bosket.api.core import Pod
from bosket.api.kai import (
    BindRequest,
    PodGroup,
    PodGroupSpec,
    Queue,
    QueueResources,
    QueueSpec,
    SubGroup,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from bosket.api.object import KubeObject, ObjectMeta
from bosket.apiserver.admission.attributes import Operation
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.object_admission import ObjectAdmission
from bosket.kube.client import Client
from bosket.kube.errors import Forbidden
from bosket.runtime.webhook.registration import Reach
from bosket.services.admission import Options, PodRules
from bosket.services.admission.registration import configurations
from tests.admission.pods import pod

pytestmark = pytest.mark.slow

HALF = {"gpu-fraction": "0.5"}


def named(annotations: dict[str, str], **fields: Any) -> Pod:
    return pod(annotations, meta={"namespace": "default"}, **fields)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with EmbeddedCluster(nodes=0, services=("admission",)) as cluster:
        yield cluster.client()


async def test_a_bad_pod_is_refused_with_the_sentence(client: Client) -> None:
    with pytest.raises(Forbidden) as raised:
        await client.create(named({"gpu-fraction": "1.5"}))
    status = raised.value.status
    assert status.message == (
        'pods "train" is forbidden: annotation gpu-fraction is "1.5": it must be a number above 0 and below 1, such as '
        "0.5; whole GPUs are asked for with the limit nvidia.com/gpu"
    )
    assert status.details is not None
    assert [cause.field for cause in status.details.causes] == ["metadata.annotations[gpu-fraction]"]


async def test_a_good_pod_gets_what_it_needs(client: Client) -> None:
    made = await client.create(named(HALF))
    prefix = made.metadata.annotations["runai/shared-gpu-configmap"]
    (main,) = made.spec.containers
    assert [each.name for each in main.env] == ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"]
    assert main.envFrom[0].configMapRef is not None
    assert main.envFrom[0].configMapRef.name == f"{prefix}-0-evar"
    assert f"{prefix}-0-vol" in [each.name for each in made.spec.volumes]
    assert made.spec.runtimeClassName == "nvidia"


async def test_a_pod_may_not_become_bad_later(client: Client) -> None:
    await client.create(named(HALF))
    with pytest.raises(Forbidden, match="must be a number above 0 and below 1"):
        await client.patch(Pod, "train", {"metadata": {"annotations": {"gpu-fraction": "NaN"}}}, namespace="default")
    await client.patch(Pod, "train", {"metadata": {"labels": {"a": "b"}}}, namespace="default")


async def test_other_schedulers_pods_are_left_alone(client: Client) -> None:
    made = await client.create(named({"gpu-fraction": "7"}, scheduler="default-scheduler"))
    assert made.spec.containers[0].env == ()


BAD: list[tuple[KubeObject, str]] = [
    (Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec()), "resources must be specified"),
    (
        PodGroup(
            metadata=ObjectMeta(name="g", namespace="default"),
            spec=PodGroupSpec(queue="q", subGroups=(SubGroup(name="a", parent="b", minMember=1),)),
        ),
        "parent b of a was not found",
    ),
    (
        Topology(metadata=ObjectMeta(name="t"), spec=TopologySpec(levels=(TopologyLevel(nodeLabel="a", alias="a"),))),
        "is the nodeLabel of a level",
    ),
]


async def test_queues_pod_groups_and_topologies_are_checked_too(client: Client) -> None:
    for bad, words in BAD:
        with pytest.raises(Forbidden, match=words):
            await client.create(bad)


async def test_without_admission_nothing_is_asked() -> None:
    async with EmbeddedCluster(nodes=0, services=()) as cluster:
        await cluster.client().create(named({"gpu-fraction": "1.5"}))


async def test_it_runs_with_the_options_that_it_is_given() -> None:
    options = {"admission": Options(pods=PodRules())}
    async with EmbeddedCluster(nodes=0, services=("admission",), service_options=options) as cluster:
        with pytest.raises(Forbidden, match="GPU sharing is switched off"):
            await cluster.client().create(named(HALF))


async def test_access_control_is_in_force_where_it_is_asked_for() -> None:
    options = Options(access_control=True)
    async with EmbeddedCluster(nodes=0, services=("admission",), service_options={"admission": options}) as cluster:
        admin = cluster.client()
        annotations = {"bosket.dev/allowed-namespaces": "elsewhere"}
        resources = {"gpu": {"quota": 1}, "cpu": {}, "memory": {}}
        manifest = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "closed", "annotations": annotations},
            "spec": {"resources": resources},
        }
        await admin.create(manifest)
        bad = {**manifest, "metadata": {"name": "bad", "annotations": {"bosket.dev/allowed-subjects": "jane"}}}
        with pytest.raises(Forbidden, match="nobody may use queue bad while its rule can't be read"):
            await admin.create(bad)
        mine = pod({}, meta={"namespace": "default", "labels": {"kai.scheduler/queue": "closed"}})
        with pytest.raises(Forbidden, match="namespace default may not use queue closed"):
            await admin.create(mine)
        request = BindRequest(metadata=ObjectMeta(name="a", namespace="default"))
        await admin.create(request)
        jane = await administrator(cluster, "jane")
        with pytest.raises(Forbidden, match="jane may not write BindRequests"):
            await jane.create(request)


async def administrator(cluster: EmbeddedCluster, name: str) -> Client:
    """Somebody with all rights who isn't one of the cluster's masters."""
    rbac = "rbac.authorization.k8s.io"
    everything = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": name}],
    }
    await cluster.client().create(everything)
    return Client(cluster.server.transport(name, ("system:authenticated",)))


async def test_nobody_but_services_writes_the_status_of_a_bind_request_or_deletes_one() -> None:
    options = Options(access_control=True)
    async with EmbeddedCluster(nodes=0, services=("admission",), service_options={"admission": options}) as cluster:
        admin = cluster.client()
        await admin.create(BindRequest(metadata=ObjectMeta(name="a", namespace="default")))
        jane = await administrator(cluster, "jane")
        bound = {"status": {"phase": "Succeeded"}}
        with pytest.raises(Forbidden, match="jane may not write BindRequests"):
            await jane.patch(BindRequest, "a", bound, namespace="default", subresource="status")
        with pytest.raises(Forbidden, match="jane may not write BindRequests"):
            await jane.delete(BindRequest, "a", "default")
        binder = await administrator(cluster, "system:serviceaccount:kai-scheduler:binder")
        with pytest.raises(Forbidden, match="binder may not write BindRequests"):
            await binder.patch(BindRequest, "a", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
        await binder.patch(BindRequest, "a", bound, namespace="default", subresource="status")
        await binder.delete(BindRequest, "a", "default")


async def test_a_queue_with_running_jobs_stays(client: Client) -> None:
    await client.create(Queue(metadata=ObjectMeta(name="busy"), spec=QueueSpec(resources=QueueResources())))
    await client.create(PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(queue="busy")))
    used: dict[str, Any] = {"status": {"allocated": {"nvidia.com/gpu": "1"}}}
    running = {"status": {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "1"}}}}
    await client.patch(Queue, "busy", used, subresource="status")
    await client.patch(PodGroup, "g", running, namespace="default", subresource="status")
    told = (
        r'queues.scheduling.run.ai "busy" is forbidden: cannot delete queue busy: jobs of it are running \(default/g\)'
    )
    with pytest.raises(Forbidden, match=told):
        await client.delete(Queue, "busy")
    await client.delete(PodGroup, "g", "default")
    await client.delete(Queue, "busy")


@pytest.mark.parametrize("access_control", [False, True])
async def test_whatever_webhooks_are_registered_for_is_asked_in_process(access_control: bool) -> None:
    options = Options(access_control=access_control)
    registered = {
        (operation, group, resource)
        for each in configurations(options, Reach("kai-scheduler", "admission"), b"")
        for webhook in each.webhooks
        for rule in webhook.rules
        for operation in rule.operations
        for group in rule.apiGroups
        for resource in rule.resources
    }
    policed = {
        (operation, "scheduling.run.ai", resource)
        for operation in ("CREATE", "UPDATE", "DELETE")
        for resource in ("bindrequests", "bindrequests/status")
    }
    async with EmbeddedCluster(nodes=0, services=("admission",)) as cluster:
        admission = ObjectAdmission(options, cluster.server.store)
        asked = {
            (operation, kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural)
            for operation in get_args(Operation)
            for kind in cluster.server.registry
            for subresource in ("", "status", "scale", "binding", "eviction")
            if admission.handles(operation, kind, subresource)
        }
        served = {(kind.group, kind.plural) for kind in cluster.server.registry}
    expected = registered | (policed if access_control else set())
    assert asked == {each for each in expected if (each[1], each[2].partition("/")[0]) in served}
    assert ("DELETE", "scheduling.run.ai", "queues") in asked
