"""Upgrade (10.7 of Grove's list): what Grove's own operator made goes on as it is when ours takes its place.

Clusters as they were recorded beside the Go operator are brought back to life; nothing is made anew, nothing rolls.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from bosket.api.core import Event, Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject
from bosket.embedded.grove_admission import DEFAULT_CONFIGURATION
from bosket.grove.operator import Options
from tests.conformance.cases import conformance_folder
from tests.conformance.grove_dump import CLUSTER_KINDS, KINDS, path_of
from tests.conformance.grove_world import make_nodes
from tests.grove.operator_process import operator
from tests.grove.world import World, world

pytestmark = pytest.mark.looptime

Json = dict[str, Any]
#: Who is controlled comes after who controls.
ORDER: Final = (*CLUSTER_KINDS, *(each for each in KINDS if each not in ("Pod", "PodClique")), "PodClique", "Pod")
#: What recordings call configuration A.
_SCHEDULERS: Final = replace(DEFAULT_CONFIGURATION.scheduler, defaultProfileName="default-scheduler")
AS_RECORDED: Final = Options(replace(DEFAULT_CONFIGURATION, scheduler=_SCHEDULERS))
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def _recorded() -> list[Path]:
    """Cases in which pods ran at the end, beside an operator with our configuration."""
    folder = conformance_folder("grove")
    files = sorted(Path(folder, "cases").glob("*.json")) if folder is not None else []
    return [each for each in files if _can_be_revived(_read(each))]


def _read(file: Path) -> Json:
    found: Json = json.loads(file.read_bytes())
    return found


def _can_be_revived(case: Json) -> bool:
    versions = {each["kind"]: each["apiVersion"] for each in _last(case)}
    # Another scheduler's PodGroups need kinds that an embedded cluster hasn't.
    ours = versions.get("PodGroup", "scheduling.run.ai/v2alpha2") == "scheduling.run.ai/v2alpha2"
    return case["operatorConfig"] == "A" and "Pod" in versions and ours


def _last(case: Json) -> list[Json]:
    """The objects after the last step that has any."""
    states: list[list[Json]] = [step["objects"] for step in case["steps"] if step["objects"]]
    return states[-1] if states else []


CASES: Final = _recorded()


async def revive(grove: World, namespace: str, objects: list[Json]) -> None:
    """Create what was recorded, with uids, times and names that can be."""
    uids: dict[str, str] = {}
    await grove.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for each in sorted(objects, key=lambda obj: ORDER.index(obj["kind"])):
        placeholder = each["metadata"]["uid"]
        made = json.loads(_real(json.dumps(each), uids))
        made["metadata"].pop("uid")
        made.pop("data", None)
        status = made.pop("status", None)
        answer = await grove.client.raw("POST", path_of(each["kind"], namespace), body=made)
        uids[placeholder] = msgspec.json.decode(answer.body)["metadata"]["uid"]
        if status:
            path = path_of(each["kind"], namespace, made["metadata"]["name"], "status")
            await grove.client.raw("PATCH", path, body={"status": status}, headers=MERGE)


def _real(text: str, uids: dict[str, str]) -> str:
    text = re.sub(r"<uid:[^>]*>", lambda found: uids.get(found.group(0), "unknown"), text)
    return text.replace("<time>", "2024-12-31T00:00:00Z").replace("<node>", "n0").replace("~", "x")


async def _seen(grove: World, namespace: str, *kinds: type[KubeObject]) -> dict[str, str]:
    return {
        f"{kind.__name__} {each.metadata.name}": each.metadata.uid
        for kind in kinds
        for each in (await grove.client.list(kind, namespace)).items
    }


@pytest.mark.shared("conformance/grove", cases=40)
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
async def test_what_groves_operator_made_goes_on_as_it_is(file: Path) -> None:
    case = _read(file)
    namespace, objects = case["namespace"], _last(case)
    kinds = (PodCliqueSet, PodCliqueScalingGroup, PodClique, PodGang, PodGroup, Pod)
    async with world(0, services=()) as grove:
        await make_nodes(grove.client)
        await revive(grove, namespace, objects)
        before = await _seen(grove, namespace, *kinds)
        assert any(each.startswith("Pod ") for each in before)
        (owner,) = (await grove.client.list(PodCliqueSet, namespace)).items
        gangs = {each.metadata.name: each.spec for each in (await grove.client.list(PodGang, namespace)).items}
        async with operator(grove.cluster, grove.cluster.server.transport(), AS_RECORDED, with_backends=True):
            await grove.settle(60)
        assert await _seen(grove, namespace, *kinds) == before
        after = await grove.client.get(PodCliqueSet, owner.metadata.name, namespace)
        assert after.status.currentGenerationHash == owner.status.currentGenerationHash
        assert after.status.updateProgress == owner.status.updateProgress
        assert after.status.lastErrors == ()
        assert {each.metadata.name: each.spec for each in (await grove.client.list(PodGang, namespace)).items} == gangs
        events = (await grove.client.list(Event, namespace)).items
        # A cluster without a gang API, as it was recorded, is worth a word.
        assert {each.reason for each in events if each.type == "Warning"} <= {"BackendLimited"}
