"""Topology constraints of a new PodCliqueSet: domains of one binding, and no part wider than its whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bosket.api.field_error import FieldError, invalid_value, required
from bosket.api.grove import PodCliqueSet
from bosket.grove.admission.lookup import Lookup
from bosket.grove.admission.topology_places import TEMPLATE, Place, clique_places, constraints, group_places, set_place

_ONE_NAME = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"


class Judgement(NamedTuple):
    """What is wrong, or what is odd."""

    errors: list[FieldError]
    warnings: tuple[str, ...] = ()


class Resolution(NamedTuple):
    """The one topology that a set speaks of; empty if that can't be said."""

    name: str
    errors: list[FieldError]
    #: whether some constraint neither names a topology nor has one to inherit
    is_missing: bool = False


def check_constraints(owner: PodCliqueSet, cluster: Lookup, *, enabled: bool) -> Judgement:
    """What is to be said of a new set's constraints."""
    if not enabled:
        return Judgement(list(_not_allowed(owner)))
    if next(constraints(owner), None) is None:
        return Judgement([])
    name, errors, _ = resolve(owner)
    if errors:
        return Judgement(errors)
    binding = cluster.binding(name)
    if binding is None:
        field = f"{TEMPLATE}.topologyConstraint.topologyName"
        return Judgement([invalid_value(field, name, f'ClusterTopologyBinding "{name}" not found')])
    domains = [level.domain for level in binding.spec.levels]
    errors = list(_unknown_domains(owner, domains)) or list(_upside_down(owner, domains))
    return Judgement(errors, tuple(_redundant(owner, domains)))


def resolve(owner: PodCliqueSet) -> Resolution:
    """Which topology the constraints speak of: own words, else the group's, else the set's."""
    errors: list[FieldError] = []
    names: list[str] = []
    is_missing = False

    def effective(place: Place, inherited: str) -> str:
        nonlocal is_missing
        named = place.constraint.topologyName
        field = f"{place.path}.topologyName"
        if not named and not inherited:
            is_missing = True
            message = "topologyName is required when topologyConstraint is set and cannot be inherited"
            errors.append(required(field, message))
            return ""
        if named and inherited and named != inherited:
            errors.append(invalid_value(field, named, _ONE_NAME))
            return ""
        names.append(named or inherited)
        return named or inherited

    own = set_place(owner)
    set_name = effective(own, "") if own is not None else ""
    of_group = {place.name: effective(place, set_name) for place in group_places(owner)}
    of_clique: dict[str, str] = {}
    for group in owner.spec.template.podCliqueScalingGroups:
        if of_group.get(group.name):
            for clique in group.cliqueNames:
                of_clique.setdefault(clique, of_group[group.name])
    for place in clique_places(owner):
        effective(place, of_clique.get(place.name, set_name))
    if len(set(names)) > 1:
        errors += [
            invalid_value(f"{place.path}.topologyName", place.constraint.topologyName, _ONE_NAME)
            for place in _by_level(owner)
            if place.constraint.topologyName
        ]
    return Resolution("" if errors or not names else names[0], errors, is_missing)


def _by_level(owner: PodCliqueSet) -> Iterator[Place]:
    """The set's, the groups', the cliques'."""
    own = set_place(owner)
    if own is not None:
        yield own
    yield from group_places(owner)
    yield from clique_places(owner)


def _not_allowed(owner: PodCliqueSet) -> Iterator[FieldError]:
    for place in constraints(owner):
        domains = dict.fromkeys(each for each in (place.constraint.required, place.constraint.preferred) if each)
        yield invalid_value(
            place.path,
            list(domains),
            "topology constraints are not allowed when Topology Aware Scheduling is disabled",
        )


def _unknown_domains(owner: PodCliqueSet, domains: Sequence[str]) -> Iterator[FieldError]:
    for place in constraints(owner):
        given = place.constraint
        fields = [("packDomain", given.packDomain)]
        if given.pack is not None:
            fields += [("pack.required", given.pack.required), ("pack.preferred", given.pack.preferred)]
        for field, domain in fields:
            if domain and domain not in domains:
                message = f"topology domain '{domain}' does not exist in cluster topology [{' '.join(domains)}]"
                yield invalid_value(f"{place.path}.{field}", domain, message)


def _upside_down(owner: PodCliqueSet, domains: Sequence[str]) -> Iterator[FieldError]:
    """Wholes that are kept closer together than one of their parts."""
    own = set_place(owner)
    cliques = list(clique_places(owner))
    groups = list(group_places(owner))
    if own is not None:
        for part in (*cliques, *groups):
            yield from _narrower(own, part, domains)
    members = {group.name: group.cliqueNames for group in owner.spec.template.podCliqueScalingGroups}
    by_name = {place.name: place for place in cliques}
    for group in groups:
        for name in members[group.name]:
            if name in by_name:
                yield from _narrower(group, by_name[name], domains)


def _narrower(whole: Place, part: Place, domains: Sequence[str]) -> Iterator[FieldError]:
    pairs = (
        (whole.path, whole.constraint.required, part.constraint.required),
        (f"{whole.path}.pack.preferred", whole.constraint.preferred, part.constraint.preferred),
    )
    named = f"{whole.kind} '{whole.name}'" if whole.name else whole.kind
    for field, wide, narrow in pairs:
        if wide and narrow and _is_coarser(narrow, wide, domains):
            yield invalid_value(
                field,
                wide,
                f"{named} topology constraint domain '{wide}' is narrower than {part.kind} '{part.name}' topology "
                f"constraint domain '{narrow}'",
            )


def _redundant(owner: PodCliqueSet, domains: Sequence[str]) -> Iterator[str]:
    for place in constraints(owner):
        wanted, preferred = place.constraint.required, place.constraint.preferred
        if wanted and preferred and _is_coarser(preferred, wanted, domains):
            pack = f"{place.path}.pack"
            yield f"{pack}.preferred is coarser than {pack}.required and is redundant"


def _is_coarser(domain: str, other: str, domains: Sequence[str]) -> bool:
    """Whether both are known, and one is the wider."""
    return domain in domains and other in domains and domains.index(domain) < domains.index(other)
