"""The live scheduler watches what pods refer to: ConfigMaps, claims, volumes, classes, and namespaces' labels."""

from __future__ import annotations

import pytest

from bosket.api.core import (
    ConfigMap,
    ConfigMapEnvSource,
    EnvFromSource,
    Namespace,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
    VolumeResourceRequirements,
)
from bosket.api.kai import BindRequest
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta
from bosket.api.storage import StorageClass
from bosket.kube.client import PatchType
from bosket.runtime.service import Environment
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig
from tests.scheduler.affinity import near, term

pytestmark = pytest.mark.looptime


def scheduler(env: Environment) -> Scheduler:
    return service(env, Options())


async def a_cluster(*objects: KubeObject) -> Rig:
    group = pod_group("g", namespace=NAMESPACE)
    return await make_rig([node("n1", zone="a"), node("n2", zone="b"), queue("q"), group, *objects])


def member() -> PodBuilder:
    return pod("g-0", NAMESPACE).cpu("1").of_group("g")


async def reported(rig: Rig) -> str:
    found = await rig.client.get(Pod, "g-0", NAMESPACE)
    return next((each.message for each in found.status.conditions if each.type == "PodScheduled"), "")


async def chosen(rig: Rig) -> str:
    return next((each.spec.selectedNode for each in (await rig.client.list(BindRequest, NAMESPACE)).items), "")


async def test_a_pod_waits_for_its_config_map_says_so_and_goes_when_it_is_there() -> None:
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name="settings"))
    rig = await a_cluster(member().with_container(envFrom=(source,)).build())
    async with rig.running(scheduler):
        assert "Missing required configmaps: [settings]" in await rig.until(lambda: reported(rig))
        await rig.apply(ConfigMap(metadata=ObjectMeta(name="settings", namespace=NAMESPACE), data={"k": "v"}))
        assert await rig.until(lambda: chosen(rig)) == "n1"


async def test_a_pod_waits_for_its_claim_and_the_claim_s_class() -> None:
    volume = Volume(name="data", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName="data"))
    rig = await a_cluster(member().with_spec(volumes=(volume,)).build())
    async with rig.running(scheduler):
        assert 'persistentvolumeclaim "data" not found' in await rig.until(lambda: reported(rig))
        spec = PersistentVolumeClaimSpec(
            accessModes=("ReadWriteOnce",),
            storageClassName="slow",
            resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
        )
        await rig.apply(
            PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace=NAMESPACE), spec=spec),
            StorageClass(
                metadata=ObjectMeta(name="slow"),
                provisioner="example.com/disk",
                volumeBindingMode="WaitForFirstConsumer",
            ),
        )
        assert await rig.until(lambda: chosen(rig)) == "n1"


async def test_a_namespace_is_selected_by_the_labels_that_it_has_now() -> None:
    team = LabelSelector(matchLabels={"team": "ml"})
    wanting = member().with_spec(affinity=near(term("zone", namespaceSelector=team, app="db"))).build()
    rig = await a_cluster(wanting, Namespace(metadata=ObjectMeta(name="data")))
    await rig.apply(pod("db", "data").label("app", "db").build())
    await rig.client.bind(await rig.client.get(Pod, "db", "data"), "n2")
    async with rig.running(scheduler):
        assert "didn't match pod affinity rules" in await rig.until(lambda: reported(rig))
        await rig.client.patch(Namespace, "data", {"metadata": {"labels": {"team": "ml"}}}, type=PatchType.MERGE)
        assert await rig.until(lambda: chosen(rig)) == "n2"
