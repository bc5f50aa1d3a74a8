"""RS1: claims that pods share, at three levels. MNNVL: ComputeDomains for those who ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import Container, Event, Namespace, Pod, ResourceRequirements
from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetSharingFilter,
    PodCliqueSetSharingSpec,
    PodCliqueTemplateSpec,
    ResourceClaimTemplateConfig,
    ResourceSharingSpec,
    ScalingGroupSharingFilter,
    ScalingGroupSharingSpec,
)
from bosket.api.grove.naming import MNNVL_GROUP_ANNOTATION
from bosket.api.grove.operator_configuration import NetworkConfiguration, OperatorConfiguration
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from bosket.grove.admission import Options as AdmissionOptions
from bosket.grove.operator import Options
from bosket.grove.render.compute_domain import COMPUTE_DOMAIN
from bosket.kube.errors import ApiError
from tests.grove.sets import NAMESPACE, clique, clique_set, group
from tests.grove.world import World, Worlds
from tests.grove.world import world as embedded_world

pytestmark = pytest.mark.looptime

#: Nothing has to be scheduled to count what the operator makes.
OPERATOR = ("grove-admission", "grove-operator", "grove-backends")
CLAIM = ResourceClaimTemplateSpec(
    spec=ResourceClaimSpec(
        devices=DeviceClaim(requests=(DeviceRequest(name="d", exactly=ExactDeviceRequest(deviceClassName="any")),))
    )
)


def _sharing() -> PodCliqueSet:
    names = ("int-tpl", *(f"int-tpl{index}" for index in range(2, 9)))
    worker_a = clique(
        "worker-a",
        resourceSharing=(
            ResourceSharingSpec(name="int-tpl4", scope="PerReplica"),
            ResourceSharingSpec(name="ext-ns-tpl", scope="AllReplicas", namespace="rs-shared"),
        ),
    )
    worker_b = clique("worker-b", resourceSharing=(ResourceSharingSpec(name="int-tpl6", scope="AllReplicas"),))
    only_b = ScalingGroupSharingFilter(childCliqueNames=("worker-b",))
    sga = group(
        "sga",
        "worker-b",
        replicas=2,
        resourceSharing=(
            ScalingGroupSharingSpec(name="int-tpl2", scope="AllReplicas"),
            ScalingGroupSharingSpec(name="int-tpl3", scope="PerReplica"),
            ScalingGroupSharingSpec(name="int-tpl8", scope="AllReplicas", filter=only_b),
        ),
    )
    only_a = PodCliqueSetSharingFilter(childCliqueNames=("worker-a",))
    only_sga = PodCliqueSetSharingFilter(childScalingGroupNames=("sga",))
    return clique_set(
        "rs-test",
        worker_a,
        worker_b,
        groups=[sga],
        resourceClaimTemplates=tuple(ResourceClaimTemplateConfig(name=each, templateSpec=CLAIM) for each in names),
        resourceSharing=(
            PodCliqueSetSharingSpec(name="int-tpl5", scope="AllReplicas"),
            PodCliqueSetSharingSpec(name="ext-tpl", scope="PerReplica"),
            PodCliqueSetSharingSpec(name="int-tpl", scope="PerReplica", filter=only_a),
            PodCliqueSetSharingSpec(name="int-tpl7", scope="AllReplicas", filter=only_sga),
        ),
    )


async def _expect(grove: World, claims: int, pods: int) -> None:
    async def reached() -> bool:
        found = (await grove.client.list(ResourceClaim, grove.namespace)).items
        return (len(found), len(await grove.pods())) == (claims, pods)

    await grove.stays(f"{claims} claims and {pods} pods", reached)


async def test_claims_follow_the_replicas_of_whoever_shares_them(world: Worlds) -> None:
    """RS1."""
    async with world(0, services=OPERATOR) as grove:
        await grove.apply(
            Namespace(metadata=ObjectMeta(name="rs-shared")),
            ResourceClaimTemplate(metadata=ObjectMeta(name="ext-tpl", namespace=NAMESPACE), spec=CLAIM),
            ResourceClaimTemplate(metadata=ObjectMeta(name="ext-ns-tpl", namespace="rs-shared"), spec=CLAIM),
            _sharing(),
        )
        await _expect(grove, 12, 3)
        (pod,) = await grove.pods("rs-test-0-worker-a")
        assert _claims(pod) == [
            *("rs-test-all-int-tpl5", "rs-test-0-ext-tpl", "rs-test-0-int-tpl"),
            *("rs-test-0-worker-a-all-ext-ns-tpl", "rs-test-0-worker-a-0-int-tpl4"),
        ]
        (member,) = await grove.pods("rs-test-0-sga-1-worker-b")
        assert _claims(member) == [
            *("rs-test-all-int-tpl5", "rs-test-all-int-tpl7", "rs-test-0-ext-tpl"),
            *("rs-test-0-sga-all-int-tpl2", "rs-test-0-sga-all-int-tpl8", "rs-test-0-sga-1-int-tpl3"),
            "rs-test-0-sga-1-worker-b-all-int-tpl6",
        ]
        assert await _owners(grove) == {
            "rs-test-all-int-tpl5": ("PodCliqueSet", ""),
            "rs-test-all-int-tpl7": ("PodCliqueSet", ""),
            "rs-test-0-ext-tpl": ("PodCliqueSet", "podcliqueset-replica-index=0"),
            "rs-test-0-int-tpl": ("PodCliqueSet", "podcliqueset-replica-index=0"),
            "rs-test-0-sga-all-int-tpl2": ("PodCliqueScalingGroup", "podcliquescalinggroup=rs-test-0-sga"),
            "rs-test-0-sga-all-int-tpl8": ("PodCliqueScalingGroup", "podcliquescalinggroup=rs-test-0-sga"),
            **{
                f"rs-test-0-sga-{index}-int-tpl3": (
                    "PodCliqueScalingGroup",
                    f"podcliquescalinggroup=rs-test-0-sga podcliquescalinggroup-replica-index={index}",
                )
                for index in (0, 1)
            },
            **{
                f"rs-test-0-sga-{index}-worker-b-all-int-tpl6": (
                    "PodClique",
                    f"podclique=rs-test-0-sga-{index}-worker-b",
                )
                for index in (0, 1)
            },
            "rs-test-0-worker-a-all-ext-ns-tpl": ("PodClique", "podclique=rs-test-0-worker-a"),
            "rs-test-0-worker-a-0-int-tpl4": ("PodClique", "podclique=rs-test-0-worker-a podclique-pod-index=0"),
        }
        for size, claims, pods in ((1, 10, 2), (3, 14, 4)):
            await grove.scale(PodCliqueScalingGroup, "rs-test-0-sga", size)
            await _expect(grove, claims, pods)
        for size, claims, pods in ((2, 15, 5), (1, 14, 4)):
            await grove.scale(PodClique, "rs-test-0-worker-a", size)
            await _expect(grove, claims, pods)
        for size, claims, pods in ((2, 24, 7), (1, 14, 4)):
            await grove.scale(PodCliqueSet, "rs-test", size)
            await _expect(grove, claims, pods)
        await grove.client.delete(PodCliqueSet, "rs-test", grove.namespace)
        await _expect(grove, 0, 0)


async def test_what_is_shared_can_not_be_changed() -> None:
    """RS1: the refusal."""
    async with embedded_world(0, services=OPERATOR) as grove:
        await grove.apply(_sharing())
        with pytest.raises(ApiError, match="immutable"):
            await grove.patch_set("rs-test", {"op": "remove", "path": "/spec/template/resourceSharing/0"})


async def _owners(grove: World) -> dict[str, tuple[str, str]]:
    """By claim: the kind of who controls it, and its labels of Grove's own."""
    found = {}
    for each in (await grove.client.list(ResourceClaim, grove.namespace)).items:
        labels = each.metadata.labels
        assert (labels["app.kubernetes.io/component"], labels["app.kubernetes.io/part-of"]) == (
            "resource-claim",
            "rs-test",
        )
        (owner,) = each.metadata.ownerReferences
        own = sorted((key, value) for key, value in labels.items() if key.startswith("grove.io/"))
        found[each.metadata.name] = (
            owner.kind,
            " ".join(f"{key.removeprefix('grove.io/')}={value}" for key, value in own),
        )
    return found


