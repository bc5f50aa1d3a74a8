"""PodGangs on a real control plane whose own scheduler knows gangs: told by one backend or another, and back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from bosket.api import keys
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Pod
from bosket.api.grove import (
    GangPackConstraint,
    GangPodGroup,
    GangTopologyConstraint,
    NamespacedName,
    PodCliqueSet,
    PodGang,
    PodGangSpec,
)
from bosket.api.koordinator import ClusterNetworkTopology, ClusterNetworkTopologySpec, NetworkTopologyLayer
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup
from bosket.api.scheduling_k8s.v1beta1 import PodGroup, Workload
from bosket.api.table import resource_of
from bosket.api.volcano import HyperNode, HyperNodeSpec
from bosket.api.yunikorn import TaskGroup
from bosket.embedded.bootstrap import bootstrap
from bosket.grove.backends import SchedulerBackend, Surroundings, prepare_pod
from bosket.grove.backends.default import DefaultBackend
from bosket.grove.backends.gang_status import condition
from bosket.grove.backends.koordinator import KoordinatorBackend
from bosket.grove.backends.volcano import VolcanoBackend
from bosket.kube.kubeconfig import connect
from tests.controlplane import assets
from tests.controlplane.other_schedulers import find_files
from tests.controlplane.plane import ControlPlane, Options
from tests.e2e.cluster import Cluster, enter_cluster, find_kubectl
from tests.e2e.manifest import pod as pod_manifest
from tests.e2e.manifest import pod_spec

pytestmark = pytest.mark.real

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
RACK = "example.test/rack"
PARTS = ("a", "b")


@pytest.fixture(scope="module")
def gang_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with kube-scheduler, on which everything that knows gangs is switched on."""
    binaries = assets.find(print)
    if binaries is None:
        pytest.fail("the control plane is not built yet: `make e2e` does that, or `python -m tests.controlplane build`")
    options = Options(
        feature_gates=dict.fromkeys(GATES, True),
        runtime_config={"scheduling.k8s.io/v1beta1": True, "scheduling.k8s.io/v1alpha3": True},
        kube_scheduler=True,
    )
    with ControlPlane(binaries, tmp_path_factory.mktemp("gangplane"), options) as plane:
        asyncio.run(_bootstrap(plane))
        yield plane


async def _bootstrap(plane: ControlPlane) -> None:
    client = connect(plane.kubeconfig())
    try:
        await bootstrap(client)
    finally:
        await client.aclose()


@pytest.fixture
async def gang_cluster(gang_plane: ControlPlane) -> AsyncIterator[Cluster]:
    async with enter_cluster(gang_plane.kubeconfig(), find_kubectl(assets.find(print))) as cluster:
        yield cluster


GANG = "g-0"


async def start_set(cluster: Cluster, scheduler: str, *, size: int = 2) -> None:
    """A set `g` of cliques a and b, with so many pods each that ask for a GPU, all of them needed."""
    cliques = [
        {
            "name": name,
            "spec": {
                "roleName": name,
                "replicas": size,
                "minAvailable": size,
                "podSpec": pod_spec(gpus=1, scheduler=scheduler),
            },
        }
        for name in PARTS
    ]
    manifest = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "g", "namespace": cluster.namespace},
        "spec": {"replicas": 1, "template": {"cliques": cliques, "terminationDelay": "4h"}},
    }
    await cluster.client.create(manifest)


async def start_gang(cluster: Cluster, backend: SchedulerBackend, topology: GangTopologyConstraint) -> None:
    """A gang without a set, all of whose pods share a domain; each asks for a GPU."""
    groups = tuple(
        GangPodGroup(
            name=f"{GANG}-{part}",
            minReplicas=2,
            podReferences=tuple(
                NamespacedName(namespace=cluster.namespace, name=f"{GANG}-{part}-{index}") for index in range(2)
            ),
        )
        for part in PARTS
    )
    metadata = ObjectMeta(
        name=GANG, namespace=cluster.namespace, labels={keys.GROVE_SCHEDULER_LABEL: backend.scheduler_name}
    )
    gang = await cluster.client.create(
        PodGang(metadata=metadata, spec=PodGangSpec(podgroups=groups, topologyConstraint=topology))
    )
    served = frozenset((each.api_version, each.kind) for each in await cluster.client.discover())
    for group in groups:
        for reference in group.podReferences:
            manifest = pod_manifest(reference.name, gpus=1, scheduler=backend.scheduler_name)
            manifest["metadata"] |= {
                "namespace": cluster.namespace,
                "labels": {keys.GROVE_POD_GANG_LABEL: GANG, keys.GROVE_POD_CLIQUE_LABEL: group.name},
            }
            made = msgspec.convert(manifest, Pod)
            prepared = prepare_pod(backend, gang, made, Surroundings(served=served))
            assert [each.name for each in prepared.spec.schedulingGates] == [backend.gate]
            await cluster.client.create(prepared)


