"""Topology constraints in an update of a PodCliqueSet: immutable, except for two migrations of old fields.

What was said in the deprecated packDomain may be said in pack.required instead; and a set from before topologies had
names may be given its topology's.
"""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.field_error import FieldError, forbidden_field
from bosket.api.grove import PodCliqueSet, TopologyConstraint
from bosket.grove.admission.lookup import Lookup
from bosket.grove.admission.topology_places import TEMPLATE, constraints
from bosket.grove.admission.topology_rules import check_constraints, resolve

Constraint = TopologyConstraint | None


def constraint_change_errors(
    old: PodCliqueSet, new: PodCliqueSet, cluster: Lookup, *, enabled: bool
) -> list[FieldError]:
    """What may not change so."""
    is_repair = _is_unnamed(old)
    errors = list(_changes(old, new, is_repair=is_repair))
    if errors or not is_repair:
        return errors
    return check_constraints(new, cluster, enabled=enabled).errors


def deprecation_warnings(owner: PodCliqueSet) -> Iterator[str]:
    """Where the deprecated word is still used."""
    for place in constraints(owner):
        if place.constraint.packDomain:
            yield f"{place.path}.packDomain is deprecated; use {place.path}.pack.required instead"


def _is_unnamed(owner: PodCliqueSet) -> bool:
    """Whether the set is from before topologies had names."""
    legacy = any(each.constraint.packDomain and not each.constraint.topologyName for each in constraints(owner))
    return legacy and resolve(owner).is_missing


def _changes(old: PodCliqueSet, new: PodCliqueSet, *, is_repair: bool) -> Iterator[FieldError]:
    before, after = old.spec.template, new.spec.template
    yield from _set_changes(before.topologyConstraint, after.topologyConstraint, is_repair=is_repair)
    cliques = {each.name: each.topologyConstraint for each in before.cliques}
    for index, clique in enumerate(after.cliques):
        was, now = cliques.get(clique.name), clique.topologyConstraint
        if not _may_become(was, now, is_repair=is_repair):
            field = f"{TEMPLATE}.cliques[{index}].topologyConstraint"
            yield forbidden_field(field, _sentence(f"PodClique '{clique.name}'", was, now))
    groups = {each.name: each.topologyConstraint for each in before.podCliqueScalingGroups}
    for index, group in enumerate(after.podCliqueScalingGroups):
        was, now = groups.get(group.name), group.topologyConstraint
        if not _may_become(was, now, is_repair=is_repair):
            field = f"{TEMPLATE}.podCliqueScalingGroups[{index}].topologyConstraint"
            yield forbidden_field(field, _sentence(f"PodCliqueScalingGroup '{group.name}'", was, now))


def _set_changes(was: Constraint, now: Constraint, *, is_repair: bool) -> Iterator[FieldError]:
    """A changed name of the set's own constraint is an error of its own."""
    field = f"{TEMPLATE}.topologyConstraint"
    old_name, new_name = was.topologyName if was else "", now.topologyName if now else ""
    if old_name == new_name:
        if not _may_become(was, now, is_repair=is_repair):
            yield forbidden_field(field, _sentence("PodCliqueSet", was, now))
    elif not (is_repair and _is_naming(was, now)):
        message = f'topologyName cannot be changed from "{old_name}" to "{new_name}"'
        yield forbidden_field(f"{field}.topologyName", message)


def _may_become(was: Constraint, now: Constraint, *, is_repair: bool) -> bool:
    if was is None or now is None:
        return was is now
    is_same = (was.topologyName, was.packDomain, was.required, was.preferred) == (
        now.topologyName,
        now.packDomain,
        now.required,
        now.preferred,
    )
    return is_same or _is_renewal(was, now) or (is_repair and _is_naming(was, now))


def _is_naming(was: Constraint, now: Constraint) -> bool:
    """Whether a constraint from before topologies had names is given one, and nothing else."""
    if was is None or now is None or was.topologyName or not was.packDomain:
        return False
    return bool(now.topologyName) and now.packDomain == was.packDomain


def _is_renewal(was: TopologyConstraint, now: TopologyConstraint) -> bool:
    """Whether the same is said without the deprecated word."""
    same = was.topologyName == now.topologyName and was.preferred == now.preferred
    return _is_renewal_attempt(was, now) and same and now.required == was.packDomain


def _is_renewal_attempt(was: TopologyConstraint, now: TopologyConstraint) -> bool:
    return bool(was.packDomain and not now.packDomain and now.pack is not None and now.pack.required)


def _sentence(whose: str, was: Constraint, now: Constraint) -> str:
    """What is wrong with a change."""
    if was is None or now is None:
        return f"{whose} topology constraint cannot be {'added' if was is None else 'removed'} after creation"
    if was.topologyName != now.topologyName:
        return (
            f"{whose} topology constraint topologyName cannot be changed from '{was.topologyName}' to "
            f"'{now.topologyName}'"
        )
    to = f'required="{now.required or ""}" preferred="{now.preferred or ""}"'
    if _is_renewal_attempt(was, now):
        return (
            f"{whose} deprecated packDomain migration can only move packDomain to pack.required without changing the "
            f'required or preferred topology domain (old required="{was.packDomain}" preferred='
            f'"{was.preferred or ""}", new {to})'
        )
    return (
        f'{whose} topology constraint cannot be changed from required="{was.required or ""}" '
        f'preferred="{was.preferred or ""}" to {to}'
    )
