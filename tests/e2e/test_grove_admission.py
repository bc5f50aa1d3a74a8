"""Grove's admission as users meet it: on the embedded server in process, on a real one through webhooks.

Docstrings name what is of Grove's own list.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bosket.api.grove import ClusterTopologyBinding, PodCliqueSet
from tests.controlplane.plane import ControlPlane
from tests.e2e.cluster import Cluster
from tests.e2e.grove_webhooks import LEVELS, binding, named, refusal, serve_admission, withdraw_admission
from tests.grove_admission.sets import Json, clique, pcs

DENIED = 'admission webhook "pcs.validating.webhooks.grove.io" denied the request: '


@pytest.fixture
def embedded_services() -> tuple[str, ...]:
    return ("grove-admission",)


@pytest.fixture
async def guarded(cluster: Cluster, control_plane_if_real: ControlPlane | None) -> AsyncIterator[Cluster]:
    """The cluster with Grove's admission in force, and a topology."""
    try:
        if control_plane_if_real is not None:
            await serve_admission(cluster)
        await cluster.client.create(binding("t"))
        yield cluster
    finally:
        await cluster.client.delete_collection(ClusterTopologyBinding)
        if control_plane_if_real is not None:
            await withdraw_admission(cluster)


async def test_a_set_is_completed_and_its_user_warned(guarded: Cluster) -> None:
    said = await guarded.kubectl("apply", "-f", "-", stdin=json.dumps(named("s", pcs(clique("a", 2)))))
    assert "podcliqueset.grove.io/s created" in said
    template = (await guarded.client.get(PodCliqueSet, "s", guarded.namespace)).spec.template
    assert (template.terminationDelay, template.cliqueStartupType) == ("4h0m0s", "CliqueStartupTypeAnyOrder")
    assert template.headlessServiceConfig is not None
    spec = template.cliques[0].spec
    assert (spec.minAvailable, spec.podSpec.restartPolicy, spec.podSpec.terminationGracePeriodSeconds) == (
        2,
        "Always",
        30,
    )
    patch = json.dumps([{"op": "replace", "path": "/spec/template/cliques/0/spec/minAvailable", "value": 1}])
    denied = await guarded.kubectl("patch", "pcs", "s", "--type=json", f"--patch={patch}", code=1)
    assert f"{DENIED}spec.template.cliques.spec.minAvailable: Invalid value: 1: field is immutable" in denied
    await guarded.kubectl("scale", "pcs", "s", "--replicas=3")


async def test_wrong_bindings_are_refused(guarded: Cluster) -> None:
    """TAS21."""
    path = "spec.schedulerTopologyReferences"
    for document, said in (
        (binding("b", [LEVELS[0], {**LEVELS[1], "domain": "zone"}]), 'spec.levels[1].domain: Duplicate value: "zone"'),
        (binding("b", None, "kai-scheduler", "kai-scheduler"), f'{path}[1].schedulerName: Duplicate value: "kai-sched'),
        (binding("b", None, "nobodys"), f'{path}[0].schedulerName: Invalid value: "nobodys": scheduler backend is not'),
        (binding("b", None, "default-scheduler"), "scheduler backend does not implement topology-aware scheduling"),
    ):
        assert said in await refusal(guarded, document)
    constraint = {"topologyName": "t", "pack": {"required": "zone"}}
    inherits = clique("a", template={"topologyConstraint": {"pack": {"required": "rack"}}})
    assert await refusal(guarded, named("inherits", pcs(inherits, topologyConstraint=constraint))) == ""


async def test_constraints_of_a_wrong_shape_are_refused(guarded: Cluster) -> None:
    """TAS22."""
    legacy: Json = {"topologyName": "t", "packDomain": "rack"}
    group: Json = {"name": "g", "cliqueNames": ["a"], "topologyConstraint": legacy}
    deprecated = "packDomain is deprecated and cannot be used on new workloads"
    shapes: list[tuple[Json, str]] = [
        (pcs(clique("a"), topologyConstraint=legacy), deprecated),
        (pcs(clique("a", template={"topologyConstraint": legacy})), deprecated),
        (pcs(clique("a"), groups=(group,)), deprecated),
        (pcs(clique("a"), topologyConstraint={"topologyName": "t"}), "spec.template.topologyConstraint.pack"),
        (pcs(clique("a"), topologyConstraint={"topologyName": "t", "pack": {}}), "topologyConstraint.pack"),
        (pcs(clique("a"), topologyConstraint={**legacy, "pack": {"required": "rack"}}), "pack.required"),
    ]
    for document, said in shapes:
        assert said in await refusal(guarded, named("s", document))
    preferred: Any = {"topologyName": "t", "pack": {"preferred": "rack"}}
    assert await refusal(guarded, named("s", pcs(clique("a"), topologyConstraint=preferred))) == ""


async def test_groups_of_nvlink_are_refused_where_they_are_off(guarded: Cluster) -> None:
    """MNNVL: disabled."""
    document = named("s", pcs(clique("a", template={"annotations": {"grove.io/mnnvl-group": "g"}})))
    assert "MNNVL is not enabled in the operator configuration" in await refusal(guarded, document)
    document["spec"]["template"]["cliques"][0]["annotations"] = {"grove.io/mnnvl-group": "none"}
    assert await refusal(guarded, document) == ""
