"""The table of what admission handles: kinds, subresources and operations, by webhook path.

`registration` makes webhook configurations from it, and the embedded cluster looks up its handlers in it, so that both
always handle the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bosket.api.admission import RuleWithOperations
from bosket.install.right import owners_of_pods
from bosket.services.admission.options import Options
from bosket.services.admission.review_handlers import (
    MUTATE_PODS,
    VALIDATE_ACCESS,
    VALIDATE_POD_GROUPS,
    VALIDATE_PODS,
    VALIDATE_QUEUES,
    VALIDATE_TOPOLOGIES,
)

_CREATE: Final = "CREATE"
_WRITES: Final = (_CREATE, "UPDATE")

Rules = tuple[RuleWithOperations, ...]


class Question(NamedTuple):
    """An operation on a resource; that of a subresource is written as in rules: `pods/status`."""

    operation: str
    group: str
    resource: str


def rules(options: Options) -> dict[str, Rules]:
    """Rules by path, in the order in which paths are asked: what completes an object before what checks it."""
    found: dict[str, Rules] = {
        MUTATE_PODS: (_rule("", "v1", "pods", operations=(_CREATE,)),),
        VALIDATE_PODS: (_rule("", "v1", "pods"),),
        VALIDATE_TOPOLOGIES: (_rule("kai.scheduler", "v1alpha1", "topologies", scope="Cluster"),),
        VALIDATE_QUEUES: (
            _rule("scheduling.run.ai", "v2", "queues", scope="Cluster", operations=(*_WRITES, "DELETE")),
        ),
        VALIDATE_POD_GROUPS: (_rule("scheduling.run.ai", "v2alpha2", "podgroups"),),
    }
    if options.access_control:
        found[VALIDATE_ACCESS] = _owners()
    return found


def paths_by_question(table: Mapping[str, Iterable[RuleWithOperations]]) -> dict[Question, tuple[str, ...]]:
    """Who is asked about what, in the order of the table. Rules name their groups and resources: none is a wildcard."""
    found: dict[Question, tuple[str, ...]] = {}
    for path, listed in table.items():
        for rule in listed:
            for operation in rule.operations:
                for group in rule.apiGroups:
                    for resource in rule.resources:
                        question = Question(operation, group, resource)
                        found[question] = (*found.get(question, ()), path)
    return found


def resource_of(plural: str, subresource: str) -> str:
    """A resource as rules name it."""
    return f"{plural}/{subresource}" if subresource else plural


def _owners() -> Rules:
    """Kinds whose pods are grouped."""
    kinds: dict[str, list[str]] = {}
    for group, plural in owners_of_pods():
        kinds.setdefault(group, []).append(plural)
    return tuple(_rule(group, "*", *plurals) for group, plurals in sorted(kinds.items()))


def _rule(
    group: str, version: str, *resources: str, scope: str = "Namespaced", operations: tuple[str, ...] = _WRITES
) -> RuleWithOperations:
    return RuleWithOperations(
        operations=operations, apiGroups=(group,), apiVersions=(version,), resources=resources, scope=scope
    )
