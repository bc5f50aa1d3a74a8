"""HorizontalPodAutoscalers: one per replica of a set for each clique, and each scaling group, that is to be scaled."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from bosket.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, AutoScalingConfig, PodCliqueSet
from bosket.api.grove.naming import clique_name
from bosket.api.resource import AnyResource
from bosket.grove.render.child import child_meta, component_labels
from bosket.grove.render.template import groups_of, standalone_templates

#: What an API server fills in where no metric is named; said here, so that taking metrics away has an effect.
_DEFAULT_METRICS: Final = (
    MetricSpec(
        type="Resource",
        resource=ResourceMetricSource(name="cpu", target=MetricTarget(type="Utilization", averageUtilization=80)),
    ),
)


def autoscalers(
    owner: PodCliqueSet, existing: dict[str, HorizontalPodAutoscaler]
) -> dict[str, HorizontalPodAutoscaler]:
    """All that a set should have, by name."""
    wanted: dict[str, HorizontalPodAutoscaler] = {}

    def add(name: str, kind: AnyResource, config: AutoScalingConfig) -> None:
        wanted[name] = _autoscaler(owner, name, kind, config, existing.get(name))

    for replica in range(owner.spec.replicas):
        for template in standalone_templates(owner):
            if template.spec.autoScalingConfig is not None:
                name = clique_name(owner.metadata.name, replica, template.name)
                add(name, POD_CLIQUE, template.spec.autoScalingConfig)
        for group in groups_of(owner, replica):
            if group.config.scaleConfig is not None:
                add(group.name, POD_CLIQUE_SCALING_GROUP, group.config.scaleConfig)
    return wanted


def _autoscaler(
    owner: PodCliqueSet,
    name: str,
    target: AnyResource,
    config: AutoScalingConfig,
    existing: HorizontalPodAutoscaler | None,
) -> HorizontalPodAutoscaler:
    reference = CrossVersionObjectReference(apiVersion=target.api_version, kind=target.kind, name=name)
    labels = component_labels(owner.metadata.name, "pcs-hpa", name)
    meta = child_meta(existing, owner, name, labels)
    metrics = config.metrics or _DEFAULT_METRICS
    if existing is None:
        spec = HorizontalPodAutoscalerSpec(
            scaleTargetRef=reference,
            minReplicas=config.minReplicas,
            maxReplicas=config.maxReplicas,
            metrics=metrics,
        )
        return HorizontalPodAutoscaler(metadata=meta, spec=spec)
    spec = replace(
        existing.spec,
        scaleTargetRef=reference,
        minReplicas=config.minReplicas,
        maxReplicas=config.maxReplicas,
        metrics=metrics,
    )
    return replace(existing, metadata=meta, spec=spec)
