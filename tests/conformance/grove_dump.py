"""What is in a namespace after a step of a recorded Grove case, in the words of the recording.

The recording has placeholders for what differs from run to run: uids, times, random ends of pods' names, nodes. Here
ours get the same ones. What Bosket adds to Grove (SCHEMA.md, "Where Bosket is more") is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Json = dict[str, Any]

#: Group, version, plural and whether it is namespaced, of all kinds that a recording shows.
KINDS: Final = {
    "PodCliqueSet": ("grove.io", "v1alpha1", "podcliquesets"),
    "PodClique": ("grove.io", "v1alpha1", "podcliques"),
    "PodCliqueScalingGroup": ("grove.io", "v1alpha1", "podcliquescalinggroups"),
    "PodGang": ("scheduler.grove.io", "v1alpha1", "podgangs"),
    "PodGroup": ("scheduling.run.ai", "v2alpha2", "podgroups"),
    "VolcanoPodGroup": ("scheduling.volcano.sh", "v1beta1", "podgroups"),
    "Pod": ("", "v1", "pods"),
    "Service": ("", "v1", "services"),
    "ServiceAccount": ("", "v1", "serviceaccounts"),
    "Secret": ("", "v1", "secrets"),
    "Role": ("rbac.authorization.k8s.io", "v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "HorizontalPodAutoscaler": ("autoscaling", "v2", "horizontalpodautoscalers"),
    "ResourceClaim": ("resource.k8s.io", "v1", "resourceclaims"),
    "ResourceClaimTemplate": ("resource.k8s.io", "v1", "resourceclaimtemplates"),
}
CLUSTER_KINDS: Final = {
    "ClusterTopologyBinding": ("grove.io", "v1alpha1", "clustertopologybindings"),
    "Topology": ("kai.scheduler", "v1alpha1", "topologies"),
    "Queue": ("scheduling.volcano.sh", "v1beta1", "queues"),
    "PriorityClass": ("scheduling.k8s.io", "v1", "priorityclasses"),
}
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
_DROPPED_META: Final = ("managedFields", "resourceVersion", "creationTimestamp", "selfLink")
_POD_INDEX: Final = "grove.io/podclique-pod-index"


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object, or one of its subresources."""
    group, version, plural = KINDS.get(kind) or CLUSTER_KINDS[kind]
    parts = ["/apis", group, version] if group else ["/api", version]
    if kind in KINDS:
        parts += ["namespaces", namespace]
    return "/".join([*parts, plural, *filter(None, (name, subresource))])


def dumped(objects: Iterable[Json]) -> list[Json]:
    """Our objects as a recording would show them."""
    found = [each for each in objects if not _is_left_out(each)]
    text = _Placeholders(found)
    return [_tidied(text.replaced(each)) for each in found]


def _is_left_out(obj: Json) -> bool:
    return bool(obj["kind"] == "ServiceAccount" and obj["metadata"]["name"] == "default")


class _Placeholders:
    """What stands for uids, pods' names and our own names of others' objects."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self._names: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        objects = list(objects)
        for each in objects:
            if each["kind"] == "Pod":
                self._name_pod(each["metadata"])
            elif each["kind"] == "PodGroup":
                owner = next(iter(each["metadata"].get("ownerReferences", [])), None)
                if owner is not None:
                    self._names[each["metadata"]["name"]] = owner["name"]
        for each in objects:
            meta = each["metadata"]
            self._uids[meta["uid"]] = f"<uid:{each['kind']}/{self._names.get(meta['name'], meta['name'])}>"
        self._gone = re.compile(
            "|".join(
                re.escape(each["metadata"]["name"]) + "-[a-z0-9]{5}" for each in objects if each["kind"] == "PodClique"
            )
            or r"(?!)"
        )

    def _name_pod(self, meta: Json) -> None:
        clique = meta.get("generateName", f"{meta['name']}-")
        name = f"{clique}~{meta.get('labels', {}).get(_POD_INDEX, '')}"
        while name in self._names.values():
            name += "+"
        self._names[meta["name"]] = name

    def replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.replaced(key): self.replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.replaced(each) for each in value]
        if not isinstance(value, str):
            return value
        if value in self._uids:
            return self._uids[value]
        if value in self._names:
            return self._names[value]
        if _TIME.fullmatch(value):
            return "<time>"
        return self._gone.sub(lambda match: f"{match[0][:-5]}~?", value)


def _tidied(obj: Json) -> Json:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _DROPPED_META}
    obj = {**obj, "metadata": meta}
    match obj["kind"]:
        case "Pod":
            return _tidied_pod(obj)
        case "PodGang":
            return _tidied_gang(obj)
        case "PodCliqueSet":
            status = {key: value for key, value in obj.get("status", {}).items() if key != "podGangStatuses"}
            obj = {**obj, "status": status}
        case "HorizontalPodAutoscaler":
            obj.pop("status", None)
    return _with_sorted_conditions(obj)


def _tidied_pod(obj: Json) -> Json:
    spec = {key: value for key, value in obj["spec"].items() if key not in ("schedulingGroup", "workloadRef")}
    gates = [each for each in spec.pop("schedulingGates", []) if each["name"] not in _BACKEND_GATES]
    if gates:
        spec["schedulingGates"] = gates
    if spec.get("nodeName"):
        spec["nodeName"] = "<node>"
    if _prefers_former_place(spec.get("affinity")):
        del spec["affinity"]
    conditions = [
        {key: each[key] for key in ("type", "status", "reason") if each.get(key)}
        for each in obj["status"].get("conditions", [])
    ]
    status = {"phase": obj["status"].get("phase"), "conditions": conditions}
    return _with_sorted_conditions({**obj, "spec": spec, "status": status})


def _prefers_former_place(affinity: Json | None) -> bool:
    """Whether nothing but the reuse of reservations is asked for."""
    if affinity is None or affinity.keys() != {"nodeAffinity"}:
        return False
    preferred = affinity["nodeAffinity"].get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return len(affinity["nodeAffinity"]) == 1 and all("matchFields" in each["preference"] for each in preferred)


#: Conditions that Grove doesn't have.
_OWN_CONDITIONS: Final = "bosket.dev/"
#: Gates that the backends set and take away themselves.
_BACKEND_GATES: Final = ("grove.io/podgang", "scheduling.k8s.io/workload", "scheduling.koordinator.sh/gang")


def _tidied_gang(obj: Json) -> Json:
    groups = [
        {**each, "podReferences": sorted(each.get("podReferences", []), key=lambda reference: reference["name"])}
        for each in obj["spec"]["podgroups"]
    ]
    spec = {key: value for key, value in obj["spec"].items() if key != "reuseReservationRef"}
    return _with_sorted_conditions({**obj, "spec": {**spec, "podgroups": groups}})


def _with_sorted_conditions(obj: Json) -> Json:
    status = obj.get("status")
    if not isinstance(status, dict) or not status.get("conditions"):
        return obj
    known = (each for each in status["conditions"] if not each["type"].startswith(_OWN_CONDITIONS))
    conditions = sorted(known, key=lambda each: str(each["type"]))
    return {**obj, "status": {**status, "conditions": conditions}}


def key_of(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    return obj["apiVersion"], obj["kind"], obj["metadata"]["name"]
