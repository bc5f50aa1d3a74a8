"""Kinds that serve: LeaderWorkerSets, Knative services, Seldon and Dynamo deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.services.podgrouper.field import Part, whole_number
from bosket.tools.expansion.item import Document, Item, child, counted, pod_of, template_metadata

_LWS: Final = "leaderworkerset.sigs.k8s.io"
_KNATIVE: Final = "serving.knative.dev"
_SCALING: Final = "autoscaling.knative.dev"


def leader_worker_set(item: Item) -> Iterator[Document]:
    """Of each replica the leader and its workers; also where workers come after the leader is ready."""
    part = item.part.part("spec", "leaderWorkerTemplate")
    if part is None:
        raise item.part.error("is missing; pods are made from it", "spec", "leaderWorkerTemplate")
    workers = part.part("workerTemplate")
    if workers is None:
        raise part.error("is missing; pods are made from it", "workerTemplate")
    leaders = part.part("leaderTemplate") or workers
    size = counted(part, "size")
    for group in range(item.count("spec", "replicas")):
        for index in range(size):
            labels = {
                f"{_LWS}/name": item.name,
                f"{_LWS}/group-index": str(group),
                f"{_LWS}/worker-index": str(index),
                f"{_LWS}/group-key": f"{item.name}-{group}",
            }
            name = f"{item.name}-{group}" if index == 0 else f"{item.name}-{group}-{index}"
            size_annotation = {f"{_LWS}/size": str(size)}
            yield pod_of(item, workers if index else leaders, name, labels=labels, annotations=size_annotation)


def knative_service(item: Item) -> Iterator[Document]:
    """A configuration."""
    spec = item.part.part("spec")
    if spec is None:
        raise item.part.error("is missing", "spec")
    labels = {f"{_KNATIVE}/service": item.name}
    yield child(item, item.gvk.api_version, "Configuration", item.name, labels=labels, spec=dict(spec.content))


def knative_configuration(item: Item) -> Iterator[Document]:
    """Its first revision."""
    template = item.template("spec", "template")
    labels, annotations = template_metadata(template)
    spec = template.part("spec")
    if spec is None:
        raise template.error("is missing; it says what the pods ask for", "spec")
    name = template.text("metadata", "name") or f"{item.name}-00001"
    labels = {**labels, f"{_KNATIVE}/configuration": item.name, f"{_KNATIVE}/service": item.name}
    yield child(
        item, item.gvk.api_version, "Revision", name, labels=labels, annotations=annotations, spec=dict(spec.content)
    )


def knative_revision(item: Item) -> Iterator[Document]:
    """A deployment of as many pods as the revision begins with."""
    spec = item.part.part("spec")
    if spec is None:
        raise item.part.error("is missing", "spec")
    labels = {
        **item.owner.labels,
        f"{_KNATIVE}/revision": item.name,
        f"{_KNATIVE}/revisionUID": item.owner.metadata.uid,
        "app": item.name,
    }
    annotations = dict(item.owner.annotations)
    least = max(
        whole_number(annotations.get(f"{_SCALING}/{key}", "")) or 0
        for key in ("min-scale", "minScale", "initial-scale")
    )
    replicas = least or (0 if annotations.get(f"{_SCALING}/initial-scale") == "0" else 1)
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            key: value
            for key, value in spec.content.items()
            if key
            not in ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
        },
    }
    made = {"replicas": replicas, "template": template}
    name = f"{item.name}-deployment"
    yield child(item, "apps/v1", "Deployment", name, labels=labels, annotations=annotations, spec=made)


def seldon_deployment(item: Item) -> Iterator[Document]:
    """A deployment for each component of each predictor that brings its own pods."""
    predictors = item.part.parts("spec", "predictors")
    if not predictors:
        raise item.part.error("has no entries", "spec", "predictors")
    default = item.count("spec", "replicas")
    for predictor in predictors:
        name = predictor.text("name") or "default"
        components = predictor.parts("componentSpecs")
        if not components:
            raise predictor.error(
                "has no entries; of a prepackaged server Bosket doesn't know the pods: put its Deployment beside it",
                "componentSpecs",
            )
        for number, component in enumerate(components):
            labels, annotations = template_metadata(component)
            own = {"seldon-deployment-id": item.name, "seldon-app": f"{item.name}-{name}"}
            metadata = {"labels": {**labels, **own}, "annotations": annotations}
            replicas = counted(component, "replicas", default=counted(predictor, "replicas", default=default))
            spec = {"replicas": replicas, "template": {**component.content, "metadata": metadata}}
            yield child(item, "apps/v1", "Deployment", f"{item.name}-{name}-{number}", labels=own, spec=spec)


def dynamo_graph_deployment(item: Item) -> Iterator[Document]:
    """A deployment for each service whose pods the object itself describes."""
    services = item.part.part("spec", "services")
    if services is None:
        raise item.part.error("is missing", "spec", "services")
    for name in services:
        service = services.part(name)
        if service is None:
            continue
        pod = service.part("extraPodSpec")
        container = pod.part("mainContainer") if pod is not None else None
        if pod is None or container is None:
            raise services.error(
                "is missing; without it Bosket doesn't know the pods: put the Deployment beside it",
                name, "extraPodSpec", "mainContainer",
            )  # fmt: skip
        spec = {key: value for key, value in pod.content.items() if key != "mainContainer"}
        own = container.part("resources")
        resources = _dynamo_resources(service) or (dict(own.content) if own is not None else {})
        others = [dict(each.content) for each in pod.parts("containers") or ()]
        main = {"name": "main", "image": "runtime", **container.content, "resources": resources}
        labels = {"nvidia.com/dynamo-component": name, "nvidia.com/dynamo-graph-deployment-name": item.name}
        template = {"metadata": {"labels": labels}, "spec": {**spec, "containers": [main, *others]}}
        yield child(
            item, "apps/v1", "Deployment", f"{item.name}-{name.lower()}", labels=labels,
            spec={"replicas": counted(service, "replicas"), "template": template},
        )  # fmt: skip


def _dynamo_resources(service: Part) -> Document:
    """Its resources, where GPUs are called `gpu`."""
    found: Document = {}
    for kind in ("requests", "limits"):
        given = service.part("resources", kind)
        if given is not None:
            names = {"gpu": "nvidia.com/gpu"}
            found[kind] = {names.get(key, key): value for key, value in given.content.items() if key != "custom"}
    return found
