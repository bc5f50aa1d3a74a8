"""Grove's objects as Structs: what is written where Grove's own definitions want it, what can be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api import grove, kai
from bosket.api.crd import crd_manifests
from bosket.api.table import resource_of
from tests.api.crd_judge import defaulted, load
from tests.api.test_crd_grove import POD_CLIQUE, POD_CLIQUE_SET, POD_GANG, SCALING_GROUP, TOPOLOGY_BINDING


def written(obj: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj))


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        (POD_CLIQUE_SET, grove.PodCliqueSet),
        (POD_CLIQUE, grove.PodClique),
        (SCALING_GROUP, grove.PodCliqueScalingGroup),
        (TOPOLOGY_BINDING, grove.ClusterTopologyBinding),
        (POD_GANG, grove.PodGang),
    ],
)
def test_what_a_server_stores_can_be_read_and_comes_back_as_it_was_written(manifest: str, kind: type[Any]) -> None:
    obj = msgspec.convert(defaulted(manifest), kind)
    assert msgspec.json.decode(msgspec.json.encode(obj), type=kind) == obj
    assert resource_of(kind).kind == load(manifest)["kind"]


def test_a_gang_without_pods_yet_says_so() -> None:
    """Grove's definition wants the list, also when it is empty."""
    group = grove.GangPodGroup(name="a", podReferences=(), minReplicas=0)
    assert written(group) == {"name": "a", "podReferences": [], "minReplicas": 0}


def test_a_gang_that_nobody_has_looked_at_has_an_empty_phase_and_writes_none() -> None:
    gang = msgspec.convert({"spec": {"podgroups": []}}, grove.PodGang)
    assert gang.status.phase == ""
    assert written(gang) == {"spec": {"podgroups": []}}


def test_a_topology_out_of_sync_is_written_as_such() -> None:
    status = grove.SchedulerTopologyStatus(schedulerName="kai-scheduler", topologyReference="t", inSync=False)
    assert written(status)["inSync"] is False


def test_a_clique_writes_replicas_and_role_whatever_they_are() -> None:
    clique = msgspec.convert({"roleName": "", "replicas": 1, "podSpec": {}}, grove.PodCliqueSpec)
    assert written(clique) == {"roleName": "", "replicas": 1, "podSpec": {}}


@pytest.mark.parametrize(
    ("constraint", "required", "preferred"),
    [
        ({"pack": {"required": "zone", "preferred": "rack"}}, "zone", "rack"),
        ({"pack": {"preferred": "rack"}}, None, "rack"),
        ({"packDomain": "zone"}, "zone", None),
        ({"packDomain": "zone", "pack": {"preferred": "rack"}}, "zone", "rack"),
    ],
)
def test_the_old_and_the_new_name_of_a_required_domain_read_alike(
    constraint: Any, required: str | None, preferred: str | None
) -> None:
    read = msgspec.convert(constraint, grove.TopologyConstraint)
    assert (read.required, read.preferred) == (required, preferred)


def test_every_kind_is_in_the_table_of_kinds() -> None:
    served = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in crd_manifests()}
    listed = {resource_of(kind.struct) for kind in (*kai.RESOURCES, *grove.RESOURCES)}
    assert {(kind.group, kind.kind) for kind in listed} == served
