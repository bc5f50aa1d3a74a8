"""Rules about a PodCliqueSet's scheduler, and the scheduler's own requirements.

All cliques have one scheduler, which an administrator has enabled. Where a scheduler can't do what a set wants, it is
said here, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from bosket.api import keys
from bosket.api.field_error import FieldError, invalid_value, not_supported
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.operator_configuration import (
    KAI_SCHEDULER,
    LPX_SCHEDULER,
    VOLCANO_SCHEDULER,
    YUNIKORN_SCHEDULER,
    SchedulerConfiguration,
)
from bosket.api.name_rules import subdomain_error
from bosket.grove.admission.lookup import Lookup
from bosket.grove.admission.topology_places import constraints
from bosket.grove.backends.backend import Refused
from bosket.grove.backends.catalogue import load_backends
from bosket.grove.backends.kai import queue_of_set
from bosket.grove.backends.registry import Registry, UnknownBackend
from bosket.grove.backends.volcano import QUEUE_ANNOTATION as VOLCANO_QUEUE_ANNOTATION

_VOLCANO_DEFAULT_QUEUE: Final = "default"
_OPEN: Final = "Open"
_ANNOTATION: Final = f"metadata.annotations[{keys.GROVE_BACKEND_ANNOTATION}]"


@cache
def _registry(default_scheduler_name: str) -> Registry:
    return Registry(load_backends(), default_scheduler_name=default_scheduler_name)


def _schedulers_of(owner: PodCliqueSet, schedulers: SchedulerConfiguration) -> list[str]:
    """The scheduler of each clique's pods; raises `UnknownBackend`."""
    registry = _registry(schedulers.defaultProfileName)
    named = [clique.spec.podSpec.schedulerName for clique in owner.spec.template.cliques]
    if not owner.metadata.annotations.get(keys.GROVE_BACKEND_ANNOTATION):
        return [registry.scheduler_name(each) for each in named]
    backend = registry.choose("", owner.metadata.annotations)
    return [registry.scheduler_of_pods(backend, each) for each in named]


def scheduler_name_errors(owner: PodCliqueSet, schedulers: SchedulerConfiguration, path: str) -> Iterator[FieldError]:
    """Whether all cliques have one scheduler, and one that is enabled."""
    if not owner.spec.template.cliques:
        return
    backend = owner.metadata.annotations.get(keys.GROVE_BACKEND_ANNOTATION, "")
    try:
        names = _schedulers_of(owner, schedulers)
    except UnknownBackend:
        there = (each.name for each in _registry(schedulers.defaultProfileName).backends)
        yield not_supported(_ANNOTATION, backend, tuple(there))
        return
    field = f"{path}.spec.podSpec.schedulerName"
    different = list(dict.fromkeys(names))
    if len(different) > 1:
        yield invalid_value(field, ", ".join(different), "the schedulerName for all pods have to be the same")
    if names[0] in schedulers.names:
        return
    if backend:
        yield invalid_value(
            _ANNOTATION,
            backend,
            f"pods of this backend are for the scheduler {names[0]}, which is not enabled in OperatorConfiguration",
        )
    else:
        yield invalid_value(
            field,
            names[0],
            "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in "
            "OperatorConfiguration",
        )


def backend_change_errors(
    old: PodCliqueSet, new: PodCliqueSet, schedulers: SchedulerConfiguration
) -> Iterator[FieldError]:
    """An annotation may not give another scheduler to a set whose pods have one."""
    before, after = (each.metadata.annotations.get(keys.GROVE_BACKEND_ANNOTATION, "") for each in (old, new))
    if before == after:
        return
    try:
        former = _schedulers_of(old, schedulers)
    except UnknownBackend:
        return  # it has no pods
    if former[:1] != _schedulers_of(new, schedulers)[:1]:
        message = f"field is immutable: the set's pods are for the scheduler {former[0]}"
        yield invalid_value(_ANNOTATION, after, message)


def backend_errors(owner: PodCliqueSet, schedulers: SchedulerConfiguration, cluster: Lookup) -> Iterator[FieldError]:
    """What the set's scheduler can't do for it; of several things, the first."""
    try:
        names = _schedulers_of(owner, schedulers)
    except UnknownBackend:
        return  # reported already
    if not names:
        return
    name = names[0]
    if name not in schedulers.names:
        problem: str | None = f'schedulerName "{name}" is not enabled in OperatorConfiguration'
    elif name == KAI_SCHEDULER:
        problem = _kai_problem(owner)
    elif name == VOLCANO_SCHEDULER:
        problem = _volcano_problem(owner, cluster)
    elif name == LPX_SCHEDULER and next(constraints(owner), None):
        problem = (
            "lpx-scheduler does not support Grove topology constraints; placement topology must be expressed through "
            "the LPX workload contract"
        )
    elif name == YUNIKORN_SCHEDULER:
        problem = _yunikorn_problem(owner)
    else:
        problem = None
    if problem:
        # Grove prints the whole spec here, at any length; nobody reads that.
        yield FieldError("spec", "FieldValueInvalid", f"Invalid value: {{…}}: {problem}")


def _kai_problem(owner: PodCliqueSet) -> str | None:
    """All pods of a set go to one queue. Unlike in Grove it need not be named: then it is the default queue."""
    try:
        queue_of_set(owner)
    except Refused as error:
        return str(error)
    return None


def _volcano_problem(owner: PodCliqueSet, cluster: Lookup) -> str | None:
    place = next(constraints(owner), None)
    if place is not None and not cluster.has_hyper_nodes():
        # Unlike in Grove, topology is translated where Volcano has an idea of it.
        return f"volcano scheduler backend does not support topologyConstraint on {place.owner}"
    queues: list[str] = []
    problems = list(_volcano_queue_problems(owner, queues))
    if problems:
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    queue = queues[0]
    state = cluster.volcano_queue_state(queue)
    if state is None:
        return f'volcano queue "{queue}" does not exist'
    return None if state == _OPEN else f'volcano queue "{queue}" is not Open'


def _volcano_queue_problems(owner: PodCliqueSet, queues: list[str]) -> Iterator[str]:
    """What is wrong with the queues that are named; those of the cliques are added to `queues`."""
    own = owner.metadata.annotations.get(VOLCANO_QUEUE_ANNOTATION, "").strip()
    if own and (problem := subdomain_error(own)):
        yield f"metadata.annotations[{VOLCANO_QUEUE_ANNOTATION}]: {problem}"
        return
    for index, clique in enumerate(owner.spec.template.cliques):
        named = clique.annotations.get(VOLCANO_QUEUE_ANNOTATION, "").strip()
        at = f"spec.template.cliques[{index}].annotations[{VOLCANO_QUEUE_ANNOTATION}]"
        if named and (problem := subdomain_error(named)):
            yield f"{at}: {problem}"
        if own and named and own != named:
            yield f'{at}: conflicting volcano queue annotations: PodCliqueSet has "{own}", PodClique has "{named}"'
            continue
        queue = own or named or _VOLCANO_DEFAULT_QUEUE
        if queues and queue != queues[0]:
            yield f"{at}: all PodCliques in a PodCliqueSet using volcano scheduler must resolve to the same queue"
        queues.append(queue)


def _yunikorn_problem(owner: PodCliqueSet) -> str | None:
    place = next((each for each in constraints(owner) if each.constraint.required), None)
    if place is None:
        return None
    return f"yunikorn scheduler backend cannot keep a required topologyConstraint, as on {place.owner}; use preferred"
