"""Recorded cases of Grove's operator, run on ours: on the embedded cluster, in virtual time.

A case is a PodCliqueSet that is applied, changed and deleted step by step; after each step, all objects are compared
with those that Grove made. Cases share a cluster, each in a namespace of its own, one after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import looptime
import msgspec

from bosket.api.grove.operator_configuration import (
    OperatorConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
    TopologyAwareSchedulingConfiguration,
)
from bosket.embedded.cluster import EmbeddedCluster
from bosket.grove.admission import Options as AdmissionOptions
from bosket.grove.backends import Options as BackendOptions
from bosket.grove.operator import Options
from bosket.kube.transport import Request, Response
from bosket.runtime.clock import LoopClock
from tests.conformance.grove_compare import refusal_differences, step_differences
from tests.conformance.grove_dump import CLUSTER_KINDS, KINDS, Json, dumped, path_of
from tests.conformance.grove_world import NodesAndScheduler, install_volcano, make_nodes
from tests.conformance.verdict import Outcome, Verdict

#: How long nothing may change before a state counts as settled, and how long that is waited for.
#: Of the gates in recorded sets.
_USERS_GATES: Final = "example.test/"
_QUIET_SECONDS: Final = 7
_QUIET_AFTER_POD_STATUS_SECONDS: Final = 5
_PATIENCE_SECONDS: Final = 120
_PATCH_TYPES: Final = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}
_STRATEGIC: Final = "application/strategic-merge-patch+json"

#: The two configurations that the cases name.
_CONFIGURATIONS: Final = {
    "A": OperatorConfiguration(
        topologyAwareScheduling=TopologyAwareSchedulingConfiguration(enabled=True),
        scheduler=SchedulerConfiguration(
            profiles=tuple(SchedulerProfile(name=each) for each in ("default-scheduler", "kai-scheduler", "volcano")),
            defaultProfileName="default-scheduler",
        ),
    ),
    "B": OperatorConfiguration(
        scheduler=SchedulerConfiguration(
            profiles=tuple(SchedulerProfile(name=each) for each in ("kai-scheduler", "default-scheduler")),
            defaultProfileName="kai-scheduler",
        ),
    ),
}


def is_case(document: object) -> bool:
    return isinstance(document, dict) and {"operatorConfig", "steps", "prerequisites"} <= document.keys()


def verdicts(files: Iterable[Path]) -> Iterator[Verdict]:
    """Runs the cases in these files, those of one configuration together."""
    cases: dict[str, list[Json]] = {}
    for file in files:
        case = msgspec.json.decode(file.read_bytes())
        cases.setdefault(case["operatorConfig"], []).append(case)
    for configuration, of_it in cases.items():
        with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
            yield from runner.run(_run_all(configuration, of_it))


async def _run_all(configuration: str, cases: Sequence[Json]) -> list[Verdict]:
    options = Options(_CONFIGURATIONS[configuration], init_container_image="grove-initc:v0.1.0-dev")
    default = options.configuration.scheduler.defaultProfileName
    cluster = EmbeddedCluster(
        nodes=0,
        services=("grove-admission", "grove-operator", "grove-backends"),
        service_options={
            "grove-admission": AdmissionOptions(options.configuration),
            "grove-operator": options,
            "grove-backends": BackendOptions(default_scheduler_name=default),
        },
        clock=LoopClock(),
        more_services=(NodesAndScheduler,),
    )
    async with cluster:
        await install_volcano(cluster.client())
        await make_nodes(cluster.client())
        await cluster.wait_ready()
        return [await _Run(cluster, case).verdict() for case in cases]


class _Run:
    """One case on a cluster."""

    def __init__(self, cluster: EmbeddedCluster, case: Json) -> None:
        self._transport = cluster.server.transport()
        self._client = cluster.client("recorded-user")
        self._clock = cluster.clock
        self._case = case
        self._namespace: str = case["namespace"]
        #: Cluster-scoped objects that this case made or changed, by kind and name.
        self._cluster_scoped: dict[tuple[str, str], None] = {}

    async def verdict(self) -> Verdict:
        try:
            outcome, differences = await self._run()
        except Exception as error:  # a case that brings something down is a failed one; the others still count
            outcome, differences = Outcome.FAILED, [f"{type(error).__name__}: {error}"]
        await self._clean_up()
        return Verdict(self._case["id"], "grove", outcome, tuple(differences))

    async def _run(self) -> tuple[Outcome, list[str]]:
        await self._client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}})
        for each in self._case["prerequisites"]:
            await self._create_prerequisite(each)
        repaired: list[tuple[str, str]] = []
        opened = False
        for number, step in enumerate(self._case["steps"]):
            answer = await self._act(step)
            refusal = _refusal(answer)
            if step.get("refusal") is not None and refusal is None and _wants_queue(step["refusal"]):
                return Outcome.BETTER, [f"step {number}: taken, into the default queue"]
            differences = refusal_differences(step.get("refusal"), refusal)
            if refusal is not None and step.get("refusal") is None and _gives_up(step):
                return Outcome.BETTER, [f"step {number}: refused, where Grove accepts what it then can't carry out"]
            if answer is not None and (warnings := _warnings(answer)) != step.get("warnings", []):
                differences.append(f"warnings: expected {step.get('warnings')}, got {warnings}")
            if (deleted := step.get("delete")) and deleted["kind"] in ("Service", "PodGang"):
                repaired.append((deleted["kind"], deleted.get("name", "")))
            if refusal is None and step.get("refusal") is None:
                objects = await self._settled(step)
                if await self._open_gates():
                    opened, objects = True, await self._settled(step)
                differences += step_differences(step["objects"], objects, repaired)
            if differences:
                return Outcome.FAILED, [f"step {number}: {each}" for each in differences]
        if opened:
            return Outcome.BETTER, ["gates of the template are kept until they are taken away"]
        return (Outcome.BETTER if repaired else Outcome.PASSED), []

    # --- what a step does

    async def _act(self, step: Json) -> Response | None:
        if "apply" in step:
            obj = step["apply"]
            return await self._request("POST", self._path(obj["kind"], ""), obj)
        if "patch" in step:
            patch = step["patch"]
            path = self._path(patch["kind"], patch["name"])
            return await self._request("PATCH", path, patch["body"], _PATCH_TYPES[patch["type"]])
        if "scale" in step:
            scale = step["scale"]
            body = {"spec": {"replicas": scale["replicas"]}}
            path = path_of(scale["kind"], self._namespace, scale["name"], "scale")
            return await self._request("PATCH", path, body, _PATCH_TYPES["merge"])
        if "delete" in step:
            return await self._delete(step["delete"])
        if "podstatus" in step:
            for pod in await self._list("Pod", step["podstatus"]["selector"]):
                path = path_of("Pod", self._namespace, pod["metadata"]["name"], "status")
                await self._request("PATCH", path, step["podstatus"]["body"], _STRATEGIC)
            return None
        await self._clock.sleep(step["wait"])
        return None

    async def _open_gates(self) -> bool:
        """Take away gates that a set's template asks for; Grove drops them, so that its pods go on without."""
        found = False
        for pod in await self._list("Pod"):
            gates = pod["spec"].get("schedulingGates", [])
            kept = [each for each in gates if not each["name"].startswith(_USERS_GATES)]
            if kept != gates:
                found = True
                path = path_of("Pod", self._namespace, pod["metadata"]["name"])
                await self._request("PATCH", path, {"spec": {"schedulingGates": kept}}, _PATCH_TYPES["merge"])
        return found

    async def _delete(self, deleted: Json) -> Response | None:
        if "name" in deleted:
            return await self._request("DELETE", self._path(deleted["kind"], deleted["name"]))
        for each in await self._list(deleted["kind"], deleted["selector"]):
            await self._request("DELETE", path_of(deleted["kind"], self._namespace, each["metadata"]["name"]))
        return None

    async def _create_prerequisite(self, obj: Json) -> None:
        obj = dict(obj)
        status = obj.pop("status", None)
        await self._request("POST", self._path(obj["kind"], ""), obj)
        self._path(obj["kind"], obj["metadata"]["name"])
        if status is not None:
            path = path_of(obj["kind"], self._namespace, obj["metadata"]["name"], "status")
            await self._request("PATCH", path, {"status": status}, _PATCH_TYPES["merge"])

    def _path(self, kind: str, name: str) -> str:
        if kind in CLUSTER_KINDS and name:
            self._cluster_scoped[kind, name] = None
        return path_of(kind, self._namespace, name)

    async def _request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Response:
        content = b"" if body is None else json.dumps(body).encode()
        return await self._transport.request(Request(method, path, (), {"Content-Type": content_type}, content))

    # --- what came of it

    async def _settled(self, step: Json) -> list[Json]:
        """The objects once nothing changes any more."""
        quiet_seconds = _QUIET_AFTER_POD_STATUS_SECONDS if "podstatus" in step else _QUIET_SECONDS
        objects = await self._objects()
        quiet = 0
        for _ in range(_PATIENCE_SECONDS):
            await self._clock.sleep(1)
            now = await self._objects()
            quiet = quiet + 1 if _versions(now) == _versions(objects) else 0
            objects = now
            if quiet >= quiet_seconds:
                return dumped(objects)
        raise TimeoutError("the objects don't settle")

    async def _objects(self) -> list[Json]:
        found = [each for kind in KINDS for each in await self._list(kind)]
        for kind in ("ClusterTopologyBinding", "Topology"):
            names = {name for _, name in self._cluster_scoped}
            found += [each for each in await self._list(kind) if each["metadata"]["name"] in names]
        return found

    async def _list(self, kind: str, selector: str = "") -> list[Json]:
        query = (("labelSelector", selector),) if selector else ()
        path = path_of(kind, self._namespace)
        answer = await self._transport.request(Request("GET", path, query))
        if answer.status == 404:
            return []  # a kind that isn't served
        document = msgspec.json.decode(answer.body)
        real = document["kind"].removesuffix("List")
        return [{**each, "apiVersion": document["apiVersion"], "kind": real} for each in document["items"]]

    async def _clean_up(self) -> None:
        for kind, name in self._cluster_scoped:
            await self._request("DELETE", path_of(kind, "", name))
        for each in await self._list("PodCliqueSet"):
            await self._request("DELETE", path_of("PodCliqueSet", self._namespace, each["metadata"]["name"]))
        await self._clock.sleep(10)


def _versions(objects: Iterable[Json]) -> set[tuple[str, str]]:
    """Which objects there are, in which version. Autoscalers' statuses don't count."""
    return {
        (each["metadata"]["uid"], each["metadata"]["resourceVersion"])
        for each in objects
        if each["kind"] != "HorizontalPodAutoscaler"
    }


def _refusal(answer: Response | None) -> Json | None:
    if answer is None or answer.status < 400:
        return None
    status: Json = msgspec.json.decode(answer.body)
    return status


def _warnings(answer: Response) -> list[str]:
    header = answer.headers.get("warning", "")
    texts = [each.removeprefix('299 - "').removesuffix('"') for each in header.split(", 299 - ")] if header else []
    return [each.removeprefix('"').replace('\\"', '"') for each in texts]


def _wants_queue(refusal: Json) -> bool:
    """Whether Grove refused a set because it names no queue of KAI's."""
    return "no KAI queue is configured" in refusal["message"]


def _gives_up(step: Json) -> bool:
    """Whether Grove accepted something in this step that it reports to be unable to do."""
    return any(each.get("status", {}).get("lastErrors") for each in step["objects"])
