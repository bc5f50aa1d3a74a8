"""Access rules: annotations of a queue or priority class that say which namespaces and users may use it.

`bosket.dev/allowed-namespaces: team-a, team-b` lists namespaces (`*`: all), `bosket.dev/namespace-selector: team=a`
selects them by label; one of the two suffices. `bosket.dev/allowed-subjects: user:jane, group:ml,
serviceaccount:ci/runner` lists who may create objects that use it. A rule that is absent allows everybody; a rule that
can't be read allows nobody.

KAI has none of this, and its CRDs have no fields for it. Admission checks namespaces and users; the scheduler checks
namespaces only, because an object doesn't say who created it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bosket.api.authentication import UserInfo
from bosket.api.kai import Queue
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.selector import InvalidSelector, Selector, parse_labels

ALLOWED_NAMESPACES_ANNOTATION: Final = "bosket.dev/allowed-namespaces"
NAMESPACE_SELECTOR_ANNOTATION: Final = "bosket.dev/namespace-selector"
ALLOWED_SUBJECTS_ANNOTATION: Final = "bosket.dev/allowed-subjects"
_ANNOTATIONS: Final = (ALLOWED_NAMESPACES_ANNOTATION, NAMESPACE_SELECTOR_ANNOTATION, ALLOWED_SUBJECTS_ANNOTATION)

_ALL: Final = "*"
_SEPARATORS: Final = re.compile(r"[\s,]+")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBJECT: Final = re.compile(r"(user|group):(?P<name>\S+)|serviceaccount:[a-z0-9-]+/([a-z0-9.-]+|\*)")
_SUBJECT_FORMS: Final = "user:NAME, group:NAME, serviceaccount:NAMESPACE/NAME or serviceaccount:NAMESPACE/*"


@dataclass(frozen=True, slots=True)
class Rule:
    """The access rule of one object; a field is None where the annotation is absent."""

    #: `queue team-a`, `priority class inference`
    of: str
    namespaces: tuple[str, ...] | None = None
    selector: Selector | None = None
    subjects: tuple[str, ...] | None = None
    #: Why the rule can't be read.
    problem: str = ""

    def against_namespace(self, name: str, labels: Mapping[str, str]) -> str | None:
        """Why nobody in the namespace may use the object; None where they may."""
        if self.problem:
            return self.problem
        if self.namespaces is None and self.selector is None:
            return None
        if self.namespaces is not None and (_ALL in self.namespaces or name in self.namespaces):
            return None
        if self.selector is not None and self.selector.matches(labels):
            return None
        listed = ", ".join(self.namespaces or ()) or "none by name"
        selected = f" and those with labels {self.selector}" if self.selector is not None else ""
        return f"namespace {name} may not use {self.of}: it is for namespaces {listed}{selected}"

    def against_subject(self, user: UserInfo) -> str | None:
        """Why the user may not use the object; None if they may."""
        if self.problem:
            return self.problem
        if self.subjects is None or is_among(user, self.subjects):
            return None
        return f"{user.username or 'nobody'} may not use {self.of}: it is for {', '.join(self.subjects) or 'nobody'}"


def annotations_of_rule(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations that define the rule: while these are equal, the rule is."""
    return {key: annotations[key] for key in _ANNOTATIONS if key in annotations}


def read_rule(of: str, annotations: Mapping[str, str]) -> Rule:
    """The rule in an object's annotations."""
    try:
        return Rule(
            of,
            _listed(annotations, ALLOWED_NAMESPACES_ANNOTATION, _is_namespace, f'names of namespaces, or "{_ALL}"'),
            _selected(annotations),
            _listed(annotations, ALLOWED_SUBJECTS_ANNOTATION, _is_subject, _SUBJECT_FORMS),
        )
    except ValueError as error:
        return Rule(of, problem=f"nobody may use {of} while its rule can't be read: {error}")


def queue_rules(name: str, queues: Mapping[str, Queue]) -> list[Rule]:
    """The rules of a queue and its ancestors, all of which apply; empty for an unknown queue."""
    rules: list[Rule] = []
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        queue = queues.get(name)
        if queue is None:
            break
        if annotations_of_rule(queue.metadata.annotations):
            rules.append(read_rule(f"queue {name}", queue.metadata.annotations))
        name = queue.spec.parentQueue or ""
    return rules


def class_rules(name: str, classes: Mapping[str, PriorityClass]) -> list[Rule]:
    """The rule of a priority class; none of one that isn't there."""
    found = classes.get(name)
    if found is None or not annotations_of_rule(found.metadata.annotations):
        return []
    return [read_rule(f"priority class {name}", found.metadata.annotations)]


def against_namespace(rules: Iterable[Rule], name: str, labels: Mapping[str, str]) -> str | None:
    """The first objection to a namespace."""
    return next((why for rule in rules if (why := rule.against_namespace(name, labels)) is not None), None)


def against_subject(rules: Iterable[Rule], user: UserInfo) -> str | None:
    """The first objection to a user."""
    return next((why for rule in rules if (why := rule.against_subject(user)) is not None), None)


def is_among(user: UserInfo, subjects: Iterable[str]) -> bool:
    """Whether one of the subjects is the user, or a group of theirs."""
    for subject in subjects:
        kind, _, name = subject.partition(":")
        if kind == "serviceaccount":
            namespace, _, account = name.partition("/")
            prefix = f"system:serviceaccount:{namespace}:"
            if user.username.startswith(prefix) and account in (_ALL, user.username.removeprefix(prefix)):
                return True
        elif (kind == "user" and user.username == name) or (kind == "group" and name in user.groups):
            return True
    return False


def subject_problem(subject: str) -> str | None:
    """What is wrong with the text of a subject."""
    return None if _is_subject(subject) else f'"{subject}" is no subject: expected {_SUBJECT_FORMS}'


def _listed(
    annotations: Mapping[str, str], key: str, is_right: Callable[[str], bool], expected: str
) -> tuple[str, ...] | None:
    text = annotations.get(key)
    if text is None:
        return None
    entries = tuple(filter(None, _SEPARATORS.split(text)))
    for each in entries:
        if not is_right(each):
            raise ValueError(f'annotation {key} has "{each}"; expected {expected}')
    return entries


def _selected(annotations: Mapping[str, str]) -> Selector | None:
    text = annotations.get(NAMESPACE_SELECTOR_ANNOTATION)
    if text is None:
        return None
    if not text.strip():  # an empty selector would select every namespace, which no author of a rule intends
        raise ValueError(f"annotation {NAMESPACE_SELECTOR_ANNOTATION} is empty; expected labels such as team=a")
    try:
        return parse_labels(text)
    except InvalidSelector as error:
        raise ValueError(f"annotation {NAMESPACE_SELECTOR_ANNOTATION}: {error}") from error


def _is_namespace(text: str) -> bool:
    return text == _ALL or _NAMESPACE.fullmatch(text) is not None


def _is_subject(text: str) -> bool:
    return _SUBJECT.fullmatch(text) is not None