def _claims(pod: Pod) -> list[str]:
    names = [each.name for each in pod.spec.resourceClaims]
    assert [each.name for each in pod.spec.containers[0].resources.claims] == names
    return names


# --- ComputeDomains


def _gpu(name: str, group: str = "") -> PodCliqueTemplateSpec:
    made = clique(name, annotations={MNNVL_GROUP_ANNOTATION: group} if group else {})
    container = Container(name="main", image="app:1", resources=ResourceRequirements(limits={"nvidia.com/gpu": "1"}))
    return replace(made, spec=replace(made.spec, podSpec=replace(made.spec.podSpec, containers=(container,))))


def _annotated(owner: PodCliqueSet, group: str) -> PodCliqueSet:
    return replace(owner, metadata=replace(owner.metadata, annotations={MNNVL_GROUP_ANNOTATION: group}))


def _configured(*, enabled: bool) -> dict[str, object]:
    configuration = OperatorConfiguration(network=NetworkConfiguration(autoMNNVLEnabled=enabled))
    return {"grove-operator": Options(configuration), "grove-admission": AdmissionOptions(configuration)}


DOMAINS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "computedomains.resource.nvidia.com"},
    "spec": {
        "group": "resource.nvidia.com",
        "scope": "Namespaced",
        "names": {"kind": "ComputeDomain", "listKind": "ComputeDomainList", "plural": "computedomains"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


async def _expect_domains(grove: World, *names: str) -> None:
    async def reached() -> bool:
        found = (await grove.client.list(COMPUTE_DOMAIN, grove.namespace)).items
        return sorted(each["metadata"]["name"] for each in found) == sorted(names)

    await grove.stays(f"domains {names}", reached)


async def _claimed(grove: World) -> dict[str, str]:
    """The template of domain claims that pods of each PodClique use."""
    return {
        each.metadata.labels["grove.io/podclique"]: claim.resourceClaimTemplateName or ""
        for each in await grove.pods()
        for claim in each.spec.resourceClaims
    }


async def test_domains_come_and_go_with_replicas(world: Worlds) -> None:
    """MNNVL: domains."""
    async with world(0, services=OPERATOR, options=_configured(enabled=True), definitions=[DOMAINS]) as grove:
        await grove.apply(_annotated(clique_set("my", _gpu("a"), clique("cpu")), "default"))
        await _expect_domains(grove, "my-0-default")
        assert await _claimed(grove) == {"my-0-a": "my-0-default"}
        before = await grove.client.get(COMPUTE_DOMAIN, "my-0-default", grove.namespace)
        await grove.client.delete(COMPUTE_DOMAIN, "my-0-default", grove.namespace)

        async def has_come_back() -> bool:
            again = await grove.client.get(COMPUTE_DOMAIN, "my-0-default", grove.namespace)
            return bool(again["metadata"]["uid"] != before["metadata"]["uid"])

        await grove.until("another domain of the same name", has_come_back)
        await grove.scale(PodCliqueSet, "my", 3)
        await _expect_domains(grove, *(f"my-{index}-default" for index in range(3)))
        await grove.scale(PodCliqueSet, "my", 1)
        await _expect_domains(grove, "my-0-default")
        await grove.client.delete(PodCliqueSet, "my", grove.namespace)
        await _expect_domains(grove)


async def test_the_narrowest_level_that_names_a_group_decides(world: Worlds) -> None:
    """MNNVL: end to end."""

    def member(name: str, *cliques: str, domain: str = "") -> Any:
        return group(name, *cliques, annotations={MNNVL_GROUP_ANNOTATION: domain} if domain else {})

    cliques: Sequence[PodCliqueTemplateSpec] = (
        *(_gpu("sa1"), _gpu("sa2", "train"), _gpu("sa3", "none")),
        *(_gpu("p1"), _gpu("p2", "infer"), _gpu("p3", "none")),
        *(_gpu("p4"), _gpu("p5", "batch"), _gpu("p6", "none")),
        *(_gpu("p7"), _gpu("p8", "solo"), clique("p9")),
    )
    groups = [
        member("g1", "p1", "p2", "p3"),
        member("g2", "p4", "p5", "p6", domain="train"),
        member("g3", "p7", "p8", "p9", domain="none"),
    ]
    async with world(0, services=OPERATOR, options=_configured(enabled=True), definitions=[DOMAINS]) as grove:
        await grove.apply(_annotated(clique_set("my", *cliques, groups=groups), "default"))
        groups_of_set = ("default", "train", "infer", "batch", "solo")
        await _expect_domains(grove, *(f"my-0-{each}" for each in groups_of_set))
        assert {name.removeprefix("my-0-"): domain for name, domain in (await _claimed(grove)).items()} == {
            "sa1": "my-0-default",
            "sa2": "my-0-train",
            "g1-0-p1": "my-0-default",
            "g1-0-p2": "my-0-infer",
            "g2-0-p4": "my-0-train",
            "g2-0-p5": "my-0-batch",
            "g3-0-p8": "my-0-solo",
        }
        for replicas in (4, 2):
            await grove.scale(PodCliqueSet, "my", replicas)
            wanted = [f"my-{index}-{each}" for index in range(replicas) for each in groups_of_set]
            assert len(wanted) == 5 * replicas
            await _expect_domains(grove, *wanted)
        await grove.client.delete(PodCliqueSet, "my", grove.namespace)
        await _expect_domains(grove)


async def test_who_asks_for_no_domain_gets_none_and_nobody_changes_what_was_asked(world: Worlds) -> None:
    """MNNVL: no annotation, "none", an invalid value, a change."""
    async with world(0, services=OPERATOR, options=_configured(enabled=True), definitions=[DOMAINS]) as grove:
        await grove.apply(clique_set("plain", _gpu("a")), _annotated(clique_set("out", _gpu("a")), "none"))
        await grove.apply(_annotated(clique_set("cpu", clique("a")), "default"))
        await _expect_domains(grove)
        assert await _claimed(grove) == {}
        with pytest.raises(ApiError, match="not a valid DNS-1123 label"):
            await grove.apply(_annotated(clique_set("wrong", _gpu("a")), "Not A Name"))
        for name in ("out", "plain"):
            patch = {"metadata": {"annotations": {MNNVL_GROUP_ANNOTATION: "default"}}}
            with pytest.raises(ApiError, match=r"immutable|cannot be"):
                await grove.client.patch(PodCliqueSet, name, patch, namespace=grove.namespace)


async def test_the_operator_does_not_start_before_the_kind_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """MNNVL: enabled without CRD. Sets would wait for domains for ever; the log says what is missing."""
    async with embedded_world(0, services=OPERATOR, options=_configured(enabled=True)) as grove:
        await grove.apply(_annotated(clique_set("my", _gpu("a")), "default"))
        await grove.settle(30)
        assert await grove.pods() == []
        assert "the cluster doesn't serve computedomains.resource.nvidia.com" in caplog.text
        await grove.client.create(DOMAINS)
        await _expect_domains(grove, "my-0-default")
        assert len(await grove.pods()) == 1
        told = {each.reason for each in (await grove.client.list(Event, grove.namespace)).items}
        assert "ComputeDomainCreateSuccessful" in told
        await grove.scale(PodCliqueSet, "my", 0)
        await _expect_domains(grove)
        told = {each.reason for each in (await grove.client.list(Event, grove.namespace)).items}
        assert "ComputeDomainDeleteSuccessful" in told


async def test_a_group_is_refused_where_the_feature_is_off(world: Worlds) -> None:
    """MNNVL: disabled."""
    async with world(0, services=OPERATOR, options=_configured(enabled=False)) as grove:
        with pytest.raises(ApiError, match="mnnvl"):
            await grove.apply(_annotated(clique_set("my", _gpu("a")), "default"))
        await grove.apply(_annotated(clique_set("out", _gpu("a")), "none"))
