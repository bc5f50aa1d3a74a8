"""Whether whoever writes an object may use the queue and the priority class that it names.

Asked about pods, pod groups and the kinds whose pods are grouped, where access control is on. By namespace every
object is judged. By user those are that somebody makes for themselves: a pod or ReplicaSet that a controller makes for
its owner was judged when the owner was written, and the controller's account says nothing about who that was.
What an object named before stays: rules are about what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bosket.admission.options import Options
from bosket.api import keys
from bosket.api.admission import AdmissionRequest
from bosket.api.kai import Queue
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.access import Rule, against_namespace, against_subject, class_rules, is_among, queue_rules
from bosket.webhook.verdict import ADMITTED, Refusal, Verdict

#: Who may do anything anyway: take a rule off, for one.
_MASTERS: Final = "system:masters"
_POD_GROUP: Final = "PodGroup"
_CLASS_LABELS: Final = (keys.PRIORITY_CLASS_LABEL, keys.RAY_PRIORITY_CLASS_LABEL)
_CLASS_FIELD: Final = "priorityClassName"


@dataclass(frozen=True, slots=True)
class Known:
    """What there is in the cluster that rules are about."""

    queues: Callable[[], Mapping[str, Queue]]
    classes: Callable[[], Mapping[str, PriorityClass]]
    #: The labels of a namespace; none of one that isn't known.
    labels: Callable[[str], Mapping[str, str]]
    #: Where the services run, whose accounts write for others.
    own_namespace: str = keys.SYSTEM_NAMESPACE


class Use(NamedTuple):
    """One queue or priority class that an object names, and where."""

    kind: str
    name: str
    field: str


def check_access(request: AdmissionRequest, options: Options, known: Known) -> Verdict:
    """Refuses what names a queue or a priority class that isn't for its namespace, or for its author."""
    if not options.access_control or not isinstance(request.object, dict):
        return ADMITTED
    kind = request.kind.kind if request.kind is not None else ""
    named = set(uses(request.object, kind, options.queue_label_key))
    if isinstance(request.oldObject, dict):
        before = {(each.kind, each.name) for each in uses(request.oldObject, kind, options.queue_label_key)}
        named = {each for each in named if (each.kind, each.name) not in before}
    if not named:
        return ADMITTED
    queues, classes, labels = known.queues(), known.classes(), known.labels(request.namespace)
    by_user = not _writes_for_others(request, kind, options, known)
    refusals = []
    for use in sorted(named):
        rules: list[Rule] = queue_rules(use.name, queues) if use.kind == "queue" else class_rules(use.name, classes)
        why = against_namespace(rules, request.namespace, labels)
        if why is None and by_user:
            why = against_subject(rules, request.userInfo)
        if why is not None:
            refusals.append(Refusal(use.field, why))
    return Verdict(tuple(refusals))


def uses(document: Mapping[str, Any], kind: str, queue_label_key: str) -> Iterator[Use]:
    """Queues and priority classes that an object names: in its labels, or in any pod template inside of it."""
    spec = document.get("spec") or {}
    if kind == _POD_GROUP:
        if spec.get("queue"):
            yield Use("queue", spec["queue"], "spec.queue")
        if spec.get(_CLASS_FIELD):
            yield Use("class", spec[_CLASS_FIELD], f"spec.{_CLASS_FIELD}")
        return
    yield from _in_labels((document.get("metadata") or {}).get("labels"), queue_label_key, "metadata.labels")
    # What a template looks like differs by kind: cliques have labels beside their spec, replicas of jobs are maps.
    waiting: list[tuple[Any, str]] = [(spec, "spec")]
    while waiting:
        part, path = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, f"{path}[{index}]") for index, each in enumerate(part) if isinstance(each, dict | list)]
            continue
        yield from _in_labels(part.get("labels"), queue_label_key, f"{path}.labels")
        named = part.get(_CLASS_FIELD)
        if isinstance(named, str) and named:
            yield Use("class", named, f"{path}.{_CLASS_FIELD}")
        waiting += [(each, f"{path}.{key}") for key, each in part.items() if isinstance(each, dict | list)]


def _in_labels(labels: Any, queue_label_key: str, path: str) -> Iterator[Use]:
    """As the pod grouper reads them: the queue's label, else the project's."""
    if not isinstance(labels, dict):
        return
    queue, project = labels.get(queue_label_key), labels.get(keys.PROJECT_LABEL)
    if isinstance(queue, str) and queue:
        yield Use("queue", queue, f"{path}[{queue_label_key}]")
    elif isinstance(project, str) and project:
        pool = labels.get(keys.NODE_POOL_LABEL)
        for name in (project, f"{project}-{pool}") if pool else (project,):
            yield Use("queue", name, f"{path}[{keys.PROJECT_LABEL}]")
    for key in _CLASS_LABELS:
        if isinstance(labels.get(key), str) and labels[key]:
            yield Use("class", labels[key], f"{path}[{key}]")


def _writes_for_others(request: AdmissionRequest, kind: str, options: Options, known: Known) -> bool:
    """Whether the author says nothing about who wants the object.

    An owner alone doesn't: whoever makes a pod may write any owner into it. Nor does a controller's account alone.
    """
    user = request.userInfo
    if _MASTERS in user.groups or is_among(user, (f"serviceaccount:{known.own_namespace}/*",)):
        return True
    owners = (request.object.get("metadata") or {}).get("ownerReferences") or ()
    is_controlled = kind == _POD_GROUP or any(each.get("controller") for each in owners if isinstance(each, dict))
    return is_controlled and is_among(user, options.trusted_subjects)
