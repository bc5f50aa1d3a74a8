"""Recorded cases of KAI's pod grouper, run on ours.

A case is a pod and all other objects of a cluster; it passes when the PodGroup and the changes to the pod are those
that KAI made. `run` gives an outcome per case, for the tests and for reports. The rules of comparison (what counts as
equal, what is tolerated) are those of the cases' own SCHEMA.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey, OwnerReference, Status
from bosket.kube.errors import ApiError, Forbidden, NotFound
from bosket.runtime.clock import SystemClock
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.kind_default import KindDefaults, parse_kind_defaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner
from bosket.services.podgrouper.plan import Plan, compare, find_grouping
from bosket.services.podgrouper.table import GrouperTable

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case: `passed`, `tolerated`, `unsupported`, or `failed` with the differences."""

    case: str
    kind: str
    verdict: str
    differences: tuple[str, ...] = ()


async def run(folder: Path) -> list[Outcome]:
    """Run all cases, kind by kind."""
    table = GrouperTable()
    return [
        await _run_case(msgspec.json.decode(line), file.stem, table)
        for file in sorted((folder / "cases").glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Counter[str]]:
    """Verdicts by kind."""
    by_kind: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        by_kind.setdefault(outcome.kind, Counter())[outcome.verdict] += 1
    return by_kind


async def _run_case(case: Json, kind: str, table: GrouperTable) -> Outcome:
    expected = case["expected"]
    differences = tuple(_differences(expected, await _observe(case["input"], table)))
    if not differences:
        return Outcome(case["id"], kind, "passed")
    tolerable = (expected["error"] or {}).get("class") == "panic" or "apiWouldReject" in expected
    return Outcome(case["id"], kind, "tolerated" if tolerable else "failed", differences)


@dataclass(frozen=True, slots=True)
class _Observed:
    pod_group: Json | None = None
    pod_changes: Json | None = None
    error: str | None = None


async def _observe(given: Json, table: GrouperTable) -> _Observed:
    cluster = RecordedCluster([*given["objects"], given["pod"]], given["options"])
    pod = msgspec.convert(given["pod"], Pod)
    try:
        planned = await _plan(pod, cluster, options_of(given["options"]), table)
    except (GroupingError, ApiError) as error:
        return _Observed(error=str(error))
    if planned is None:
        return _Observed()
    return _Observed(msgspec.to_builtins(planned.pod_group), planned.pod_changes)


async def _plan(pod: Pod, cluster: RecordedCluster, options: Options, table: GrouperTable) -> Plan | None:
    # One for each case: objects of different cases have the same uid and version.
    with closing(JqEvaluator(SystemClock())) as runner:
        grouping = await find_grouping(pod, cluster, cluster, options, table, runner=runner)
    if grouping is None:
        return None
    return compare(pod, grouping, cluster.pod_group(grouping.pod_group.key), options)


def options_of(recorded: Mapping[str, Any]) -> Options:
    return Options(
        scheduler_name=recorded["schedulerName"],
        queue_label_key=recorded["queueLabelKey"],
        node_pool_label_key=recorded["nodePoolLabelKey"],
        search_legacy_groups=recorded["searchLegacyPg"],
        knative_gang_schedule=recorded["knativeGangSchedule"],
        karta_fallback=recorded["genericKartaFallback"],
        default_priorities_configmap_name=recorded["defaultPrioritiesConfigMapName"],
        default_priorities_configmap_namespace=recorded["defaultPrioritiesConfigMapNamespace"],
        pod_label_selector=recorded["podLabelSelector"],
        namespace_label_selector=recorded["namespaceLabelSelector"],
    )


class RecordedCluster:
    """The objects of a case, as the grouper's `Cluster` and `OwnerReader`."""

    def __init__(self, objects: Sequence[Json], options: Mapping[str, Any]) -> None:
        self._objects = {
            (each["apiVersion"], each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
            for each in objects
        }
        self._forbidden = frozenset(options["forbiddenKinds"])
        self._defaults_key = (options["defaultPrioritiesConfigMapNamespace"], options["defaultPrioritiesConfigMapName"])

    def priority_class_exists(self, name: str) -> bool:
        return ("scheduling.k8s.io/v1", "PriorityClass", "", name) in self._objects

    def pod_group(self, key: ObjectKey) -> PodGroup | None:
        found = self._objects.get(("scheduling.run.ai/v2alpha2", "PodGroup", *key))
        return msgspec.convert(found, PodGroup) if found else None

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        found = self._objects.get(("v1", "Namespace", "", name), {})
        labels: Mapping[str, str] = found.get("metadata", {}).get("labels", {})
        return labels

    def kind_defaults(self) -> KindDefaults:
        found = self._objects.get(("v1", "ConfigMap", *self._defaults_key), {})
        return parse_kind_defaults(found.get("data", {}).get("types", ""))

    def pods_labelled(self, namespace: str, label: str, value: str) -> list[Pod]:
        found = (each for key, each in self._objects.items() if key[:3] == ("v1", "Pod", namespace))
        return [msgspec.convert(each, Pod) for each in found if each["metadata"].get("labels", {}).get(label) == value]

    def pod_groups_named_after(self, namespace: str, uid: str) -> list[PodGroup]:
        kind = ("scheduling.run.ai/v2alpha2", "PodGroup", namespace)
        return [
            msgspec.convert(each, PodGroup) for key, each in self._objects.items() if key[:3] == kind and uid in key[3]
        ]

    async def find(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner:
        found = self._objects.get((gvk.api_version, gvk.kind, namespace, name))
        if found is None:
            raise NotFound(Status(code=404, reason="NotFound", message=f"{gvk} {name}"))
        return Owner.untyped(gvk, found)

    async def find_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        return tuple(
            Owner.untyped(gvk, each) for key, each in self._objects.items() if key[:2] == (gvk.api_version, gvk.kind)
        )

    async def read(self, reference: OwnerReference, namespace: str) -> Owner:
        gvk = GroupVersionKind.of(reference.apiVersion, reference.kind)
        if f"{gvk.kind}.{gvk.group}" in self._forbidden:
            raise Forbidden(Status(code=403, reason="Forbidden", message=f"{gvk} {reference.name}"))
        for scope in (namespace, ""):
            found = self._objects.get((reference.apiVersion, reference.kind, scope, reference.name))
            if found is not None:
                return Owner.untyped(gvk, found)
        raise NotFound(Status(code=404, reason="NotFound", message=f"{gvk} {reference.name}"))


def _differences(expected: Json, observed: _Observed) -> Iterator[str]:
    if bool(expected["error"]) != bool(observed.error):
        yield f"error: expected {expected['error']}, got {observed.error}"
    elif not expected["error"]:
        yield from _compare("podGroup", _comparable(expected["podGroup"]), _comparable(observed.pod_group))
        yield from _compare("podPatch", expected["podPatch"] or {}, observed.pod_changes or {})


def _comparable(pod_group: Json | None) -> Json | None:
    if pod_group is None:
        return None
    metadata = pod_group["metadata"]
    owners = [
        {key: each.get(key) for key in ("apiVersion", "kind", "name", "uid")}
        for each in metadata.get("ownerReferences", [])
    ]
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        # An empty value of a label or annotation is a value; only in the spec is empty the same as absent.
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": owners,
        "spec": _without_empty(pod_group.get("spec", {})),
    }


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := _without_empty(each)) not in (None, "", {}, [])}
    if isinstance(value, list | tuple):
        return [_without_empty(each) for each in value]
    return value


def _compare(path: str, expected: Any, observed: Any) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(observed, dict):
        for key in sorted(expected.keys() | observed.keys()):
            yield from _compare(f"{path}.{key}", expected.get(key), observed.get(key))
    elif expected != observed:
        yield f"{path}: expected {expected!r}, got {observed!r}"