async def until_gang_is(cluster: Cluster, type_: str, status: str, timeout_seconds: float = 60) -> PodGang:
    async def said() -> PodGang:
        gang = await cluster.client.get(PodGang, GANG, cluster.namespace)
        found = condition(gang.status.conditions, type_)
        assert found is not None, gang.status
        assert found.status == status, gang.status
        return gang

    return await cluster.eventually(said, timeout_seconds)


async def bound(cluster: Cluster) -> list[str]:
    pods = (await cluster.client.list(Pod, cluster.namespace)).items
    return [pod.spec.nodeName for pod in pods if pod.spec.nodeName]


async def until_unschedulable(cluster: Cluster) -> PodGang:
    """The scheduler has looked at the gang, and said so."""

    async def told() -> PodGang:
        gang = await until_gang_is(cluster, "Scheduled", "False")
        found = condition(gang.status.conditions, "Scheduled")
        assert found is not None
        assert found.reason not in ("", "PodsNotScheduled"), gang.status
        return gang

    return await cluster.eventually(told, 60)


async def wait_and_start(cluster: Cluster, scheduler: str) -> None:
    """Three GPUs for a gang of four: nothing starts; with one node more, all of it does."""
    await cluster.start_services("grove-operator", "grove-backends")
    await cluster.add_nodes(1, gpus=3)
    await start_set(cluster, scheduler)
    await until_unschedulable(cluster)
    assert await bound(cluster) == []
    await cluster.add_nodes(1, gpus=3)
    await until_gang_is(cluster, "Scheduled", "True")
    gang = await until_gang_is(cluster, "Ready", "True")
    assert gang.status.placementScore == 1.0
    assert len(await bound(cluster)) == 4

    async def runs() -> bool:
        whole = await cluster.client.get(PodCliqueSet, "g", cluster.namespace)
        phase = (await cluster.client.get(PodGang, GANG, cluster.namespace)).status.phase
        return phase == "Running" and whole.status.availableReplicas == 1

    await cluster.eventually(runs)


async def test_the_default_scheduler_starts_a_set_as_a_whole(gang_cluster: Cluster) -> None:
    await wait_and_start(gang_cluster, "default-scheduler")
    names = [each.metadata.name for each in (await gang_cluster.client.list(PodGroup, gang_cluster.namespace)).items]
    assert sorted(names) == ["g-0-a", "g-0-b"]


async def test_bosket_starts_the_same_set_as_a_whole(gang_cluster: Cluster) -> None:
    await gang_cluster.start_services("podgroup-controller", "scheduler", "binder")
    await wait_and_start(gang_cluster, "kai-scheduler")


async def test_what_the_default_scheduler_was_told_goes_with_the_gang(gang_cluster: Cluster) -> None:
    cluster = gang_cluster
    await cluster.start_services("grove-backends")
    await cluster.add_nodes(2, gpus=2, labels={RACK: "r1"})
    rack = GangTopologyConstraint(packConstraint=GangPackConstraint(required=RACK))
    await start_gang(cluster, DefaultBackend(), rack)
    await until_gang_is(cluster, "Ready", "True")
    await cluster.client.delete_collection(Pod, cluster.namespace, grace_seconds=0)
    await cluster.client.delete(PodGang, GANG, cluster.namespace)

    async def nothing_is_left() -> bool:
        left = [
            each.metadata.name
            for kind in (PodGroup, CompositePodGroup, Workload)
            for each in (await cluster.client.list(kind, cluster.namespace)).items
        ]
        assert left == []
        return True

    await cluster.eventually(nothing_is_left, 60)


