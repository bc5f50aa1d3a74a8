"""Kinds that describe pods in words of their own: Spark applications, virtual machines, development workspaces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from bosket.api.quantity import InvalidQuantity, parse
from bosket.services.podgrouper.field import Part, whole_number
from bosket.tools.expansion.item import Document, Item, child, counted

_MEBI: Final = 2**20
#: Spark's memory beside the heap: at least so much, and a part of it that depends on the language.
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD: Final = {"Python": 0.4, "R": 0.4}
_JVM_OVERHEAD: Final = 0.1
_SPARK_UNITS: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def spark_application(item: Item) -> Iterator[Document]:
    """The driver, with the executors below it."""
    driver = item.part.part("spec", "driver") or Part(item.owner, {}, "spec.driver")
    executor = item.part.part("spec", "executor") or Part(item.owner, {}, "spec.executor")
    selector = f"spark-{item.owner.metadata.uid.replace('-', '')}"
    own = {"spark-app-name": item.name, "spark-app-selector": selector, "sparkoperator.k8s.io/app-name": item.name}
    yield _spark_pod(item, driver, f"{item.name}-driver", {**own, "spark-role": "driver"})
    for number in range(1, counted(executor, "instances") + 1):
        pod = _spark_pod(item, executor, f"{item.name}-exec-{number}", {**own, "spark-role": "executor"})
        driver_reference = {"apiVersion": "v1", "kind": "Pod", "name": f"{item.name}-driver", "controller": True}
        pod["metadata"]["ownerReferences"] = [driver_reference]
        yield pod


def _spark_pod(item: Item, part: Part, name: str, own: dict[str, str]) -> Document:
    requests: dict[str, Any] = {
        "cpu": part.text("coreRequest") or str(counted(part, "cores")),
        "memory": str(_spark_memory(item, part)),
    }
    limits: dict[str, Any] = {"memory": requests["memory"]}
    gpu = part.part("gpu")
    if gpu is not None:
        requests[gpu.text("name") or "nvidia.com/gpu"] = limits[gpu.text("name") or "nvidia.com/gpu"] = str(
            counted(gpu, "quantity")
        )
    metadata = {key: part.part(key) for key in ("labels", "annotations")}
    words = {key: dict(each.content) if each is not None else {} for key, each in metadata.items()}
    template = part.part("template", "spec")
    spec: Document = dict(template.content) if template is not None else {}
    scheduler = part.text("schedulerName") or item.part.text("spec", "batchScheduler")
    if scheduler:
        spec["schedulerName"] = scheduler
    for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        if field in part:
            spec[field] = part.content[field]
    given = part.parts("template", "spec", "containers") or ()
    containers = [dict(each.content) for each in given] or [
        {"name": own["spark-role"], "image": item.part.text("spec", "image") or "spark"}
    ]
    main = {**containers[0], "resources": {"requests": requests, "limits": limits}}
    spec |= {"restartPolicy": "Never", "containers": [main, *containers[1:]]}
    return child(
        item, "v1", "Pod", name, labels={**words["labels"], **own}, annotations=words["annotations"], spec=spec
    )


def _spark_memory(item: Item, part: Part) -> int:
    heap = _spark_bytes(part, "memory", "1g")
    if "memoryOverhead" in part:
        return heap + _spark_bytes(part, "memoryOverhead", "0m")
    factor = _OVERHEAD.get(item.part.text("spec", "type") or "", _JVM_OVERHEAD)
    return heap + max(_LEAST_OVERHEAD_MIB * _MEBI, math.ceil(heap * factor))


def _spark_bytes(part: Part, field: str, default: str) -> int:
    """Spark's sizes: 512m, 8g; without a unit mebibytes."""
    text = (part.text(field) or default).lower().removesuffix("b").removesuffix("i")
    unit = _SPARK_UNITS.get(text[-1:], 0)
    digits = text[:-1] if unit else text
    if not digits.isdecimal() or len(digits) > 15:
        raise part.error(f'is "{text}"; write a size such as 8g or 512m', field)
    return int(digits) * (unit or _MEBI)


