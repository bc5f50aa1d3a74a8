"""What comes of the manifests of somebody's documentation on an embedded cluster, in virtual time.

The cluster is that of `bosket up`: Config and SchedulingShards have their effect, too. A scenario is all YAML files
of one folder, or all YAML blocks of one Markdown file up to where it describes an object once more, in another way;
each has a fresh cluster of eight nodes with eight GPUs. Objects are written as kubectl does, with fields that a kind
doesn't have refused. What they need and don't bring along (a namespace, a queue, labels of nodes) is made, and named.
After a while the pods are counted.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import looptime
import yaml

from benchmarks.report import Column, Report, progress
from benchmarks.workload import NotMeasured
from bosket.api.condition import find_condition
from bosket.api.core import Namespace, Node, Pod
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.keys import DEFAULT_PARENT_QUEUE, QUEUE_LABEL
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.resource import Resource
from bosket.cli.interpretation import interpret
from bosket.embedded.bootstrap import create_if_absent
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import NodeShape
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, ApiError
from bosket.runtime.clock import LoopClock

Manifest = dict[str, Any]
COLUMNS: Final = (
    Column("scenario", "file or folder"),
    Column("kinds", "what it has"),
    Column("needs", "what it needs"),
    Column("outcome", "what came of it"),
)
#: How long a scenario has until it is looked at; most pods have run for a while by then.
_SECONDS: Final = 180.0
#: Between two objects: what comes first runs first, as where a person applies one after the other.
_PAUSE_SECONDS: Final = 2.0
_BLOCK: Final = re.compile(r"^([ \t]*)```ya?ml[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_LONGEST_REASON: Final = 160
#: What a cluster has that a person installed it on, too.
_SYSTEM: Final = ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust", "kube-system")


@dataclass
class Scenario:
    """What is applied together."""

    name: str
    manifests: list[Manifest] = field(default_factory=list)
    #: Why a part of it is no manifest.
    left_out: list[str] = field(default_factory=list)


def run(folder: Path | None) -> Report:
    """Applies everything below the folder."""
    if folder is None or not folder.is_dir():
        raise NotMeasured(f"--folder {folder}: name a folder with YAML or Markdown files")
    report = Report(f"Manifests of {folder.name} on an embedded cluster", COLUMNS)
    for scenario in scenarios(folder):
        progress(scenario.name)
        with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
            report.rows.append(runner.run(_apply(scenario)))
    return report


def scenarios(folder: Path) -> Iterator[Scenario]:
    """All scenarios below a folder that have manifests, by name."""
    for place in sorted([folder, *(each for each in folder.rglob("*") if each.is_dir())]):
        files = sorted(each for each in place.iterdir() if each.suffix in (".yaml", ".yml"))
        together = Scenario(str(place.relative_to(folder)))
        for file in files:
            _read(together, file.read_text(), file.name)
        if together.manifests:
            yield together
        for file in sorted(place.glob("*.md")):
            alone = Scenario(str(file.relative_to(folder)))
            for indent, block in _BLOCK.findall(file.read_text()):
                text = "\n".join(line.removeprefix(indent) for line in block.split("\n"))
                _read(alone, text, "a block")
            yield from _variants(alone)


def _variants(page: Scenario) -> Iterator[Scenario]:
    """A page that describes an object twice shows two ways: each is a scenario, with what was described before."""
    current: dict[tuple[str, str, str], Manifest] = {}
    number = 1
    for manifest in page.manifests:
        meta = manifest["metadata"]
        identity = (manifest["kind"], _text(meta.get("namespace")), _text(meta.get("name")))
        if identity in current:
            yield Scenario(_numbered(page.name, number), list(current.values()))
            number += 1
        current[identity] = manifest
    if current:
        yield Scenario(_numbered(page.name, number), list(current.values()), page.left_out)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


def _read(scenario: Scenario, text: str, where: str) -> None:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        scenario.left_out.append(f"{where} is no YAML")
        return
    for document in documents:
        items = document.get("items", [document]) if isinstance(document, dict) else []
        for each in items:
            if not isinstance(each, dict) or not {"apiVersion", "kind"} <= each.keys():
                continue  # values of a chart, a part of something
            named = each.get("metadata")
            if isinstance(named, dict) and named.keys() & {"name", "generateName"}:
                scenario.manifests.append(each)
            else:
                scenario.left_out.append(f"a {each['kind']} without a name")


async def _apply(scenario: Scenario) -> dict[str, str]:
    shape, clock = NodeShape(gpus=8), LoopClock()
    async with EmbeddedCluster(nodes=8, shape=shape, racks=2, zones=2, clock=clock, interpret=interpret) as cluster:
        await cluster.wait_ready()
        client = cluster.client("kubectl")
        needs, refusals = await _write_all(client, scenario.manifests)
        await cluster.clock.sleep(_SECONDS)
        pods = [pod for pod in (await client.list(Pod)).items if pod.metadata.namespace not in _SYSTEM]
    kinds = Counter(manifest["kind"] for manifest in scenario.manifests)
    return {
        "scenario": scenario.name,
        "kinds": ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in sorted(kinds.items())),
        "needs": "; ".join(needs),
        "outcome": "; ".join([*_pods_told(pods), *refusals, *scenario.left_out]) or "applied",
    }


async def _write_all(client: Client, manifests: Sequence[Manifest]) -> tuple[list[str], list[str]]:
    """What had to be made, and what was refused."""
    needs, refusals = [], []
    served = {(each.api_version, each.kind): each for each in await client.discover()}
    brought = {manifest["metadata"].get("name") for manifest in manifests if manifest["kind"] in ("Queue", "Namespace")}
    for namespace in sorted({_text(manifest["metadata"].get("namespace")) for manifest in manifests} - {"", *brought}):
        needs += await _made(client, "namespace", Namespace(metadata=ObjectMeta(name=namespace)))
    for queue in sorted({name for manifest in manifests for name in _queues(manifest)} - brought):
        needs += await _made(client, "queue", _queue(queue))
    levels = [level for manifest in manifests for level in _levels(manifest)]
    if missing := await _label_nodes(client, levels):
        needs.append(f"nodes labelled {', '.join(missing)}")
    for manifest in manifests:
        identity = (manifest["apiVersion"], manifest["kind"])
        resource = served.get(identity)
        if resource is None:
            needs.append(f"the definition of {manifest['kind']} ({manifest['apiVersion']})")
            refusals.append(f"not applied: {manifest['kind']}")
            continue
        try:
            await _write(client, resource, manifest)
        except ApiError as error:
            refusals.append(f"refused: {_shortened(error.message)}")
        await client.clock.sleep(_PAUSE_SECONDS)
    return list(dict.fromkeys(needs)), list(dict.fromkeys(refusals))


async def _write(client: Client, resource: Resource[Any], manifest: Manifest) -> None:
    """As `kubectl apply` does, which refuses fields that the kind doesn't have."""
    namespace = manifest["metadata"].get("namespace") or "default"
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    path = f"{base}/namespaces/{namespace}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    try:
        await client.raw("POST", path, query=(("fieldValidation", "Strict"),), body=manifest)
    except AlreadyExists:
        name = manifest["metadata"]["name"]
        if manifest["kind"] != "Pod":
            await client.patch(resource, name, manifest, namespace=namespace)
            return
        await client.delete(resource, name, namespace, grace_seconds=0)  # another example of the same name
        await client.raw("POST", path, query=(("fieldValidation", "Strict"),), body=manifest)


