"""All rules of PodCliqueSets, in the order of Grove's error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.field_error import FieldError, invalid_value, required
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.time import InvalidDuration, parse_duration
from bosket.grove.admission.change_rules import change_errors, claim_change_errors
from bosket.grove.admission.clique_rules import clique_errors, order_of_cliques_errors, warnings_of
from bosket.grove.admission.group_rules import group_errors
from bosket.grove.admission.lookup import Lookup
from bosket.grove.admission.mnnvl_rules import annotation_change_errors, annotation_errors
from bosket.grove.admission.scheduler_rules import backend_change_errors, backend_errors, scheduler_name_errors
from bosket.grove.admission.sharing_rules import set_sharing_errors, template_errors
from bosket.grove.admission.topology_change import constraint_change_errors, deprecation_warnings
from bosket.grove.admission.topology_rules import check_constraints
from bosket.grove.admission.wording import verdict_of
from bosket.runtime.webhook.verdict import Verdict

_TEMPLATE: Final = "spec.template"


def check_new(owner: PodCliqueSet, configuration: OperatorConfiguration, cluster: Lookup) -> Verdict:
    """What is said about a set that is created, after it was completed."""
    topology = check_constraints(owner, cluster, enabled=configuration.topologyAwareScheduling.enabled)
    errors = [
        *topology.errors,
        *_errors(owner, configuration, is_new=True),
        *annotation_errors(owner, enabled=configuration.network.autoMNNVLEnabled),
        *backend_errors(owner, configuration.scheduler, cluster),
    ]
    return verdict_of(errors, [*warnings_of(owner), *topology.warnings])


def check_change(
    old: PodCliqueSet, new: PodCliqueSet, configuration: OperatorConfiguration, cluster: Lookup
) -> Verdict:
    """Errors of an update. Invalid new values come before fields that must not change.

    What stays as it was isn't judged again: finalizers can be taken from a set that would be refused by now.
    """
    if _says_the_same(old, new):
        return verdict_of((), [*warnings_of(new), *deprecation_warnings(new)])
    errors = [
        *_errors(new, configuration, is_new=False),
        *annotation_change_errors(old, new),
        *backend_errors(new, configuration.scheduler, cluster),
    ]
    if errors:
        return verdict_of(errors, warnings_of(new))
    enabled = configuration.topologyAwareScheduling.enabled
    changes = [
        *change_errors(old, new),
        *backend_change_errors(old, new, configuration.scheduler),
        *constraint_change_errors(old, new, cluster, enabled=enabled),
        *claim_change_errors(old, new),
    ]
    return verdict_of(changes, [*warnings_of(new), *deprecation_warnings(new)])


def _says_the_same(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    before, after = old.metadata, new.metadata
    return (old.spec, before.labels, before.annotations) == (new.spec, after.labels, after.annotations)


def _errors(owner: PodCliqueSet, configuration: OperatorConfiguration, *, is_new: bool) -> Iterator[FieldError]:
    """What is asked of a set at any time."""
    template = owner.spec.template
    if owner.spec.replicas < 0:
        yield invalid_value("spec.replicas", owner.spec.replicas, "must be greater than or equal to 0")
    yield from template_errors(template, f"{_TEMPLATE}.resourceClaimTemplates")
    yield from set_sharing_errors(template, f"{_TEMPLATE}.resourceSharing")
    cliques = f"{_TEMPLATE}.cliques"
    yield from clique_errors(owner, cliques, is_new=is_new)
    yield from scheduler_name_errors(owner, configuration.scheduler, cliques)
    yield from order_of_cliques_errors(owner, cliques)
    yield from group_errors(owner, f"{_TEMPLATE}.podCliqueScalingGroups")
    yield from _delay_errors(template.terminationDelay, f"{_TEMPLATE}.terminationDelay")


def _delay_errors(delay: str | None, field: str) -> Iterator[FieldError]:
    if delay is None:
        yield required(field, "terminationDelay is required")
        return
    try:
        seconds = parse_duration(delay)
    except InvalidDuration as error:
        yield invalid_value(field, delay, str(error))
        return
    if seconds <= 0:
        yield invalid_value(field, delay, "terminationDelay must be greater than 0")
