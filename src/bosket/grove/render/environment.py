"""Environment variables by which a container learns where in its set it runs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bosket.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec
from bosket.api.grove import PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import GROUP_LABEL, GROUP_REPLICA_LABEL, POD_INDEX_LABEL, service_address
from bosket.grove.render.template import template_named


def group_variables(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> tuple[EnvVar, ...]:
    """For containers of a scaling group."""
    members = (template_named(owner, each) for each in group.spec.cliqueNames)
    pods = sum(each.spec.replicas for each in members if each is not None)
    return (
        _from_label("GROVE_PCSG_NAME", GROUP_LABEL),
        EnvVar(name="GROVE_PCSG_TEMPLATE_NUM_PODS", value=str(pods)),
        _from_label("GROVE_PCSG_INDEX", GROUP_REPLICA_LABEL),
    )


def pod_variables(set_name: str, replica: int, clique: str, namespace: str) -> tuple[EnvVar, ...]:
    """For containers of every pod."""
    return (
        EnvVar(name="GROVE_PCS_NAME", value=set_name),
        EnvVar(name="GROVE_PCS_INDEX", value=str(replica)),
        EnvVar(name="GROVE_PCLQ_NAME", value=clique),
        EnvVar(name="GROVE_HEADLESS_SERVICE", value=service_address(set_name, replica, namespace)),
        _from_label("GROVE_PCLQ_POD_INDEX", POD_INDEX_LABEL),
    )


def with_variables(spec: PodSpec, variables: Sequence[EnvVar]) -> PodSpec:
    """The pod with these in front in every container; they replace the container's own of the same name."""
    return replace(
        spec,
        containers=tuple(_extended(each, variables) for each in spec.containers),
        initContainers=tuple(_extended(each, variables) for each in spec.initContainers),
    )


def _extended(container: Container, variables: Sequence[EnvVar]) -> Container:
    names = {each.name for each in variables}
    return replace(container, env=(*variables, *(each for each in container.env if each.name not in names)))


def _from_label(name: str, label: str) -> EnvVar:
    field = ObjectFieldSelector(fieldPath=f"metadata.labels['{label}']")
    return EnvVar(name=name, valueFrom=EnvVarSource(fieldRef=field))
