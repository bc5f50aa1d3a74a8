"""Comparing what Grove made of a recorded case with what we did, by the rules of the corpus' own SCHEMA.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.conformance.grove_dump import Json, key_of

#: Set by API servers and their admission, not by Grove.
_SERVER_FIELDS: Final = {
    "Pod": frozenset(
        {
            "imagePullPolicy",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "dnsPolicy",
            "enableServiceLinks",
            "preemptionPolicy",
            "priority",
            "securityContext",
            "serviceAccount",
            "nodeName",
        }
    ),
    "Service": frozenset({"clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity"}),
}
#: Kinds whose generation counts how often they happened to be patched.
_UNCOUNTED: Final = frozenset({"PodGang", "PodGroup", "Pod", "Topology", "Service"})
_NODE_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_TOKEN_VOLUME: Final = re.compile(r"kube-api-access-.*")
_SPEC_IN_MESSAGE: Final = re.compile(r"Invalid value: \{.*\}(?=: )")
_POD_INDEX: Final = "grove.io/podclique-pod-index"
#: What Bosket adds to Grove: labels, annotations.
_ADDED: Final = frozenset({"grove.io/scheduler-backend"})
_SKIP_GROUPING: Final = "kai.scheduler/skip-podgrouper"


def step_differences(theirs: Iterable[Json], ours: Iterable[Json], ignored: Iterable[tuple[str, str]]) -> list[str]:
    """What differs after a step; objects of an `ignored` kind and name may be there or not. Hashes are Grove's own."""
    left_out = set(ignored)
    expected, found = list(theirs), _same_indices(list(theirs), list(ours))
    expected_by_key, found_by_key = ({key_of(each): each for each in side} for side in (expected, found))
    differences = []
    for key in sorted(expected_by_key.keys() | found_by_key.keys()):
        name = f"{key[1]}/{key[2]}"
        if key not in found_by_key or key not in expected_by_key:
            if key[1:] not in left_out:
                differences.append(f"{name}: {'missing' if key in expected_by_key else 'not expected'}")
            continue
        want, got = _cleaned(expected_by_key[key], expected), _cleaned(found_by_key[key], found)
        differences += [f"{name}{each}" for each in _differences(want, got, "")]
    return differences


def _differences(want: Any, got: Any, path: str) -> Iterator[str]:
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(want.keys() | got.keys()):
            yield from _differences(want.get(key), got.get(key), f"{path}.{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif want != got:
        yield f"{path}: expected {_shown(want)}, got {_shown(got)}"


def refusal_differences(want: Json | None, got: Json | None) -> list[str]:
    """What differs between two answers to a request that may have been refused."""
    if want is None or got is None:
        return [] if want is got is None else [f"refusal: expected {_shown(want)}, got {_shown(got)}"]
    if "panic:" in want["message"]:
        return []  # any clean refusal will do
    expected, found = ((each["code"], _short(each["message"])) for each in (want, got))
    return [] if expected == found else [f"refusal: expected {expected}, got {found}"]


def _short(message: str) -> str:
    """A message without the spec that it quotes."""
    return _SPEC_IN_MESSAGE.sub("Invalid value: {…}", message)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _cleaned(obj: Json, all_objects: list[Json]) -> Json:
    kind = obj["kind"]
    cleaned: Json = _clean(obj, kind, "")
    status = cleaned.get("status")
    match kind:
        case "PodClique" if status:
            # Grove leaves it behind when it takes gates away.
            status["scheduleGatedReplicas"] = sum(
                bool(each["spec"].get("schedulingGates"))
                for each in all_objects
                if each["kind"] == "Pod"
                and each["metadata"].get("labels", {}).get("grove.io/podclique") == obj["metadata"]["name"]
            )
        case "Secret":
            cleaned.pop("data", None)
        case "Pod":
            if cleaned["spec"].get("serviceAccountName") == "default":
                del cleaned["spec"]["serviceAccountName"]
        case "PodGang":
            if status:
                kept = [each for each in status.get("conditions", []) if each["type"] == "Initialized"]
                cleaned["status"] = {"conditions": kept}
            _drop(cleaned, "annotations", _SKIP_GROUPING)
        case "PodGroup":
            cleaned.pop("status", None)
    for added in _ADDED:
        _drop(cleaned, "labels", added)
    return cleaned


def _drop(obj: Json, field: str, key: str) -> None:
    entries = obj["metadata"].get(field, {})
    entries.pop(key, None)
    if not entries:
        obj["metadata"].pop(field, None)


def _clean(value: Any, kind: str, parent: str) -> Any:
    """The value without what the server set, what never agrees, and what is empty."""
    if isinstance(value, dict):
        kept = {}
        for key, each in value.items():
            if key in _SERVER_FIELDS.get(kind, ()) and parent in ("spec", "[]"):
                continue
            if key in ("lastTransitionTime", "message") or (key == "uid" and parent == "metadata"):
                continue
            if key in ("generation", "observedGeneration") and kind in _UNCOUNTED:
                continue
            cleaned = _clean(each, kind, key)
            if cleaned not in ({}, [], None):
                kept[key] = cleaned
        return kept
    if isinstance(value, list):
        items = [_clean(each, kind, "[]") for each in value]
        if parent == "tolerations":
            items = [each for each in items if each.get("key") not in _NODE_TAINTS]
        if parent in ("volumes", "volumeMounts"):
            items = [each for each in items if not _TOKEN_VOLUME.fullmatch(each.get("name", ""))]
        return items
    return value


def _same_indices(theirs: list[Json], ours: list[Json]) -> list[Json]:
    """Ours with the pod indices of theirs, where as many pods of a PodClique are left, but others of equal rank."""
    renamed: dict[str, str] = {}
    indices: dict[str, str] = {}
    their_pods, our_pods = _pods_by_clique(theirs), _pods_by_clique(ours)
    for clique, pods in our_pods.items():
        expected = their_pods.get(clique, {})
        if len(expected) != len(pods) or expected.keys() == pods.keys():
            continue
        free = sorted(expected.keys() - pods.keys())
        for index in sorted(pods.keys() - expected.keys()):
            new = free.pop(0)
            name = pods[index]["metadata"]["name"]
            renamed[name] = expected[new]["metadata"]["name"]
            indices[name] = new
    if not renamed:
        return ours
    uids = {f"<uid:Pod/{old}>": f"<uid:Pod/{new}>" for old, new in renamed.items()}
    return [_reindexed(each, renamed | uids, indices) for each in ours]


def _pods_by_clique(objects: Iterable[Json]) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    for each in objects:
        labels = each["metadata"].get("labels", {})
        if each["kind"] == "Pod" and _POD_INDEX in labels:
            found.setdefault(labels["grove.io/podclique"], {})[labels[_POD_INDEX]] = each
    return found


def _reindexed(obj: Json, renamed: Mapping[str, str], indices: Mapping[str, str]) -> Json:
    name = obj["metadata"]["name"]
    changed: Json = _replaced(obj, renamed)
    if obj["kind"] == "Pod" and name in indices:
        changed["metadata"]["labels"][_POD_INDEX] = indices[name]
        changed["spec"]["hostname"] = f"{obj['spec']['hostname'].rsplit('-', 1)[0]}-{indices[name]}"
    return changed


def _replaced(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, renamed) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, renamed) for each in value]
    return renamed.get(value, value) if isinstance(value, str) else value
