"""Rules of ClusterTopologyBindings: domains and labels map one to one, and only supported schedulers are bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.field_error import FieldError, duplicate, invalid_value
from bosket.api.grove import ClusterTopologyBinding
from bosket.api.grove.operator_configuration import KAI_SCHEDULER, SchedulerConfiguration
from bosket.grove.admission.wording import verdict_of
from bosket.runtime.webhook.verdict import Verdict

#: Schedulers that have topology objects of their own.
TOPOLOGY_AWARE: Final = frozenset({KAI_SCHEDULER})


def check_binding(binding: ClusterTopologyBinding, schedulers: SchedulerConfiguration) -> Verdict:
    """What is said about a binding that is created or changed."""
    return verdict_of([*_level_errors(binding), *_reference_errors(binding, schedulers)])


def _level_errors(binding: ClusterTopologyBinding) -> Iterator[FieldError]:
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(binding.spec.levels):
        path = f"spec.levels[{index}]"
        if level.domain in domains:
            yield duplicate(f"{path}.domain", level.domain)
        if level.key in keys:
            yield duplicate(f"{path}.key", level.key)
        domains.add(level.domain)
        keys.add(level.key)


def _reference_errors(binding: ClusterTopologyBinding, schedulers: SchedulerConfiguration) -> Iterator[FieldError]:
    """The sentences name the field as Grove's do, which isn't what it is called: clients know them so."""
    seen: set[str] = set()
    for index, each in enumerate(binding.spec.schedulerTopologyBindings):
        field, name = f"spec.schedulerTopologyReferences[{index}].schedulerName", each.schedulerName
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)
        if name not in schedulers.names:
            yield invalid_value(field, name, "scheduler backend is not enabled in Grove")
        elif name not in TOPOLOGY_AWARE:
            yield invalid_value(field, name, "scheduler backend does not implement topology-aware scheduling")
