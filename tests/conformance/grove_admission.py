"""Recorded PodCliqueSets and ClusterTopologyBindings: does our admission answer as Grove's did?

Steps that write these kinds are written to an API server that asks our rules in process; nothing else runs, so what
is compared is the answer (refusal, warnings) and the spec that was stored. Steps of other kinds are passed over.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bosket.api.crd import crd_manifests
from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.grove.operator_configuration_file import parse_operator_configuration
from bosket.apiserver import ApiServer
from bosket.embedded.grove_admission import GroveChecks, GroveDefaults
from bosket.kube.transport import Request, Response
from bosket.runtime.clock import LoopClock
from tests.conformance.verdict import Outcome, Verdict

Json = dict[str, Any]

#: By the recording's names for them.
CONFIGURATIONS: Final[Mapping[str, OperatorConfiguration]] = {
    "A": parse_operator_configuration(
        "{topologyAwareScheduling: {enabled: true}, scheduler: {profiles: "
        "[{name: default-scheduler}, {name: kai-scheduler}, {name: volcano}]}}"
    ),
    "B": parse_operator_configuration(
        "{scheduler: {profiles: [{name: kai-scheduler}, {name: default-scheduler}], defaultProfileName: kai-scheduler}}"
    ),
}
_PLURALS: Final = {
    "PodCliqueSet": "podcliquesets",
    "ClusterTopologyBinding": "clustertopologybindings",
    "PriorityClass": "priorityclasses",
    "Queue": "queues",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}
_CLUSTER_SCOPED: Final = frozenset({"ClusterTopologyBinding", "PriorityClass", "Queue"})
_PATCHES: Final = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}
_VOLCANO_QUEUES: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "names": {"kind": "Queue", "plural": "queues"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
#: A spec that Grove prints as a whole.
_PRINTED: Final = re.compile(r"Invalid value: \{.*\}(?=: )")
#: Where we differ on purpose: what a refusal says, ours or theirs, and why.
SET_ASIDE: Final = {
    re.compile("no KAI queue is configured"): "a set that names no queue goes to the default queue",
    re.compile(r"podSpec\.spec\.nodeName: Invalid value: .*: must not be set"): "refused in updates too",
}


def read_cases(folder: Path) -> list[Json]:
    """All recorded cases, in order."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted((folder / "cases").glob("*.json"))]


def verdicts(folder: Path) -> list[Verdict]:
    """One for each case that has steps for us."""
    return asyncio.run(_verdicts(read_cases(folder)))


async def _verdicts(cases: list[Json]) -> list[Verdict]:
    worlds = {name: _World(configuration) for name, configuration in CONFIGURATIONS.items()}
    for world in worlds.values():
        await world.prepare()
    found = []
    for case in cases:
        differences = [each async for each in worlds[case["operatorConfig"]].differences(case)]
        outcome = Outcome.DIFFERENT if differences else Outcome.SAME
        found.append(Verdict(case["id"], "grove admission", outcome, tuple(differences)))
    return found


class _World:
    """An API server that knows Grove's kinds and asks our rules."""

    def __init__(self, configuration: OperatorConfiguration) -> None:
        self._server = ApiServer(
            clock=LoopClock(),
            admission=lambda _: GroveDefaults(),
            validation=lambda store: GroveChecks(configuration, store),
        )
        self._transport = self._server.transport()

    async def prepare(self) -> None:
        for manifest in crd_manifests():
            if manifest["spec"]["group"] == "grove.io":
                await self._write("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
        await self._write("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _VOLCANO_QUEUES)

    async def differences(self, case: Json) -> Any:
        namespace = case["namespace"]
        await self._write("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": namespace}})
        for each in case["prerequisites"]:
            await self._create(each, namespace)
        for index, step in enumerate(case["steps"]):
            answer = await self._carry_out(step, namespace)
            if answer is not None:
                for difference in compare(step, answer):
                    yield f"step {index}: {difference}"
        for each in case["prerequisites"]:
            await self._write("DELETE", f"{_path(each['kind'], each['apiVersion'], namespace)}/{_name(each)}")

    async def _create(self, document: Json, namespace: str) -> None:
        path = _path(document["kind"], document["apiVersion"], namespace)
        await self._write("POST", path, document)
        if "status" in document:
            body = {"status": document["status"]}
            await self._write("PATCH", f"{path}/{_name(document)}/status", body, _PATCHES["merge"])

    async def _carry_out(self, step: Json, namespace: str) -> Response | None:
        """The answer to a step of ours; None for those of others."""
        if "apply" in step:
            document = step["apply"]
            return await self._write("POST", _path(document["kind"], document["apiVersion"], namespace), document)
        action = next((step[each] for each in ("patch", "scale", "delete") if each in step), None)
        if not isinstance(action, dict) or action.get("kind") not in ("PodCliqueSet", "ClusterTopologyBinding"):
            return None
        path = f"{_path(action['kind'], 'grove.io/v1alpha1', namespace)}/{action['name']}"
        if "patch" in step:
            return await self._write("PATCH", path, action["body"], _PATCHES[action["type"]])
        if "scale" in step:
            body = {"spec": {"replicas": action["replicas"]}}
            return await self._write("PATCH", f"{path}/scale", body, _PATCHES["merge"])
        await self._write("DELETE", path)
        return None

    async def _write(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Response:
        content = b"" if body is None else json.dumps(body).encode()
        return await self._transport.request(Request(method, path, headers={"content-type": kind}, body=content))


def compare(step: Json, answer: Response) -> Iterator[str]:
    """How an answer differs from the recorded one."""
    said = json.loads(answer.body)
    refusal = step["refusal"]
    if refusal is None:
        if answer.status >= 400:
            if not _is_set_aside(said["message"]):
                yield f"refused: {said['message']}"
            return
        yield from _spec_differences(step, said)
    elif answer.status < 400:
        if not _is_set_aside(refusal["message"]):
            yield f"admitted, though: {refusal['message']}"
        return
    elif "panic" not in refusal["message"]:
        if answer.status != refusal["code"]:
            yield f"code {answer.status} instead of {refusal['code']}"
        ours, theirs = (_PRINTED.sub("Invalid value: {…}", each["message"]) for each in (said, refusal))
        if ours != theirs:
            yield f"says {ours!r} instead of {theirs!r}"
    warnings = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', answer.headers.get("warning", ""))
    if list(dict.fromkeys(warnings)) != step["warnings"]:
        yield f"warns {warnings} instead of {step['warnings']}"


def _is_set_aside(message: str) -> bool:
    return any(pattern.search(message) for pattern in SET_ASIDE)


def _spec_differences(step: Json, said: Json) -> Iterator[str]:
    if said.get("kind") not in ("PodCliqueSet", "ClusterTopologyBinding"):
        return  # a Scale
    recorded = next(
        (each for each in step["objects"] if each["kind"] == said["kind"] and _name(each) == _name(said)), None
    )
    if recorded is not None and _filled(recorded["spec"]) != _filled(said["spec"]):
        yield f"stores {_filled(said['spec'])} instead of {_filled(recorded['spec'])}"


def _filled(value: Any) -> Any:
    """Without what is empty, which Go writes and others don't."""
    if isinstance(value, dict):
        kept = {key: _filled(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [], None)}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _path(kind: str, api_version: str, namespace: str) -> str:
    scope = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{namespace}"
    return f"/apis/{api_version}{scope}/{_PLURALS[kind]}"


def _name(document: Json) -> str:
    return str(document["metadata"]["name"])
