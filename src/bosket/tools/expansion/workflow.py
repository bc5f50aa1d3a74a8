"""Workflows: the pods of the steps that begin at once. What comes after them isn't known before they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bosket.services.podgrouper.field import Part
from bosket.tools.expansion.item import Document, Item, child, counted

_ARGO: Final = "workflows.argoproj.io"
#: Templates within templates: deeper ones are taken for a circle.
_DEEPEST: Final = 20
#: Of the pod itself, in a workflow's spec and in its templates.
_POD_FIELDS: Final = (
    "schedulerName", "nodeSelector", "tolerations", "affinity", "priorityClassName", "serviceAccountName", "volumes",
)  # fmt: skip


def argo_workflow(item: Item) -> Iterator[Document]:
    """A pod for each step of the entrypoint that depends on no other."""
    spec = item.part.part("spec")
    if spec is None or spec.flag("suspend"):
        return
    entrypoint = spec.text("entrypoint")
    if not entrypoint:
        raise item.part.error("is missing; a workflow begins with this template", "spec", "entrypoint")
    templates = {each.text("name"): each for each in spec.parts("templates") or ()}
    for number, template in enumerate(_first(item, templates, entrypoint, 0)):
        yield _argo_pod(item, spec, template, number)


def _first(item: Item, templates: dict[str | None, Part], name: str, depth: int) -> Iterator[Part]:
    template = templates.get(name)
    if template is None:
        raise item.part.error(f'has no template "{name}"', "spec", "templates")
    if depth > _DEEPEST:
        raise template.error("is nested too deeply; do the templates form a circle?", "name")
    if "container" in template or "script" in template or "containerSet" in template:
        yield template
        return
    if "dag" in template:
        tasks = template.parts("dag", "tasks") or ()
        begin = [each for each in tasks if not each.texts("dependencies") and not each.text("depends")]
    else:
        begin = _first_steps(template)
    for step in begin:
        below = step.text("template")
        if below:
            items = step.content.get("withItems")
            for _ in range(len(items) if isinstance(items, list) else 1):
                yield from _first(item, templates, below, depth + 1)


def _first_steps(template: Part) -> list[Part]:
    """The first of the groups of steps, each of which is a list."""
    groups = template.content.get("steps")
    first = groups[0] if isinstance(groups, list) and groups else []
    if not isinstance(first, list):
        raise template.error(f"is {first!r}, not a list of steps", "steps[0]")
    return [template.within(each, f"steps[0][{number}]") for number, each in enumerate(first)]


def _argo_pod(item: Item, spec: Part, template: Part, number: int) -> Document:
    container = template.part("container") or template.part("script")
    containers: list[Any]
    if container is not None:
        containers = [{"name": "main", **{key: each for key, each in container.content.items() if key != "source"}}]
    else:
        found = template.parts("containerSet", "containers") or ()
        containers = [dict(each.content) for each in found]
    fields: Document = {"restartPolicy": "Never", "containers": containers}
    for source in (spec, template):
        fields |= {key: source.content[key] for key in _POD_FIELDS if key in source}
    labels: dict[str, str] = {f"{_ARGO}/workflow": item.name}
    annotations: dict[str, str] = {}
    for metadata in (spec.part("podMetadata"), template.part("metadata")):
        if metadata is not None:
            labels |= _map(metadata, "labels")
            annotations |= _map(metadata, "annotations")
    name = template.text("name") or "main"
    return child(item, "v1", "Pod", f"{item.name}-{name}-{number}", labels=labels, annotations=annotations, spec=fields)


def scheduled_workflow(item: Item) -> Iterator[Document]:
    """Its next run."""
    workflow = item.part.part("spec", "workflow", "spec")
    if workflow is None:
        raise item.part.error("is missing; it says what a run consists of", "spec", "workflow", "spec")
    yield child(item, "argoproj.io/v1alpha1", "Workflow", f"{item.name}-plan", spec=dict(workflow.content))


def pipeline_run(item: Item) -> Iterator[Document]:
    """A task run for each task that comes after no other."""
    tasks = item.part.parts("spec", "pipelineSpec", "tasks")
    if tasks is None:
        raise item.part.error(
            "is missing; tasks of a pipeline that is only referred to aren't known here", "spec", "pipelineSpec"
        )
    for task in tasks:
        if task.texts("runAfter"):
            continue
        name = task.text("name") or "task"
        spec = task.part("taskSpec")
        if spec is None:
            raise task.error("is missing; a task that is only referred to isn't known here", "taskSpec")
        template = item.part.part("spec", "taskRunTemplate", "podTemplate")
        fields: Document = {"taskSpec": dict(spec.content)}
        if template is not None:
            fields["podTemplate"] = dict(template.content)
        labels = {"tekton.dev/pipelineRun": item.name, "tekton.dev/pipelineTask": name}
        yield child(item, item.gvk.api_version, "TaskRun", f"{item.name}-{name}", labels=labels, spec=fields)


def task_run(item: Item) -> Iterator[Document]:
    """One pod, with a container for each step."""
    steps = item.part.parts("spec", "taskSpec", "steps")
    if not steps:
        raise item.part.error(
            "has no entries; a task that is only referred to isn't known here", "spec", "taskSpec", "steps"
        )
    containers = []
    for number, step in enumerate(steps):
        resources = step.part("computeResources") or step.part("resources")
        containers.append(
            {
                "name": f"step-{step.text('name') or number}",
                "image": step.text("image") or "step",
                "resources": dict(resources.content) if resources is not None else {},
            }
        )
    template = item.part.part("spec", "podTemplate")
    given = dict(template.content) if template is not None else {}
    spec = {"restartPolicy": "Never", **given, "containers": containers}
    yield child(
        item, "v1", "Pod", f"{item.name}-pod", labels={**item.owner.labels, "tekton.dev/taskRun": item.name}, spec=spec
    )


def runai_job(item: Item) -> Iterator[Document]:
    """As many pods as its parallelism."""
    template = item.template("spec", "template")
    spec = template.part("spec")
    if spec is None:
        raise template.error("is missing; it says what the pods ask for", "spec")
    metadata = template.part("metadata")
    labels = _map(metadata, "labels") if metadata is not None else {}
    for index in range(counted(item.part, "spec", "parallelism")):
        yield child(item, "v1", "Pod", f"{item.name}-{index}-0", labels=labels, spec=dict(spec.content))


def _map(part: Part, field: str) -> Document:
    found = part.part(field)
    return dict(found.content) if found is not None else {}