def virtual_machine_instance(item: Item) -> Iterator[Document]:
    """The pod that the machine runs in."""
    domain = item.part.part("spec", "domain")
    if domain is None:
        raise item.part.error("is missing; it says what the machine asks for", "spec", "domain")
    requests = _resources(domain, "requests")
    limits = _resources(domain, "limits")
    if cores := domain.count("cpu", "cores"):
        sockets, threads = domain.count("cpu", "sockets") or 1, domain.count("cpu", "threads") or 1
        requests.setdefault("cpu", str(cores * sockets * threads))
    if memory := domain.text("memory", "guest"):
        requests.setdefault("memory", memory)
    devices: dict[str, int] = {}
    for device in (*(domain.parts("devices", "gpus") or ()), *(domain.parts("devices", "hostDevices") or ())):
        name = device.text("deviceName")
        if not name:
            raise device.error("is missing; it names the resource that the pod asks for", "deviceName")
        devices[name] = devices.get(name, 0) + 1
    for name, count in devices.items():
        asked = whole_number(str(requests.get(name, "0")))
        if asked is None:
            raise domain.error(f"is {requests[name]!r}, not a whole number", "resources", "requests", name)
        limits[name] = requests[name] = str(asked + count)
    spec = _copied(item, "nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
    spec["containers"] = [
        {"name": "compute", "image": "virt-launcher", "resources": {"requests": requests, "limits": limits}}
    ]
    spec["restartPolicy"] = "Never"
    labels = {**item.owner.labels, "kubevirt.io": "virt-launcher"}
    yield child(item, "v1", "Pod", f"virt-launcher-{item.name}", labels=labels, spec=spec)


def _resources(domain: Part, kind: str) -> dict[str, Any]:
    found = domain.part("resources", kind)
    return dict(found.content) if found is not None else {}


def _copied(item: Item, *fields: str) -> Document:
    spec = item.part.part("spec")
    return {field: spec.content[field] for field in fields if spec is not None and field in spec}


def dev_workspace(item: Item) -> Iterator[Document]:
    """A deployment of one pod, with a container for each container component."""
    if item.part.flag("spec", "started") is False:
        return
    components = item.part.parts("spec", "template", "components") or ()
    containers = []
    for component in components:
        found = component.part("container")
        if found is None:
            continue
        resources: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
        for resource in ("cpu", "memory"):
            for kind, suffix in (("requests", "Request"), ("limits", "Limit")):
                amount = found.text(f"{resource}{suffix}")
                if amount:
                    resources[kind][resource] = _quantity(found, f"{resource}{suffix}", amount)
        overrides = component.part("attributes", "container-overrides", "resources")
        if overrides is not None:
            for kind in ("requests", "limits"):
                resources[kind] |= overrides.content.get(kind) or {}
        name = component.text("name") or "tools"
        containers.append({"name": name, "image": found.text("image") or "tools", "resources": resources})
    if not containers:
        raise item.part.error(
            "has no container; a parent's components aren't known here: put the Deployment beside it",
            "spec", "template", "components",
        )  # fmt: skip
    override = item.part.part("spec", "template", "attributes", "pod-overrides", "spec")
    spec: Document = {**(dict(override.content) if override is not None else {}), "containers": containers}
    labels = {"controller.devfile.io/devworkspace_name": item.name}
    made = {"replicas": 1, "template": {"metadata": {"labels": labels}, "spec": spec}}
    yield child(item, "apps/v1", "Deployment", item.name, labels=labels, spec=made)


def _quantity(part: Part, field: str, text: str) -> str:
    try:
        parse(text)
    except InvalidQuantity:
        raise part.error(f'is "{text}"; write an amount such as 500m or 2Gi', field) from None
    return text
