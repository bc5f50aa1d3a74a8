"""Kubeflow's training jobs: a pod for each replica of each role, labelled as its operators label them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.services.podgrouper.field import Part
from bosket.tools.expansion.item import Document, Item, Rule, child, counted, pod_of, template_metadata

_PREFIX: Final = "training.kubeflow.org"
#: Roles of which one pod is the job's own state.
_MASTERS: Final = ("master", "chief")


def training_job(replica_specs: str) -> Rule:
    """The rule of a kind whose roles are under `spec.<replica_specs>`."""

    def rule(item: Item) -> Iterator[Document]:
        if _is_suspended(item):
            return
        for role, part in _roles(item, replica_specs):
            template = _template(part)
            replicas = counted(part, "replicas")
            for index in range(replicas):
                labels = _labels(item, role.lower(), index)
                if role.lower() in _MASTERS:
                    labels[f"{_PREFIX}/job-role"] = "master"
                yield pod_of(item, template, f"{item.name}-{role.lower()}-{index}", labels=labels)

    return rule


def mpi_job(item: Item) -> Iterator[Document]:
    """Workers, and the launcher: of v2beta1 a Job, of v1 a pod. A launcher that is made when the workers are ready is
    left out: they start without it."""
    if _is_suspended(item):
        return
    launcher_waits = item.part.text("spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    for role, part in _roles(item, "mpiReplicaSpecs"):
        template, is_launcher = _template(part), role.lower() == "launcher"
        common = {f"{_PREFIX}/operator-name": "mpi-operator", f"{_PREFIX}/job-name": item.name}
        if not is_launcher:
            for index in range(counted(part, "replicas")):
                labels = {
                    **common, f"{_PREFIX}/job-role": "worker", f"{_PREFIX}/replica-type": "worker",
                    f"{_PREFIX}/replica-index": str(index),
                }  # fmt: skip
                yield pod_of(item, template, f"{item.name}-worker-{index}", labels=labels)
            continue
        if launcher_waits:
            continue
        labels = {**common, f"{_PREFIX}/job-role": "launcher", f"{_PREFIX}/replica-type": "launcher"}
        if item.gvk.version == "v1":
            yield pod_of(item, template, f"{item.name}-launcher", labels=labels)
            continue
        given, annotations = template_metadata(template)
        metadata = {"labels": {**given, **labels}, "annotations": annotations}
        spec = {"template": {**template.content, "metadata": metadata}}
        yield child(item, "batch/v1", "Job", f"{item.name}-launcher", labels=labels, spec=spec)


def _labels(item: Item, role: str, index: int) -> dict[str, str]:
    return {
        f"{_PREFIX}/operator-name": f"{item.gvk.kind.lower()}-controller",
        f"{_PREFIX}/job-name": item.name,
        f"{_PREFIX}/replica-type": role,
        f"{_PREFIX}/replica-index": str(index),
    }


def _is_suspended(item: Item) -> bool:
    return bool(item.part.flag("spec", "runPolicy", "suspend"))


def _roles(item: Item, replica_specs: str) -> Iterator[tuple[str, Part]]:
    roles = item.part.part("spec", replica_specs)
    if roles is None:
        raise item.part.error("is missing; it says which pods the job has", "spec", replica_specs)
    for role in roles:
        part = roles.part(role)
        if part is not None:
            yield role, part


def _template(part: Part) -> Part:
    template = part.part("template")
    if template is None:
        raise part.error("is missing; pods are made from it", "template")
    return template
