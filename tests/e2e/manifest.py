"""Manifests for the end-to-end tests, as a user would write them."""

from __future__ import annotations

from typing import Any, Final

Manifest = dict[str, Any]

QUEUE_LABEL: Final = "kai.scheduler/queue"


def pod_spec(*, gpus: int = 0, cpu: str = "100m", scheduler: str = "kai-scheduler", **spec: Any) -> Manifest:
    """One container that asks for that much."""
    resources: Manifest = {"cpu": cpu, "memory": "64Mi"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": "main",
        "image": "example.com/work:1",
        "resources": {"requests": resources, "limits": resources},
    }
    # Nothing in a test waits for a pod to end gracefully unless that is what it is about.
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        **spec,
    }


def pod(name: str, *, queue: str | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A bare pod; `spec` as for `pod_spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": _labels(queue), "annotations": annotations or {}},
        "spec": pod_spec(**spec),
    }


def sharing_pod(name: str, *, fraction: str = "0.25", memory_mib: int = 0, devices: int = 1, **spec: Any) -> Manifest:
    """A pod that asks for a part of each of so many GPUs, or for so much of their memory, as admission leaves it."""
    share = {"gpu-memory": str(memory_mib)} if memory_mib else {"gpu-fraction": fraction}
    annotations = {**share, "runai/shared-gpu-configmap": f"{name}-shared-gpu"}
    if devices > 1:
        annotations["gpu-fraction-num-devices"] = str(devices)
    return pod(name, annotations=annotations, **spec)


def job(
    name: str,
    *,
    pods: int,
    minimum: int | None = None,
    queue: str | None = None,
    priority: str | None = None,
    run_duration: str | None = None,
    exit_code: int = 0,
    **spec: Any,
) -> Manifest:
    """A Job whose pods all run at once: a gang, of all of them or of a `minimum` that grows.

    Without `run_duration` they run until they are deleted.
    """
    annotations = {"bosket.dev/exit-code": str(exit_code)}
    if run_duration is not None:
        annotations["bosket.dev/run-duration"] = run_duration
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {**_labels(queue), **({"priorityClassName": priority} if priority else {})},
            # Without it each pod of a Job may start on its own.
            "annotations": {"kai.scheduler/batch-min-member": str(pods if minimum is None else minimum)},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"workload": name, **_labels(queue)}, "annotations": annotations},
                "spec": pod_spec(restartPolicy="Never", **spec),
            },
        },
    }


def deployment(name: str, *, replicas: int, queue: str | None = None, **spec: Any) -> Manifest:
    """A Deployment of pods that run until they are deleted."""
    labels = {"workload": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(queue)},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, **_labels(queue)}}, "spec": pod_spec(**spec)},
        },
    }


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    """An object about which nobody has an opinion; an empty name goes with a `generateName`."""
    named = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}, "data": data or {}}


def _labels(queue: str | None) -> dict[str, str]:
    return {QUEUE_LABEL: queue} if queue is not None else {}
