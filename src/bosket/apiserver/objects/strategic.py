"""Strategic merge patch: a merge patch that merges lists by keys.

Maps are merged and null removes, as in a merge patch. A list of the table below is merged by element, identified
by its key; all other lists are replaced. Keys that begin with `$` are directives, not data:

    $patch: delete | replace            remove this map or element; put the patch in its place instead of merging
    $setElementOrder/LIST               the order of a merged list's elements
    $deleteFromPrimitiveList/LIST       values to take out of a merged list of plain values
    $retainKeys                         the only keys that stay in this map
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from bosket.apiserver.objects.types import struct_fields
from bosket.apiserver.status import bad_request
from bosket.kube.patch import hash_key

Json = Any

_ORDER, _REMOVE, _RETAIN, _PATCH = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys", "$patch"
_REMOVED: Json = object()
#: The elements themselves are what tells them apart.
_PLAIN = ""

_CONTAINER = {
    "ports": "containerPort",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
_CONDITIONS = {"conditions": "type"}
#: Struct → its lists that are merged → the key of their elements
_MERGED_LISTS: dict[str, dict[str, str]] = {
    "ObjectMeta": {"ownerReferences": "uid", "finalizers": _PLAIN},
    "PodSpec": {
        "volumes": "name",
        "containers": "name",
        "initContainers": "name",
        "ephemeralContainers": "name",
        "imagePullSecrets": "name",
        "hostAliases": "ip",
        "topologySpreadConstraints": "topologyKey",
        "resourceClaims": "name",
        "schedulingGates": "name",
        "evictionResponders": "name",
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "PodStatus": {
        "conditions": "type",
        "podIPs": "ip",
        "hostIPs": "ip",
        "resourceClaimStatuses": "name",
        "nodeAllocatableResourceClaimStatuses": "resourceClaimName",
    },
    "ContainerStatus": {"allocatedResourcesStatus": "name", "volumeMounts": "mountPath"},
    "NodeAllocatableResourceClaimStatus": {"mapping": "name", "overhead": "name"},
    "PodVolumeHealth": {"healthConditions": "status"},
    "VolumeHealthStatus": {"healthConditions": "status"},
    "CSINodeSpec": {"drivers": "name"},
    "CSINodeStatus": {"storageHealth": "name"},
    "DeviceTaintRuleStatus": _CONDITIONS,
    "JobSchedulingConfiguration": {"resourceClaims": "name"},
    "JSONSchemaProps": {"x-kubernetes-validations": "rule"},
    "NodeSpec": {"podCIDRs": _PLAIN},
    "NodeStatus": {"conditions": "type", "addresses": "type"},
    "ServiceSpec": {"ports": "port"},
    "ServiceStatus": _CONDITIONS,
    "ServiceAccount": {"secrets": "name"},
    "NamespaceStatus": _CONDITIONS,
    "PersistentVolumeClaimStatus": _CONDITIONS,
    "ReplicationControllerStatus": _CONDITIONS,
    "DeploymentStatus": _CONDITIONS,
    "ReplicaSetStatus": _CONDITIONS,
    "StatefulSetStatus": _CONDITIONS,
    "DaemonSetStatus": _CONDITIONS,
    "JobStatus": _CONDITIONS,
    "PodDisruptionBudgetStatus": _CONDITIONS,
    "HorizontalPodAutoscalerStatus": _CONDITIONS,
    "ResourceClaimStatus": {"reservedFor": "uid"},
    "ValidatingWebhookConfiguration": {"webhooks": "name"},
    "MutatingWebhookConfiguration": {"webhooks": "name"},
    "MutatingWebhook": {"matchConditions": "name"},
    "ValidatingWebhook": {"matchConditions": "name"},
    "ValidatingAdmissionPolicySpec": {"matchConditions": "name", "variables": "name"},
}


def merge_key(struct: type | None, field: str) -> str | None:
    """The merge key of a struct's list; None for lists that are replaced."""
    return None if struct is None else _MERGED_LISTS.get(struct.__name__, {}).get(field)


@lru_cache(maxsize=4096)
def below(struct: type | None, field: str) -> type | None:
    """The Struct of the values (or elements, or map entries) in a field, if they have one."""
    if struct is None:
        return None
    info = struct_fields(struct).get(field)
    while info is not None:
        if isinstance(info, inspect.StructType):
            return info.cls
        if isinstance(info, inspect.Metadata):
            info = info.type
        elif isinstance(info, inspect.UnionType):
            info = next((each for each in info.types if not isinstance(each, inspect.NoneType)), None)
        elif isinstance(info, inspect.VarTupleType | inspect.ListType):
            info = info.item_type
        else:
            return None
    return None


def strategic_merge(original: Json, patch: dict[str, Json], struct: type[msgspec.Struct] | None) -> Json:
    """`original`, an object of type `struct`, after the patch. Changes neither argument."""
    return _merge_map(original if isinstance(original, dict) else {}, patch, struct)


