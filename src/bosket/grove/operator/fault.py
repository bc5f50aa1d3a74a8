"""Faults of a PodCliqueSet that the operator can't act on; it only reports them. Pure.

Admission refuses all of this and more, but may be off. Here is only what would make PodCliques that nobody asked for,
pods that wait for each other for ever, or nothing at all without an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bosket.api.grove import PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec
from bosket.api.time import InvalidDuration, parse_duration

_TEMPLATE = "spec.template"


def find_faults(owner: PodCliqueSet) -> list[str]:
    """Sentences with field and problem; empty for a set that can be acted on."""
    return list(_faults(owner))


def _faults(owner: PodCliqueSet) -> Iterator[str]:
    template = owner.spec.template
    if not template.cliques:
        yield f"{_TEMPLATE}.cliques: there are none"
    yield from _negative("spec", replicas=owner.spec.replicas)
    yield from _twice(
        f"{_TEMPLATE}.cliques", "is the name of several cliques", (each.name for each in template.cliques)
    )
    for index, clique in enumerate(template.cliques):
        yield from _faults_of_clique(clique, f"{_TEMPLATE}.cliques[{index}]")
    yield from _faults_of_groups(template, f"{_TEMPLATE}.podCliqueScalingGroups")
    if template.cliqueStartupType == "CliqueStartupTypeExplicit":
        yield from _faults_of_order({each.name: each.spec.startsAfter for each in template.cliques})
    if template.terminationDelay:
        try:
            parse_duration(template.terminationDelay)
        except InvalidDuration as error:
            yield f"{_TEMPLATE}.terminationDelay: {error}"


def _faults_of_clique(clique: PodCliqueTemplateSpec, path: str) -> Iterator[str]:
    if not clique.name:
        yield f"{path}.name: it has none"
    yield from _negative(f"{path}.spec", replicas=clique.spec.replicas, minAvailable=clique.spec.minAvailable)


def _faults_of_groups(template: PodCliqueSetTemplateSpec, path: str) -> Iterator[str]:
    groups: Sequence[PodCliqueScalingGroupConfig] = template.podCliqueScalingGroups
    known = {each.name for each in template.cliques}
    for index, group in enumerate(groups):
        if not group.name:
            yield f"{path}[{index}].name: it has none"
        unknown = [each for each in group.cliqueNames if each not in known]
        if unknown:
            yield f"{path}[{index}].cliqueNames: no clique is called {', '.join(map(repr, unknown))}"
        yield from _negative(f"{path}[{index}]", replicas=group.replicas, minAvailable=group.minAvailable)
    yield from _twice(path, "is the name of several groups", (each.name for each in groups))
    members = (name for group in groups for name in group.cliqueNames)
    yield from _twice(f"{path}.cliqueNames", "may be in one group only, and there once", members)


def _faults_of_order(after: Mapping[str, Sequence[str]]) -> Iterator[str]:
    unknown = sorted({name for names in after.values() for name in names if name not in after})
    if unknown:
        yield f"{_TEMPLATE}.cliques.startsAfter: no clique is called {', '.join(map(repr, unknown))}"
    waiting = {name: set(names) & after.keys() for name, names in after.items()}
    # A clique without waiting predecessors can start; cliques that remain when none can start wait for ever.
    while startable := [name for name, names in waiting.items() if not names]:
        for name in startable:
            del waiting[name]
        for names in waiting.values():
            names.difference_update(startable)
    if waiting:
        yield f"{_TEMPLATE}.cliques.startsAfter: {', '.join(waiting)} would wait for each other for ever"


def _negative(path: str, **numbers: int | None) -> Iterator[str]:
    for field, number in numbers.items():
        if number is not None and number < 0:
            yield f"{path}.{field}: {number} is less than 0"


def _twice(path: str, what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{path}: {name!r} {what}"
