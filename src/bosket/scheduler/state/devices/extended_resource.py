"""Extended resources that a device class provides, as device requests per container.

The rules are those of Kubernetes: containers and sidecars have requests of their own; ordinary init containers use what
later ones will have, and share the largest request for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bosket.api.core import Container, ContainerExtendedResourceRequest, PodSpec
from bosket.api.quantity import InvalidQuantity, to_int
from bosket.api.resource_k8s import DeviceRequest, ExactDeviceRequest
from bosket.scheduler.model.device import ExtendedNeed
from bosket.scheduler.model.resource import GPU_NAMES, ResourceAxis, UncountableAmount, pod_request

Mapped = tuple[ContainerExtendedResourceRequest, ...]


def requests_any(spec: PodSpec, resources: Mapping[str, str]) -> bool:
    """Whether a container asks for one of these."""
    for container in (*spec.containers, *spec.initContainers):
        for name in container.resources.requests or container.resources.limits:
            if name in resources:
                return True
    return False


def extended_needs(spec: PodSpec, classes: Mapping[str, str], axis: ResourceAxis) -> tuple[ExtendedNeed, ...]:
    """What the pod asks for of resources that classes stand in for, in order of names."""
    try:
        amounts = pod_request(spec)
    except (InvalidQuantity, UncountableAmount):
        return ()  # reported where the pod's requests are summed
    needs = []
    for resource in sorted(classes):
        counted = "gpu" if resource in GPU_NAMES else resource
        amount = amounts.get(counted, 0)
        if amount <= 0:
            continue
        requests, mappings = _requests(spec, resource, classes[resource])
        if requests:
            axis.learn({counted: amount})
            needs.append(ExtendedNeed(resource, axis.index_of(counted), amount, requests, mappings))
    return tuple(needs)


def _requests(spec: PodSpec, resource: str, class_name: str) -> tuple[tuple[DeviceRequest, ...], Mapped]:
    containers = (*spec.initContainers, *spec.containers)
    short_lived = [index for index, each in enumerate(spec.initContainers) if each.restartPolicy != "Always"]
    lasting: list[DeviceRequest | None] = [None] * len(containers)
    mappings: list[ContainerExtendedResourceRequest] = []
    for index, container in enumerate(containers):
        if index not in short_lived:
            lasting[index], mapped = _container_request(index, container, resource, class_name, ())
            mappings += mapped
    largest: DeviceRequest | None = None
    brief: list[ContainerExtendedResourceRequest] = []
    names: set[str] = set()
    for index in short_lived:
        request, mapped = _container_request(index, containers[index], resource, class_name, lasting[index:])
        brief += mapped
        if request is not None:
            names.add(request.name)
            if largest is None or _count(largest) < _count(request):
                largest = request
    if largest is not None:
        brief = [
            _mapped(each.containerName, resource, largest.name) if each.requestName in names else each for each in brief
        ]
    found = [each for each in (largest, *lasting) if each is not None]
    return tuple(sorted(found, key=lambda each: each.name)), (*mappings, *brief)


def _container_request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    requests = container.resources.requests or container.resources.limits
    wanted = to_int(requests[resource]) if resource in requests else 0
    mapped: list[ContainerExtendedResourceRequest] = []
    if wanted <= 0:
        return None, mapped
    found = 0
    for each in reusable:
        if each is not None:
            found += _count(each)
            mapped.append(_mapped(container.name, resource, each.name))
            if found >= wanted:
                return None, mapped
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    mapped.append(_mapped(container.name, resource, name))
    exactly = ExactDeviceRequest(deviceClassName=class_name, allocationMode="ExactCount", count=wanted - found)
    return DeviceRequest(name=name, exactly=exactly), mapped


def _mapped(container: str, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(containerName=container, resourceName=resource, requestName=request)


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