def _merge_map(original: dict[str, Json], patch: dict[str, Json], struct: type | None) -> Json:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return _without_directives({key: value for key, value in patch.items() if key != _PATCH})
    if directive == "delete":
        return {}
    if directive is not None and directive != "merge":
        raise bad_request(f"unknown patch directive {directive!r}: expected replace, merge or delete")
    result = dict(original)
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        kept = {key for key in retained if isinstance(key, str)}
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            known = result.get(key)
            merged = _merge_map(known if isinstance(known, dict) else {}, value, below(struct, key))
            if value.get(_PATCH) == "delete":
                result.pop(key, None)
            else:
                result[key] = merged
        elif isinstance(value, list):
            _merge_list(result, key, value, struct)
        else:
            result[key] = value
    _remove_values(result, patch)
    _order(result, original, patch, struct)
    return result


def _merge_list(result: dict[str, Json], field: str, patch: list[Json], struct: type | None) -> None:
    key = merge_key(struct, field)
    known = result.get(field)
    current: list[Json] = known if isinstance(known, list) else []
    if key is None:
        result[field] = [_without_directives(each) for each in patch]
    elif key == _PLAIN:
        there = set(map(hash_key, current))
        result[field] = [*current, *(each for each in patch if hash_key(each) not in there)]
    else:
        result[field] = _merge_elements(current, patch, key, field, below(struct, field))


def _merge_elements(current: list[Json], patch: list[Json], key: str, field: str, struct: type | None) -> list[Json]:
    if any(isinstance(each, dict) and each.get(_PATCH) == "replace" for each in patch):
        return [_without_directives(each) for each in patch if not (isinstance(each, dict) and _PATCH in each)]
    # What is removed leaves `_REMOVED` behind until all are done, so that the others stay where they are.
    merged: list[Json] = list(current)
    places: dict[Hashable, list[int]] = {}
    for index, known in enumerate(merged):
        if isinstance(known, dict):
            places.setdefault(hash_key(known.get(key)), []).append(index)
    for each in patch:
        if not isinstance(each, dict):
            raise bad_request(f"{field}: elements must be objects with a {key!r}, got {each!r}")
        if key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        named = hash_key(each[key])
        if each.get(_PATCH) == "delete":
            for index in places.pop(named, ()):
                merged[index] = _REMOVED
        elif found := places.get(named):
            merged[found[0]] = _merge_map(merged[found[0]], each, struct)
        else:
            places[named] = [len(merged)]
            merged.append(_merge_map({}, each, struct))
    return [each for each in merged if each is not _REMOVED]


def _without_directives(value: Json) -> Json:
    """Data that is put in as a whole carries no directives."""
    if isinstance(value, dict):
        return {
            key: _without_directives(entry)
            for key, entry in value.items()
            if not key.startswith("$") and entry is not None
        }
    if isinstance(value, list):
        return [_without_directives(each) for each in value]
    return value


def _remove_values(result: dict[str, Json], patch: dict[str, Json]) -> None:
    for key, values in patch.items():
        if key.startswith(_REMOVE) and isinstance(values, list):
            field = key.removeprefix(_REMOVE)
            if isinstance(result.get(field), list):
                unwanted = set(map(hash_key, values))
                result[field] = [each for each in result[field] if hash_key(each) not in unwanted]
                if not result[field]:
                    del result[field]


def _order(result: dict[str, Json], original: dict[str, Json], patch: dict[str, Json], struct: type | None) -> None:
    """Put merged lists into the order that the patch asks for: by a directive, or by naming elements."""
    for field, elements in result.items():
        key = merge_key(struct, field)
        wanted = patch.get(_ORDER + field, patch.get(field))
        if key is None or not isinstance(elements, list) or not isinstance(wanted, list):
            continue
        if _ORDER + field in patch:
            _check_order(field, patch.get(field) or (), wanted, key)
        order = [_identity(each, key) for each in wanted if not (isinstance(each, dict) and key not in each)]
        before = [_identity(each, key) for each in original.get(field) or ()]
        result[field] = _interleave(elements, order, before, key)


def _check_order(field: str, named: Any, wanted: list[Json], key: str) -> None:
    """Whatever a patch adds or changes, its own order has a place for it."""
    order = {_identity(each, key) for each in wanted}
    for each in named:
        directive = isinstance(each, dict) and _PATCH in each
        if not directive and _identity(each, key) not in order:
            raise bad_request(f"the order in the patch's {field} doesn't match {_ORDER}{field}: {each!r} isn't in it")


def _identity(element: Json, key: str) -> Hashable:
    return hash_key(element.get(key) if key and isinstance(element, dict) else element)


def _interleave(elements: list[Json], wanted: list[Hashable], before: list[Hashable], key: str) -> list[Json]:
    """Elements that the patch names, in its order; another element stays before the elements that it preceded."""
    order, previous = _first_places(wanted), _first_places(before)
    identified = [(_identity(each, key), each) for each in elements]
    named = deque(sorted((pair for pair in identified if pair[0] in order), key=lambda pair: order[pair[0]]))
    others = deque(pair for pair in identified if pair[0] not in order)
    result: list[Json] = []
    while named and others:
        left, right = previous.get(others[0][0]), previous.get(named[0][0])
        left_first = left is not None and right is not None and left < right
        result.append((others if left_first else named).popleft()[1])
    return [*result, *(each for _, each in named), *(each for _, each in others)]


def _first_places(values: list[Hashable]) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for place, value in enumerate(values):
        places.setdefault(value, place)
    return places
