"""Which scheduler a PodCliqueSet is for, and what that scheduler asks of it.

All cliques have one scheduler, which an administrator has enabled. Where a scheduler can't do what a set wants, it is
said here, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.field_error import FieldError, invalid_value
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.operator_configuration import (
    KAI_SCHEDULER,
    LPX_SCHEDULER,
    VOLCANO_SCHEDULER,
    YUNIKORN_SCHEDULER,
    SchedulerConfiguration,
)
from bosket.api.name_rules import subdomain_error
from bosket.grove_admission.lookup import Lookup
from bosket.grove_admission.topology_places import constraints
from bosket.grove_backends.backend import Refused
from bosket.grove_backends.kai import queue_of_set
from bosket.grove_backends.volcano import QUEUE_ANNOTATION as VOLCANO_QUEUE_ANNOTATION

_VOLCANO_DEFAULT_QUEUE: Final = "default"
_OPEN: Final = "Open"


def scheduler_of(owner: PodCliqueSet, schedulers: SchedulerConfiguration) -> str:
    """The set's scheduler: that of its first clique."""
    cliques = owner.spec.template.cliques
    return (cliques[0].spec.podSpec.schedulerName if cliques else "") or schedulers.defaultProfileName


def scheduler_name_errors(owner: PodCliqueSet, schedulers: SchedulerConfiguration, path: str) -> Iterator[FieldError]:
    """Whether all cliques have one scheduler, and one that is enabled."""
    cliques = owner.spec.template.cliques
    if not cliques:
        return
    field = f"{path}.spec.podSpec.schedulerName"
    names = [clique.spec.podSpec.schedulerName or schedulers.defaultProfileName for clique in cliques]
    different = list(dict.fromkeys(names))
    if len(different) > 1:
        yield invalid_value(field, ", ".join(different), "the schedulerName for all pods have to be the same")
    if names[0] not in schedulers.names:
        yield invalid_value(
            field,
            names[0],
            "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in "
            "OperatorConfiguration",
        )


def backend_errors(owner: PodCliqueSet, schedulers: SchedulerConfiguration, cluster: Lookup) -> Iterator[FieldError]:
    """What the set's scheduler can't do for it; of several things, the first."""
    if not owner.spec.template.cliques:
        return
    name = scheduler_of(owner, schedulers)
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
