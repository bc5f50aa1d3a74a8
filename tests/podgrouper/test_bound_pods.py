"""A bound pod stays in the group in which it was charged, whoever its owners are by now."""

from __future__ import annotations

import pytest

from bosket.api import keys
from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import OwnerReference
from bosket.kube.client import PatchType
from bosket.kube.errors import NotFound
from tests.podgrouper.scene import grouped, grouper, make_job, make_pod, scene
from tests.rig import NAMESPACE, Rig

pytestmark = pytest.mark.looptime


async def bind(rig: Rig, name: str) -> None:
    await rig.client.bind(await rig.client.get(Pod, name, NAMESPACE), "n1")


async def own(rig: Rig, name: str, *owners: OwnerReference) -> None:
    """Replaces the pod's owners, as whoever may edit the pod can."""
    pod = await rig.client.get(Pod, name, NAMESPACE)
    references = [{key: getattr(each, key) for key in ("apiVersion", "kind", "name", "uid")} for each in owners]
    patch = [{"op": "replace", "path": "/metadata/ownerReferences", "value": references}]
    assert pod.metadata.ownerReferences
    await rig.client.patch(Pod, name, patch, namespace=NAMESPACE, type=PatchType.JSON)


async def groups(rig: Rig) -> dict[str, str]:
    """Queues by the names of the groups that there are."""
    return {each.metadata.name: each.spec.queue for each in (await rig.client.list(PodGroup, NAMESPACE)).items}


async def test_an_added_owner_takes_no_bound_pod_out_of_its_group() -> None:
    rig = await scene()
    owner = await make_job(rig)
    decoy = await make_job(rig, "decoy", queue="another")
    await make_pod(rig, "train-0", owner)
    async with rig.running(grouper):
        group = await grouped(rig, ["train-0"])
        await bind(rig, "train-0")
        await own(rig, "train-0", decoy, owner)
        await rig.clock.sleep(60)
        assert (await grouped(rig, ["train-0"])).metadata.name == group.metadata.name
    assert await groups(rig) == {group.metadata.name: "q"}


async def test_a_pod_that_waits_follows_its_owners() -> None:
    rig = await scene()
    owner = await make_job(rig)
    other = await make_job(rig, "other", queue="another")
    await make_pod(rig, "train-0", owner)
    async with rig.running(grouper):
        await grouped(rig, ["train-0"])
        await own(rig, "train-0", other)

        async def follows() -> bool:
            return (await grouped(rig, ["train-0"])).spec.queue == "another"

        await rig.until(follows)


async def test_a_bound_pod_without_a_group_gets_one() -> None:
    rig = await scene()
    owner = await make_job(rig)
    await make_pod(rig, "train-0", owner)
    await bind(rig, "train-0")
    async with rig.running(grouper):
        assert (await grouped(rig, ["train-0"])).metadata.name == f"pg-train-{owner.uid}"


async def test_the_group_of_bound_pods_follows_its_owner() -> None:
    rig = await scene()
    await make_pod(rig, "train-0", await make_job(rig, minimum="2"))
    async with rig.running(grouper):
        await grouped(rig, ["train-0"])
        await bind(rig, "train-0")
        patch = {"metadata": {"annotations": {keys.BATCH_MIN_MEMBER_ANNOTATION: "1"}}}
        await rig.client.patch(Job, "train", patch, namespace=NAMESPACE)

        async def follows() -> bool:
            return (await grouped(rig, ["train-0"])).spec.minMember == 1

        await rig.until(follows)


@pytest.mark.parametrize("has_owner", [True, False])
async def test_a_bound_pod_whose_group_went_with_a_former_owner_is_charged_in_a_new_one_of_that_name(
    has_owner: bool,
) -> None:
    rig = await scene()
    owner = await make_job(rig)
    decoy = await make_job(rig, "decoy", queue="another")
    await make_pod(rig, "train-0", owner)
    async with rig.running(grouper):
        group = await grouped(rig, ["train-0"])
        await bind(rig, "train-0")
        await own(rig, "train-0", *((decoy,) if has_owner else ()))
        await rig.client.delete(PodGroup, group.metadata.name, NAMESPACE)  # as the garbage collector does

        async def back() -> PodGroup | None:
            try:
                return await rig.client.get(PodGroup, group.metadata.name, NAMESPACE)
            except NotFound:
                return None

        made: PodGroup = await rig.until(back)
        assert made.metadata.ownerReferences[0].kind == ("Job" if has_owner else "Pod")
        await rig.clock.sleep(60)
    assert (await grouped(rig, ["train-0"])).metadata.uid == made.metadata.uid
    assert set(await groups(rig)) == {group.metadata.name}


async def test_no_group_is_made_anew_for_a_bare_pod_that_has_ended() -> None:
    rig = await scene()
    await make_pod(rig, "done", group="mine")
    await bind(rig, "done")
    await rig.client.patch(Pod, "done", {"status": {"phase": "Succeeded"}}, namespace=NAMESPACE, subresource="status")
    async with rig.running(grouper):
        await rig.clock.sleep(60)
    assert await groups(rig) == {}
