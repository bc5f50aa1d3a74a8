"""What a place in an object is to ownership: a map of fields, a keyed list, a set, or one whole.

Shapes come from Structs (with tables for what a Struct doesn't say), from the schemas of custom resources, or, where
neither knows, from the values: maps are maps and lists are wholes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Protocol

from msgspec import inspect

from bosket.apiserver.custom.schema import Node
from bosket.apiserver.custom.strategy import CustomStrategy
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.objects.strategic import merge_key
from bosket.apiserver.objects.types import struct_fields

ShapeKind = Literal["map", "keyed", "set", "atomic", "deduced"]


class Shape(Protocol):
    """One place."""

    @property
    def kind(self) -> ShapeKind: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Of a keyed list: the fields that tell its elements apart."""
        ...

    def field(self, name: str) -> Shape: ...

    def element(self) -> Shape: ...


class _Plain:
    """A shape that says nothing about what is below."""

    def __init__(self, kind: ShapeKind) -> None:
        self.kind: ShapeKind = kind
        self.keys: tuple[str, ...] = ()

    def field(self, name: str) -> Shape:  # noqa: ARG002 - all fields are alike
        return DEDUCED

    def element(self) -> Shape:
        return DEDUCED


ATOMIC: Shape = _Plain("atomic")
DEDUCED: Shape = _Plain("deduced")

#: Lists whose elements have another key than in strategic merge patches, or more keys; no key: a set.
_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("Container", "ports"): ("containerPort", "protocol"),
    ("EphemeralContainer", "ports"): ("containerPort", "protocol"),
    ("ServiceSpec", "ports"): ("port", "protocol"),
    ("PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("AllocatedDeviceStatus", "conditions"): ("type",),
    ("PodStatus", "volumeHealth"): ("name",),
    ("PodVolumeHealth", "healthConditions"): ("status", "reason"),
    ("VolumeHealthStatus", "healthConditions"): ("status", "reason"),
    ("ResourceClaimStatus", "devices"): ("driver", "device", "pool", "shareID"),
    ("ResourceRequirements", "claims"): ("name",),
    ("ResourceStatus", "resources"): ("resourceID",),
    ("ValidatingAdmissionPolicyStatus", "conditions"): ("type",),
    **dict.fromkeys(
        (
            ("CSIDriverSpec", "volumeLifecycleModes"),
            ("ContainerRestartRuleOnExitCodes", "values"),
            ("DeviceRequestAllocationResult", "skipNodeOperations"),
            ("NodeAllocatableResourceClaimStatus", "containers"),
            ("NodePodPreemptionPolicy", "disableResizePreemption"),
            ("PodFailurePolicyOnExitCodesRequirement", "values"),
            ("ResourceSliceSpec", "skipNodeOperations"),
            ("UncountedTerminatedPods", "failed"),
            ("UncountedTerminatedPods", "succeeded"),
            ("ValidatingAdmissionPolicyBindingSpec", "validationActions"),
            ("VolumeMount", "bindMountOptions"),
        ),
        (),
    ),
}
#: Keys that may be left out, and what they then are.
KEY_DEFAULTS = {"protocol": "TCP"}
_ATOMIC_STRUCTS = frozenset(
    {
        "ConfigMapKeySelector",
        "EndpointAddress",
        "EndpointPort",
        "EvictionResponder",
        "FileKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "MatchResources",
        "NamedRuleWithOperations",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ParamKind",
        "ParamRef",
        "ResourceFieldSelector",
        "RoleRef",
        "ScopeSelector",
        "SecretKeySelector",
        "SecretReference",
        "Subject",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
        "Variable",
    }
)
#: Maps and lists that are one whole, though nothing about their type says so.
_ATOMIC_FIELDS = frozenset(
    {
        ("JobStatus", "conditions"),
        ("PodSpec", "nodeSelector"),
        ("PodStatus", "hostIPs"),
        ("ReplicationControllerSpec", "selector"),
        ("Scheduling", "nodeSelector"),
        ("ServiceSpec", "selector"),
    }
)


class StructShape:
    """A Struct."""

    keys: tuple[str, ...] = ()

    def __init__(self, struct: type) -> None:
        self._struct = struct
        self.kind: ShapeKind = "atomic" if struct.__name__ in _ATOMIC_STRUCTS else "map"

    def field(self, name: str) -> Shape:
        return _field_shape(self._struct, name)

    def element(self) -> Shape:
        return DEDUCED


class _ListShape:
    """A list of a Struct."""

    def __init__(self, element: Shape, keys: tuple[str, ...] | None) -> None:
        self._element = element
        self.keys = keys or ()
        self.kind: ShapeKind = "atomic" if keys is None else "keyed" if keys else "set"

    def field(self, name: str) -> Shape:  # noqa: ARG002 - lists have no fields
        return DEDUCED

    def element(self) -> Shape:
        return self._element


class _MapShape:
    """A map with values of one type."""

    kind: ShapeKind = "map"
    keys: tuple[str, ...] = ()

    def __init__(self, value: Shape) -> None:
        self._value = value

    def field(self, name: str) -> Shape:  # noqa: ARG002 - all values are alike
        return self._value

    def element(self) -> Shape:
        return DEDUCED


@lru_cache(maxsize=8192)
def _field_shape(struct: type, name: str) -> Shape:
    info = struct_fields(struct).get(name)
    if info is None:
        return DEDUCED
    if (struct.__name__, name) in _ATOMIC_FIELDS:
        return ATOMIC
    return _shape(info, struct, name)


def _shape(info: inspect.Type, struct: type, name: str) -> Shape:
    if isinstance(info, inspect.Metadata):
        return _shape(info.type, struct, name)
    if isinstance(info, inspect.UnionType):
        known = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        return _shape(known[0], struct, name) if len(known) == 1 else ATOMIC
    if isinstance(info, inspect.StructType):
        return StructShape(info.cls)
    if isinstance(info, inspect.DictType):
        return _MapShape(_shape(info.value_type, struct, name))
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        keys = _KEYS.get((struct.__name__, name))
        if keys is None:
            key = merge_key(struct, name)
            keys = None if key is None else (key,) if key else ()
        return _ListShape(_shape(info.item_type, struct, name), keys)
    return DEDUCED if isinstance(info, inspect.AnyType) else ATOMIC


class SchemaShape:
    """A place in the schema of a custom resource."""

    def __init__(self, node: Node, *, root: bool = False) -> None:
        self._node = node
        self._root = root
        self.keys = node.list_keys
        self.kind: ShapeKind = _schema_kind(node)

    def field(self, name: str) -> Shape:
        if self._root and name == "metadata":
            from bosket.api.object import ObjectMeta

            return StructShape(ObjectMeta)
        child = self._node.child(name)
        return DEDUCED if child is None else SchemaShape(child)

    def element(self) -> Shape:
        return DEDUCED if self._node.items is None else SchemaShape(self._node.items)


def _schema_kind(node: Node) -> ShapeKind:
    if node.type == "array":
        return {"map": "keyed", "set": "set"}.get(node.list_type, "atomic")  # type: ignore[return-value]
    if node.raw.get("x-kubernetes-map-type") == "atomic":
        return "atomic"
    return "map" if node.type == "object" else "deduced"


def shape_of(version: Version) -> Shape:
    """What can be owned apart in objects of a version."""
    strategy = version.strategy
    if strategy.struct is not None:
        return StructShape(strategy.struct)
    return SchemaShape(strategy.tree, root=True) if isinstance(strategy, CustomStrategy) else DEDUCED
