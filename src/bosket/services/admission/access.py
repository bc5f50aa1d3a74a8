"""Access control: whether the author of an object may use the queue and the priority class that it names.

Applies to pods, pod groups and workloads, where access control is on. Rules about namespaces apply to every object.
Rules about users apply to objects that users create themselves: a pod that a controller creates for its owner was
checked when the owner was written, and the controller's account says nothing about the user. A pod that names a pod
group uses the group's queue, so its author must be admitted there. Existing references stay allowed: rules are about
new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bosket.api import keys
from bosket.api.admission import AdmissionRequest
from bosket.api.kai import PodGroup, Queue
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.access import against_namespace, against_subject, class_rules, is_among, queue_rules
from bosket.runtime.webhook.verdict import ADMITTED, Refusal, Verdict
from bosket.services.admission.options import Options

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
    #: A pod group; None of one that isn't known.
    group: Callable[[ObjectKey], PodGroup | None]
    #: Where the services run, whose accounts write for others.
    own_namespace: str = keys.SYSTEM_NAMESPACE


class Use(NamedTuple):
    """One queue, priority class or pod group that an object names, and where."""

    #: `queue`, `class` or `group`
    kind: str
    name: str
    field: str


def check_access(request: AdmissionRequest, options: Options, known: Known) -> Verdict:
    """Refuses what names a queue or a priority class that isn't for its namespace, or for its author."""
    if not options.access_control or not isinstance(request.object, dict):
        return ADMITTED
    kind = request.kind.kind if request.kind is not None else ""
    named = set(uses(request.object, kind, options.queue_label_key, known.queues))
    if isinstance(request.oldObject, dict):
        former = uses(request.oldObject, kind, options.queue_label_key, known.queues)
        before = {(each.kind, each.name) for each in former}
        named = {each for each in named if (each.kind, each.name) not in before}
    if not named:
        return ADMITTED
    queues, classes, labels = known.queues(), known.classes(), known.labels(request.namespace)
    by_user = not _writes_for_others(request, kind, options, known)
    refusals = []
    for use in sorted(named):
        if use.kind == "group":
            why = _against_member(use.name, request, known, queues, classes) if by_user else None
        else:
            rules = queue_rules(use.name, queues) if use.kind == "queue" else class_rules(use.name, classes)
            why = against_namespace(rules, request.namespace, labels)
            if why is None and by_user:
                why = against_subject(rules, request.userInfo)
        if why is not None:
            refusals.append(Refusal(use.field, why))
    return Verdict(tuple(refusals))


def _against_member(
    name: str,
    request: AdmissionRequest,
    known: Known,
    queues: Mapping[str, Queue],
    classes: Mapping[str, PriorityClass],
) -> str | None:
    """Why the author may not add pods to a pod group. By namespace the group itself was judged: it is the same."""
    group = known.group(ObjectKey(request.namespace, name))
    if group is None:
        return None
    rules = [*queue_rules(group.spec.queue, queues), *class_rules(group.spec.priorityClassName, classes)]
    why = against_subject(rules, request.userInfo)
    return f"pod group {name}: {why}" if why is not None else None


def uses(
    document: Mapping[str, Any], kind: str, queue_label_key: str, queues: Callable[[], Iterable[str]]
) -> Iterator[Use]:
    """Queues, priority classes and pod groups that an object names: in its metadata, or in any pod template in it.

    `queues`: the names of those that there are.
    """
    spec = document.get("spec") or {}
    if kind == _POD_GROUP:
        if spec.get("queue"):
            yield Use("queue", spec["queue"], "spec.queue")
        if spec.get(_CLASS_FIELD):
            yield Use("class", spec[_CLASS_FIELD], f"spec.{_CLASS_FIELD}")
        return
    projects: dict[str, str] = {}  # with the field that names each
    pools: set[str] = set()
    for part, path in ((document.get("metadata") or {}, "metadata"), *_maps(spec, "spec")):
        labels, annotations, named = part.get("labels"), part.get("annotations"), part.get(_CLASS_FIELD)
        if isinstance(labels, dict):
            yield from _in_labels(labels, queue_label_key, f"{path}.labels")
            if not _text(labels, queue_label_key) and (project := _text(labels, keys.PROJECT_LABEL)):
                projects.setdefault(project, f"{path}.labels[{keys.PROJECT_LABEL}]")
            pools.add(_text(labels, keys.NODE_POOL_LABEL))
        if isinstance(annotations, dict) and (group := _text(annotations, keys.POD_GROUP_ANNOTATION)):
            yield Use("group", group, f"{path}.annotations[{keys.POD_GROUP_ANNOTATION}]")
        if isinstance(named, str) and named:
            yield Use("class", named, f"{path}.{_CLASS_FIELD}")
    yield from _of_projects(projects, pools - {""}, queues)


def _maps(part: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """A document's part and all maps in it, each with its path.

    What a template looks like differs by kind: cliques have labels beside their spec, replicas of jobs are maps.
    """
    waiting: list[tuple[Any, str]] = [(part, path)]
    while waiting:
        part, path = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, f"{path}[{index}]") for index, each in enumerate(part) if isinstance(each, dict | list)]
            continue
        yield part, path
        waiting += [(each, f"{path}.{key}") for key, each in part.items() if isinstance(each, dict | list)]


def _in_labels(labels: Mapping[str, Any], queue_label_key: str, path: str) -> Iterator[Use]:
    if queue := _text(labels, queue_label_key):
        yield Use("queue", queue, f"{path}[{queue_label_key}]")
    for key in _CLASS_LABELS:
        if name := _text(labels, key):
            yield Use("class", name, f"{path}[{key}]")


def _of_projects(
    projects: Mapping[str, str], pools: Collection[str], queues: Callable[[], Iterable[str]]
) -> Iterator[Use]:
    """The queues of projects, as the pod grouper reads labels: `PROJECT`, and `PROJECT-POOL` for pods of a node pool.

    The project may be in the labels of a workload, and the pool in those of its pod template. Queues that exist are
    compared with both, because an object may name so many that all pairs of them would take minutes.
    """
    for project, field in projects.items():
        yield Use("queue", project, field)
    if not projects or not pools:
        return
    for name in queues():
        parts = name.split("-")
        for split in range(1, len(parts)):
            project, pool = "-".join(parts[:split]), "-".join(parts[split:])
            if project in projects and pool in pools:
                yield Use("queue", name, projects[project])


def _text(values: Mapping[str, Any], key: str) -> str:
    """A label's or annotation's value; empty where there is none, or no text."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _writes_for_others(request: AdmissionRequest, kind: str, options: Options, known: Known) -> bool:
    """Whether the author says nothing about who wants the object.

    An owner alone doesn't: a pod's author may write any owner into it. Nor does a controller's account alone.
    """
    user = request.userInfo
    if _MASTERS in user.groups or is_among(user, (f"serviceaccount:{known.own_namespace}/*",)):
        return True
    owners = (request.object.get("metadata") or {}).get("ownerReferences") or ()
    is_controlled = kind == _POD_GROUP or any(each.get("controller") for each in owners if isinstance(each, dict))
    return is_controlled and is_among(user, options.trusted_subjects)
