"""Kubernetes' own workloads, and kinds that are made of them: replica sets, stateful sets, Jobs, JobSets, TrainJobs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.owner import GroupVersionKind, Owner
from bosket.tools.expansion.item import Document, Item, child, counted, pod_of, template_metadata

_JOBSET: Final = "jobset.sigs.k8s.io"


def deployment(item: Item) -> Iterator[Document]:
    """One replica set, as on the first roll-out."""
    spec = item.part.part("spec")
    template = item.template("spec", "template")
    labels, _ = template_metadata(template)
    hash_ = {"pod-template-hash": "plan"}
    copied: dict[str, Any] = {**template.content, "metadata": {**_metadata(template), "labels": {**labels, **hash_}}}
    if spec is not None and spec.flag("paused"):
        return
    yield child(
        item,
        "apps/v1",
        "ReplicaSet",
        f"{item.name}-plan",
        labels={**labels, **hash_},
        annotations=dict(item.owner.annotations),
        spec={"replicas": item.count("spec", "replicas"), "template": copied},
    )


def replica_set(item: Item) -> Iterator[Document]:
    """As many pods as replicas."""
    template = item.template("spec", "template")
    for index in range(item.count("spec", "replicas")):
        yield pod_of(item, template, f"{item.name}-{index}")


def stateful_set(item: Item) -> Iterator[Document]:
    """Pods with ordinals, and their volume claims. All of them, though with the policy OrderedReady one comes after the
    other: none waits for those that come after it."""
    template = item.template("spec", "template")
    first = item.count("spec", "ordinals", "start", default=0)
    claims = item.part.parts("spec", "volumeClaimTemplates") or ()
    given = template.parts("spec", "volumes") or ()
    for ordinal in range(first, first + item.count("spec", "replicas")):
        name = f"{item.name}-{ordinal}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
        pod = pod_of(item, template, name, labels=labels)
        pod["spec"]["hostname"] = name
        volumes = []
        for claim in claims:
            claim_name = claim.text("metadata", "name") or ""
            spec = claim.part("spec")
            made = child(
                item, "v1", "PersistentVolumeClaim", f"{claim_name}-{name}", spec=dict(spec.content) if spec else {}
            )
            del made["metadata"]["ownerReferences"]
            yield made
            volumes.append({"name": claim_name, "persistentVolumeClaim": {"claimName": f"{claim_name}-{name}"}})
        taken = {each["name"] for each in volumes}
        pod["spec"]["volumes"] = [
            *volumes,
            *(dict(each.content) for each in given if each.text("name") not in taken),
        ]
        yield pod


def job(item: Item) -> Iterator[Document]:
    """The pods that run at once: as many as its parallelism, and no more than are to complete."""
    if item.part.flag("spec", "suspend"):
        return
    template = item.template("spec", "template")
    pods = item.count("spec", "parallelism")
    completions = item.part.count("spec", "completions")
    if completions is not None:
        pods = min(pods, completions)
    indexed = item.part.text("spec", "completionMode") == "Indexed"
    uid = item.owner.metadata.uid
    common = {
        "batch.kubernetes.io/job-name": item.name,
        "job-name": item.name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }
    for index in range(pods):
        place = {"batch.kubernetes.io/job-completion-index": str(index)} if indexed else {}
        yield pod_of(item, template, f"{item.name}-{index}", labels={**common, **place}, annotations=place)


def cron_job(item: Item) -> Iterator[Document]:
    """Its next run."""
    template = item.template("spec", "jobTemplate")
    labels, annotations = template_metadata(template)
    spec = template.part("spec")
    if spec is None:
        raise template.error("is missing", "spec")
    name = f"{item.name}-plan"
    yield child(
        item, "batch/v1", "Job", name, labels=labels, annotations=annotations, spec={**spec.content, "suspend": False}
    )


def job_set(item: Item) -> Iterator[Document]:
    """A Job for each replica of each replicated job."""
    if item.part.flag("spec", "suspend"):
        return
    jobs = item.part.parts("spec", "replicatedJobs")
    if not jobs:
        raise item.part.error("has no entries", "spec", "replicatedJobs")
    number = 0
    for replicated in jobs:
        name = replicated.text("name")
        if not name:
            raise replicated.error("is missing", "name")
        template = replicated.part("template")
        spec = template.part("spec") if template is not None else None
        if template is None or spec is None:
            raise replicated.error("is missing; Jobs are made from it", "template", "spec")
        pods = spec.part("template")
        if pods is None:
            raise spec.error("is missing; pods are made from it", "template")
        replicas = counted(replicated, "replicas")
        job_labels, job_annotations = template_metadata(template)
        pod_labels, pod_annotations = template_metadata(pods)
        for index in range(replicas):
            own = {
                f"{_JOBSET}/jobset-name": item.name,
                f"{_JOBSET}/replicatedjob-name": name,
                f"{_JOBSET}/replicatedjob-replicas": str(replicas),
                f"{_JOBSET}/job-index": str(index),
                f"{_JOBSET}/job-global-index": str(number),
                f"{_JOBSET}/restart-attempt": "0",
            }
            number += 1
            metadata = {"labels": {**pod_labels, **own}, "annotations": {**pod_annotations, **own}}
            parallelism = counted(spec, "parallelism")
            yield child(
                item,
                "batch/v1",
                "Job",
                f"{item.name}-{name}-{index}",
                labels={**job_labels, **own},
                annotations={**job_annotations, **own},
                spec={
                    # JobSet's webhook: Indexed, with as many completions as pods, unless said otherwise.
                    "completionMode": "Indexed",
                    "completions": parallelism,
                    **spec.content,
                    "template": {**pods.content, "metadata": {**_metadata(pods), **metadata}},
                },
            )


def train_job(item: Item) -> Iterator[Document]:
    """The JobSet of its runtime, which must be in the files: with as many nodes, and with the resources, that it asks
    for."""
    if item.part.flag("spec", "suspend"):
        return
    name = item.part.text("spec", "runtimeRef", "name")
    kind = item.part.text("spec", "runtimeRef", "kind") or "ClusterTrainingRuntime"
    if not name:
        raise item.part.error("is missing", "spec", "runtimeRef", "name")
    runtime = item.find(kind, name)
    if runtime is None:
        raise item.part.error(
            f'is "{name}"; put this {kind} into the files, too: it says what the pods are', "spec", "runtimeRef", "name"
        )
    gvk = GroupVersionKind.of(runtime["apiVersion"], kind)
    template = Part(Owner.untyped(gvk, runtime)).part("spec", "template", "spec")
    if template is None:
        raise item.part.error(f"names the {kind} {name}, which has no spec.template.spec", "spec", "runtimeRef")
    jobs = [_replicated(item, each) for each in template.parts("replicatedJobs") or ()]
    yield child(
        item,
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        item.name,
        spec=copy.deepcopy({**template.content, "replicatedJobs": jobs}),
    )


def _replicated(item: Item, runtime: Part) -> Document:
    """A replicated job of a TrainJob's runtime, as the TrainJob asks for it."""
    document = dict(runtime.content)
    if runtime.text("name") not in ("node", "trainer-node"):
        return document
    template, job_spec = runtime.part("template"), runtime.part("template", "spec")
    spec = dict(job_spec.content) if job_spec is not None else {}
    nodes = item.part.count("spec", "trainer", "numNodes")
    if nodes is not None:
        spec["parallelism"] = spec["completions"] = nodes
    resources = item.part.part("spec", "trainer", "resourcesPerNode")
    pods, pod_spec = runtime.part("template", "spec", "template"), runtime.part("template", "spec", "template", "spec")
    if resources is not None and pods is not None and pod_spec is not None:
        containers = [dict(each.content) for each in pod_spec.parts("containers") or ()]
        for main in containers[:1]:
            main["resources"] = dict(resources.content)
        spec["template"] = {**pods.content, "spec": {**pod_spec.content, "containers": containers}}
    return {**document, "template": {**(template.content if template is not None else {}), "spec": spec}}


def notebook(item: Item) -> Iterator[Document]:
    """A stateful set of one pod."""
    template = item.template("spec", "template")
    labels, annotations = template_metadata(template)
    own = {"statefulset": item.name, "notebook-name": item.name}
    metadata = {"labels": {**item.owner.labels, **labels, **own}, "annotations": annotations}
    copied = {**template.content, "metadata": metadata}
    stopped = "kubeflow-resource-stopped" in item.owner.annotations
    yield child(item, "apps/v1", "StatefulSet", item.name, spec={"replicas": 0 if stopped else 1, "template": copied})


def _metadata(template: Any) -> Document:
    found = template.part("metadata")
    return dict(found.content) if found is not None else {}