async def _made(client: Client, what: str, obj: KubeObject) -> list[str]:
    """What was missing and is there now; a name that can't be one is a gap for the reader to fill in."""
    try:
        made = await create_if_absent(client, obj)
    except ApiError:
        return [f"a name for {what} {obj.metadata.name}"]
    return [f"{what} {obj.metadata.name}"] if made.outcome == "created" else []


def _levels(manifest: Manifest) -> list[str]:
    """The node labels that a topology is made of, the widest first."""
    if manifest["kind"] not in ("Topology", "ClusterTopologyBinding", "ClusterTopology"):
        return []
    levels = manifest.get("spec", {}).get("levels", ())
    return [key for level in levels if (key := level.get("nodeLabel") or level.get("key"))]


async def _label_nodes(client: Client, levels: Sequence[str]) -> list[str]:
    """Gives nodes the labels that topologies speak of: two domains on the widest level, each half as wide below."""
    nodes = (await client.list(Node)).items
    missing = [key for key in dict.fromkeys(levels) if not any(key in node.metadata.labels for node in nodes)]
    for index, node in enumerate(nodes):
        labels = {
            key: f"domain-{index * min(len(nodes), 2 ** (depth + 1)) // len(nodes)}"
            for depth, key in enumerate(missing)
        }
        if labels:
            await client.patch(Node, node.metadata.name, {"metadata": {"labels": labels}})
    return missing


def _queue(name: str) -> Queue:
    share = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
    resources = QueueResources(gpu=share, cpu=share, memory=share)
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parentQueue=DEFAULT_PARENT_QUEUE, resources=resources))


def _queues(value: object) -> Iterator[str]:
    """The queues that a manifest names in labels, at any depth."""
    if isinstance(value, dict):
        if isinstance(named := value.get(QUEUE_LABEL), str):
            yield named
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _queues(each)


def _pods_told(pods: Sequence[Pod]) -> list[str]:
    phases = Counter(pod.status.phase or "Pending" for pod in pods)
    told = [f"{count} pods {phase}" if count > 1 else f"1 pod {phase}" for phase, count in sorted(phases.items())]
    reasons = []
    for pod in pods:
        condition = find_condition(pod.status.conditions, "PodScheduled")
        if not pod.spec.nodeName and condition is not None and condition.message:
            reasons.append(f"waits: {_shortened(condition.message)}")
        elif pod.spec.schedulingGates:
            reasons.append(f"gated: {', '.join(each.name for each in pod.spec.schedulingGates)}")
        elif pod.status.phase == "Failed":
            reasons.append(f"failed: {_shortened(pod.status.message or pod.status.reason)}")
    return [*told, *dict.fromkeys(reasons)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST_REASON else plain[: _LONGEST_REASON - 1] + "…"