# --- other schedulers, as they define themselves


def files_of(project: str) -> list[Path]:
    files = find_files(project)
    if files is None:
        pytest.fail(f"the definitions of {project} are missing: `python -m tests.controlplane build` fetches them")
    return files


async def define(cluster: Cluster, project: str) -> None:
    """Teach the cluster the project's kinds, by its own definitions."""
    names = []
    for file in files_of(project):
        manifest = yaml.safe_load(file.read_text())
        names.append(manifest["metadata"]["name"])
        await cluster.client.create(manifest)

    async def known() -> bool:
        found = [await cluster.client.get(CustomResourceDefinition, name) for name in names]
        return all(
            any(each.type == "Established" and each.status == "True" for each in one.status.conditions or ())
            for one in found
        )

    await cluster.eventually(known)


def rich_gang(namespace: str) -> PodGang:
    """A gang that says all that can be said of it to both."""
    rack = GangTopologyConstraint(packConstraint=GangPackConstraint(required=RACK, preferred="kubernetes.io/hostname"))
    groups = tuple(
        GangPodGroup(
            name=f"rich-{part}",
            minReplicas=2,
            podReferences=(NamespacedName(namespace=namespace, name=f"rich-{part}-0"),),
        )
        for part in PARTS
    )
    return PodGang(
        metadata=ObjectMeta(
            name="rich", namespace=namespace, uid="u", annotations={keys.GROVE_TOPOLOGY_ANNOTATION: "t"}
        ),
        spec=PodGangSpec(podgroups=groups, topologyConstraint=rack, priorityClassName="train"),
    )


def told_of_racks() -> tuple[KubeObject, ...]:
    """The same level in Volcano's and in Koordinator's words."""
    layer = NetworkTopologyLayer(topologyLayer="Rack", labelKey=(RACK,))
    return (
        HyperNode(metadata=ObjectMeta(name="r1"), spec=HyperNodeSpec(tier=1, tierName=RACK)),
        ClusterNetworkTopology(
            metadata=ObjectMeta(name="default"), spec=ClusterNetworkTopologySpec(networkTopologySpec=(layer,))
        ),
    )


@pytest.mark.parametrize("backend", [VolcanoBackend(), KoordinatorBackend()], ids=lambda each: each.name)
async def test_objects_are_what_their_scheduler_defines(gang_cluster: Cluster, backend: SchedulerBackend) -> None:
    """A strict server knows every field, and has nothing against any value; and the service makes them."""
    cluster = gang_cluster
    await define(cluster, backend.name)
    served = frozenset((each.api_version, each.kind) for each in await cluster.client.discover())
    related = tuple(each for each in told_of_racks() if isinstance(each, backend.reads))
    rendered = backend.sync(rich_gang(cluster.namespace), Surroundings(served=served, related=related)).objects
    assert rendered
    for each in rendered:
        resource = resource_of(type(each))
        body = msgspec.to_builtins(each) | {"apiVersion": resource.api_version, "kind": resource.kind}
        await cluster.client.raw(
            "POST",
            resource.path(cluster.namespace),
            query=(("dryRun", "All"), ("fieldValidation", "Strict")),
            body=body,
            headers={"Content-Type": "application/json"},
        )
    await cluster.start_services("grove-backends")
    metadata = ObjectMeta(
        name="g", namespace=cluster.namespace, labels={keys.GROVE_SCHEDULER_LABEL: backend.scheduler_name}
    )
    plain = msgspec.structs.replace(rich_gang(cluster.namespace).spec, topologyConstraint=None)
    await cluster.client.create(PodGang(metadata=metadata, spec=plain))

    async def made() -> bool:
        return bool((await cluster.client.list(backend.kinds[0], cluster.namespace)).items)

    await cluster.eventually(made)


def test_task_groups_have_the_fields_that_yunikorn_reads() -> None:
    """Go reads JSON without regard to case, and passes over what it doesn't know: that must be nothing."""
    (source,) = files_of("yunikorn")
    found = re.search(r"^type TaskGroup struct \{(.*?)^\}", source.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    read = {line.split()[0].lower() for line in found[1].strip().splitlines()}
    assert {field.name.lower() for field in msgspec.structs.fields(TaskGroup)} <= read
