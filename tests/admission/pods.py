"""Pods for the tests of this folder."""

from __future__ import annotations

from typing import Any

from bosket.api.core import Container, Pod, PodSpec, ResourceRequirements
from bosket.api.object import ObjectMeta
from bosket.services.admission.options import PodRules

SHARING = PodRules(gpu_sharing_enabled=True)
EVERYTHING = PodRules(gpu_sharing_enabled=True, hami_core_enabled=True, block_nvidia_visible_devices=True)


def container(name: str = "main", *, limits: dict[str, Any] | None = None, **fields: Any) -> Container:
    resources = ResourceRequirements(limits=limits or {}, requests=limits or {})
    return Container(name=name, image="example.com/work:1", resources=resources, **fields)


def pod(
    annotations: dict[str, str] | None = None,
    *,
    containers: tuple[Container, ...] = (),
    scheduler: str = "kai-scheduler",
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod for our scheduler, of one container unless others are given."""
    return Pod(
        metadata=ObjectMeta(**{"name": "train", "namespace": "ml", "annotations": annotations or {}, **(meta or {})}),
        spec=PodSpec(schedulerName=scheduler, containers=containers or (container(),), **spec),
    )
