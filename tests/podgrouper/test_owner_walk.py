"""Who a pod belongs to, and which pods are left alone."""

from __future__ import annotations

import msgspec
import pytest

from bosket.api import keys
from bosket.api.grove import GangPodGroup, PodGang, PodGangSpec
from bosket.api.object import OwnerReference, Status
from bosket.kube.errors import Forbidden, NotFound
from bosket.runtime.clock import SystemClock
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner, owner_chain
from bosket.services.podgrouper.plan import find_grouping
from bosket.services.podgrouper.table import GrouperTable
from bosket.services.podgrouper.workload import Grouping
from tests.podgrouper.sketch import SketchedCluster, owner, pod

TOP = owner("apps/v1/Deployment", "web")
MIDDLE = owner("apps/v1/ReplicaSet", "web-1", owned_by=TOP)
CLUSTER = SketchedCluster(owners=(MIDDLE, TOP))


async def grouping_of(a_pod: object, cluster: SketchedCluster = CLUSTER, **options: object) -> Grouping | None:
    runner = JqEvaluator(SystemClock())  # without Kartas it has no process to close
    settings = Options(**options)  # type: ignore[arg-type]
    return await find_grouping(a_pod, cluster, cluster, settings, GrouperTable(), runner=runner)  # type: ignore[arg-type]


async def test_the_chain_runs_from_the_direct_owner_to_the_top() -> None:
    assert await owner_chain(pod("a", MIDDLE), CLUSTER) == (MIDDLE, TOP)


async def test_of_several_owners_of_a_pod_the_first_is_followed() -> None:
    a_pod = pod("a", MIDDLE)
    stranger = OwnerReference(apiVersion="v1", kind="ConfigMap", name="x", uid="u")
    references = (*a_pod.metadata.ownerReferences, stranger)
    a_pod = msgspec.structs.replace(a_pod, metadata=msgspec.structs.replace(a_pod.metadata, ownerReferences=references))
    assert await owner_chain(a_pod, CLUSTER) == (MIDDLE, TOP)


async def test_an_owner_with_several_owners_is_refused() -> None:
    double = msgspec.structs.replace(MIDDLE.metadata, ownerReferences=MIDDLE.metadata.ownerReferences * 2)
    middle = Owner(MIDDLE.gvk, double, {})
    with pytest.raises(GroupingError, match=r"ReplicaSet team-a/web-1 has 2 owners \(Deployment web, Deployment web\)"):
        await owner_chain(pod("a", middle), SketchedCluster(owners=(middle, TOP)))


async def test_an_owner_that_was_made_anew_under_the_same_name_is_refused() -> None:
    anew = Owner(TOP.gvk, msgspec.structs.replace(TOP.metadata, uid="another"), {})
    with pytest.raises(GroupingError, match="has uid another, the owner reference says uid-web"):
        await owner_chain(pod("a", MIDDLE), SketchedCluster(owners=(MIDDLE, anew)))


async def test_owners_in_a_circle_are_refused() -> None:
    other = owner("example.com/v1/B", "b")
    one = owner("example.com/v1/A", "a", owned_by=other)
    other = owner("example.com/v1/B", "b", owned_by=one)
    with pytest.raises(GroupingError, match="do they form a circle"):
        await owner_chain(pod("p", one), SketchedCluster(owners=(one, other)))


async def test_the_chain_ends_below_what_may_not_be_read() -> None:
    forbidden = {"Deployment": Forbidden(Status(code=403, reason="Forbidden"))}
    cluster = SketchedCluster(owners=(MIDDLE,), refusals=forbidden)
    assert await owner_chain(pod("a", MIDDLE), cluster) == (MIDDLE,)
    nothing = SketchedCluster(refusals={"ReplicaSet": forbidden["Deployment"]})
    found = await grouping_of(pod("a", MIDDLE), nothing)
    assert found is not None
    assert found.pod_group.metadata.name == "pg-a-uid-a"


async def test_a_missing_owner_is_an_error_unless_the_pod_is_on_its_way_out() -> None:
    with pytest.raises(NotFound):
        await grouping_of(pod("a", MIDDLE), SketchedCluster())
    assert await grouping_of(pod("a", MIDDLE, deleting=True), SketchedCluster()) is None


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    assert await grouping_of(pod("a", scheduler="default-scheduler")) is None
    assert await grouping_of(pod("a", scheduler="mine"), scheduler_name="mine") is not None


async def test_a_bare_pod_that_names_a_group_has_it_from_its_user() -> None:
    assert await grouping_of(pod("a", annotations={keys.POD_GROUP_ANNOTATION: "mine"})) is None
    owned = await grouping_of(pod("a", MIDDLE, annotations={keys.POD_GROUP_ANNOTATION: "mine"}))
    assert owned is not None


@pytest.mark.parametrize(("value", "skipped"), [("true", True), ("True", False), ("false", False)])
async def test_a_pod_or_any_owner_may_opt_out(value: str, skipped: bool) -> None:
    opt_out = {keys.SKIP_PODGROUPER_ANNOTATION: value}
    assert (await grouping_of(pod("a", annotations=opt_out)) is None) == skipped
    top = owner("apps/v1/Deployment", "web", annotations=opt_out)
    cluster = SketchedCluster(owners=(MIDDLE, top))
    assert (await grouping_of(pod("a", MIDDLE), cluster) is None) == skipped


async def test_selectors_choose_pods_and_namespaces() -> None:
    a_pod = pod("a", labels={"tier": "gold"})
    assert await grouping_of(a_pod, pod_label_selector={"tier": "gold"}) is not None
    assert await grouping_of(a_pod, pod_label_selector={"tier": "gold", "x": "y"}) is None
    gold = SketchedCluster(labels={"tenant": "blue"})
    assert await grouping_of(a_pod, gold, namespace_label_selector={"tenant": "blue"}) is not None
    assert await grouping_of(a_pod, gold, namespace_label_selector={"tenant": "red"}) is None


def test_an_owner_of_a_kind_that_we_have_a_struct_for_is_read_as_it_is_on_the_wire() -> None:
    gang = PodGang(spec=PodGangSpec(podgroups=(GangPodGroup(name="a", podReferences=(), minReplicas=1),)))
    content = Owner.typed(GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang"), gang).content
    assert content["spec"]["podgroups"] == [{"name": "a", "podReferences": [], "minReplicas": 1}]
