"""Our Structs against the official client's models, which are generated from Kubernetes' own OpenAPI document.

The installed `kubernetes` package describes one release; what only other releases have is listed here by name.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from kubernetes.client import models

from bosket.api.object import KubeObject, Wire

MODULES = (
    "admission",
    "apiextensions",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "coordination",
    "core",
    "discovery",
    "discovery_k8s",
    "events",
    "meta",
    "node_k8s",
    "object",
    "policy",
    "rbac",
    "resource_k8s",
    "scheduling_k8s",
    "storage",
)

#: Where the plain name is taken, the official client puts the group before it.
PREFIXES = (
    "V1",
    "V2",
    "V1beta1",
    "V1alpha3",
    "CoreV1",
    "EventsV1",
    "DiscoveryV1",
    "StorageV1",
    "AuthenticationV1",
    "ResourceV1",
    "RbacV1",
    "AdmissionregistrationV1",
    "ApiextensionsV1",
)
RENAMED = {
    "ContainerResourceClaim": "CoreV1ResourceClaim",
    "CSITokenRequest": "StorageV1TokenRequest",
    "JobTopologyConstraint": "V1alpha3TopologyConstraint",
    "ControllerReference": "V1beta1TypedLocalObjectReference",
    "WebhookServiceReference": "AdmissionregistrationV1ServiceReference",
    "WebhookClientConfig": "AdmissionregistrationV1WebhookClientConfig",
    "ConversionServiceReference": "ApiextensionsV1ServiceReference",
    "ConversionClientConfig": "ApiextensionsV1WebhookClientConfig",
}
#: The same plain name stands for something else in another group.
MODEL_OF = {
    ("events", "EventSeries"): "EventsV1EventSeries",
    ("core", "EventSeries"): "CoreV1EventSeries",
    ("autoscaling", "HorizontalPodAutoscaler"): "V2HorizontalPodAutoscaler",
}
#: Fields of releases other than the one that the official client describes.
FROM_OTHER_RELEASES = {"PodSpec": {"workloadRef"}}
#: Left out on purpose: no server has sent them for years, or they belong to sharded lists that we never ask for.
LEFT_OUT = {"ObjectMeta": {"selfLink"}, "ListMeta": {"selfLink", "shardInfo"}}
#: Objects that stay plain JSON: nobody looks into them, or whoever does compiles them first.
PLAIN_JSON = ("V1JSONSchemaProps", "V1ListMeta")
#: What travels as a string: text, times, base64.
SCALARS = {"str": str, "datetime": str, "bytes": str, "int": int, "bool": bool, "float": float}
#: Versions that the official client has dropped.
DROPPED_MODULES = ("bosket.api.scheduling_k8s.v1alpha1", "bosket.api.scheduling_k8s.v1alpha2")


def structs() -> Iterator[type[Wire]]:
    for name in MODULES:
        for module in modules_below(f"bosket.api.{name}"):
            if module.__name__ in DROPPED_MODULES:
                continue
            for value in vars(module).values():
                if inspect.isclass(value) and issubclass(value, Wire) and value.__module__ == module.__name__:
                    yield value


def modules_below(name: str) -> Iterator[types.ModuleType]:
    module = importlib.import_module(name)
    yield module
    for child in pkgutil.iter_modules(getattr(module, "__path__", ())):
        yield from modules_below(f"{name}.{child.name}")


def model_of(struct: type[Wire]) -> Any:
    """The model that has most in common with the Struct among those of its name."""
    name = struct.__name__
    group = struct.__module__.split(".")[2]
    exact = MODEL_OF.get((group, name)) or RENAMED.get(name)
    if exact:
        return getattr(models, exact)
    candidates = [getattr(models, prefix + name) for prefix in PREFIXES if hasattr(models, prefix + name)]
    ours = wire_names(struct)
    return max(candidates, key=lambda model: len(ours & set(model.attribute_map.values())), default=None)


def wire_names(struct: type[Wire]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


COMPARED = [struct for struct in structs() if model_of(struct) is not None]


def describe(struct: type[Wire]) -> str:
    return f"{struct.__module__.removeprefix('bosket.api.')}.{struct.__name__}"


def test_nearly_every_struct_has_a_model_to_be_compared_with() -> None:
    """The models leave out webhook reviews and objects without fields; all else must be found."""
    missing = {struct.__name__ for struct in structs() if model_of(struct) is None and wire_names(struct)}
    assert missing == {
        "AdmissionRequest",
        "AdmissionResponse",
        "AdmissionReview",
        "GroupVersionResource",
        "KubeObject",
        "PartialObjectMetadata",
        "PodWorkloadReference",
    }


@pytest.mark.parametrize("struct", COMPARED, ids=describe)
def test_a_struct_has_exactly_the_fields_that_kubernetes_has(struct: type[Wire]) -> None:
    theirs = set(model_of(struct).attribute_map.values())
    ours = wire_names(struct) - FROM_OTHER_RELEASES.get(struct.__name__, set())
    assert ours - theirs == set(), "fields that Kubernetes doesn't know"
    assert theirs - ours == LEFT_OUT.get(struct.__name__, set()), "fields that are missing here"


@pytest.mark.parametrize("struct", COMPARED, ids=describe)
def test_a_field_has_the_type_that_kubernetes_gives_it(struct: type[Wire]) -> None:
    model = model_of(struct)
    types_by_wire_name = {model.attribute_map[name]: type_ for name, type_ in model.openapi_types.items()}
    for field in msgspec.structs.fields(struct):
        if field.encode_name in FROM_OTHER_RELEASES.get(struct.__name__, set()):
            continue
        theirs = types_by_wire_name[field.encode_name]
        assert accepts(field.type, theirs), f"{field.encode_name}: {field.type} for {theirs}"


def accepts(ours: Any, theirs: str) -> bool:
    """Whether an annotation holds what the OpenAPI type describes."""
    if theirs == "object" or ours is Any:
        return True
    if get_origin(ours) is Annotated:
        return accepts(get_args(ours)[0], theirs)
    if get_origin(ours) in (Union, types.UnionType):
        return any(accepts(option, theirs) for option in get_args(ours))
    if theirs.startswith("List["):
        return get_origin(ours) is tuple and accepts(get_args(ours)[0], theirs[5:-1])
    if theirs.startswith("Dict["):
        return get_origin(ours) is dict and accepts(get_args(ours)[1], theirs.split(", ", 1)[1][:-1])
    if theirs in SCALARS:
        return ours is SCALARS[theirs]
    if theirs in PLAIN_JSON and get_origin(ours) is dict:
        return True
    return inspect.isclass(ours) and issubclass(ours, Wire) and same_thing(ours, theirs)


def same_thing(struct: type[Wire], model_name: str) -> bool:
    """By name where there is a model of that name, else by its fields."""
    theirs = getattr(models, model_name)
    return model_of(struct) is theirs or wire_names(struct) >= set(theirs.attribute_map.values())


@pytest.mark.parametrize("struct", [s for s in COMPARED if issubclass(s, KubeObject)], ids=describe)
def test_an_object_with_nothing_but_a_name_can_be_read(struct: type[KubeObject]) -> None:
    """A server may leave out all that is optional, and Go's zero values are our defaults."""
    document = b'{"apiVersion":"x/v1","kind":"X","metadata":{"name":"a","creationTimestamp":null}}'
    assert msgspec.json.decode(document, type=struct).metadata.name == "a"
