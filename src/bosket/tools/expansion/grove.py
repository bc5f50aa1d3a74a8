"""Grove: the pods, gangs and pod groups of a PodCliqueSet, as Grove's own rendering functions and KAI's backend make
them.

Unlike other kinds a set is expanded down to its pods at once, and its pod groups come with it: the gangs decide them,
and the pod grouper leaves these pods alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec

from bosket.api.core import Pod
from bosket.api.grove import ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.grove.naming import GANG_GATE, GANG_LABEL
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject
from bosket.api.table import resource_of
from bosket.grove.admission.defaults import completed
from bosket.grove.backends.backend import Refused, Surroundings, identity
from bosket.grove.backends.kai import KaiBackend
from bosket.grove.render.clique import member_clique, scaling_group, standalone_clique
from bosket.grove.render.gang import plan_gangs, pod_gang
from bosket.grove.render.pod import InitProgram, render_pod
from bosket.grove.render.template import groups_of, standalone_templates, template_named
from bosket.grove.render.topology_levels import Levels, constraints
from bosket.tools.expansion.item import MOST_PODS, Document, ExpansionError, Item

_INIT: Final = InitProgram("grove-initc")


@dataclass(frozen=True, slots=True)
class GroveParts:
    """What a set consists of."""

    pods: tuple[Pod, ...]
    pod_groups: tuple[PodGroup, ...]


def pod_clique_set(item: Item, bindings: tuple[ClusterTopologyBinding, ...], uid_of: Any) -> GroveParts:
    """All pods of all replicas, and a pod group for each gang. `uid_of` gives new objects their uids."""
    owner = _read(item)
    cliques = list(_cliques(owner, uid_of))
    if (count := sum(clique.spec.replicas for clique in cliques)) > MOST_PODS:
        raise ExpansionError(f"{item.owner}: it comes to {count} pods; at most {MOST_PODS} are planned")
    levels = _levels(owner, bindings)
    groups = {group.metadata.name: group for group, _ in _groups(owner, uid_of)}
    pods: dict[str, list[Pod]] = {}
    for clique in cliques:
        pods[clique.metadata.name] = [
            _named(render_pod(owner, clique, index, init_program=_INIT, prepare=lambda pod: pod), index)
            for index in range(clique.spec.replicas)
        ]
    backend, served = KaiBackend(), frozenset({identity(PodGroup)})
    made_pods: list[Pod] = []
    made_groups: list[PodGroup] = []
    for plan in plan_gangs(owner, groups, levels):
        members = {part.clique: pods.get(part.clique, []) for part in plan.parts}
        gang = _with_uid(pod_gang(owner, plan, members, None, scheduler_name="", backend=backend.name), uid_of)
        surroundings = Surroundings(served=served, owner=owner, pods=tuple(chain.from_iterable(members.values())))
        try:
            made_groups += [each for each in backend.sync(gang, surroundings).objects if isinstance(each, PodGroup)]
            made_pods += [
                _ungated(backend.pod_additions(gang, pod, surroundings))
                for part in members.values()
                for pod in part
                if pod.metadata.labels.get(GANG_LABEL) == gang.metadata.name
            ]
        except Refused as error:
            raise ExpansionError(str(error)) from error
    return GroveParts(tuple(made_pods), tuple(made_groups))


def _read(item: Item) -> PodCliqueSet:
    document = completed(item.document)
    try:
        owner = msgspec.convert(document, PodCliqueSet)
    except msgspec.ValidationError as error:
        raise ExpansionError(f"{item.owner}: {error}") from error
    if not owner.spec.template.cliques:
        raise item.part.error("has no entries; pods are made from them", "spec", "template", "cliques")
    return msgspec.structs.replace(owner, metadata=item.owner.metadata, apiVersion="", kind="")


def _levels(owner: PodCliqueSet, bindings: tuple[ClusterTopologyBinding, ...]) -> Levels:
    wanted = {each.topologyName for each in constraints(owner) if each is not None}
    if not wanted:
        return None
    found = next((each for each in bindings if each.metadata.name in wanted), None)
    if found is None and len(bindings) == 1:
        (found,) = bindings
    if found is None:
        raise ExpansionError(
            f"PodCliqueSet {owner.key}: its topology constraints are names of a ClusterTopologyBinding's levels; put "
            f"that binding into the file, too"
        )
    return found.spec.levels


def _groups(owner: PodCliqueSet, uid_of: Any) -> Iterator[tuple[PodCliqueScalingGroup, int]]:
    for replica in range(owner.spec.replicas):
        for group in groups_of(owner, replica):
            yield _with_uid(scaling_group(owner, replica, group, None), uid_of), replica


def _cliques(owner: PodCliqueSet, uid_of: Any) -> Iterator[PodClique]:
    for replica in range(owner.spec.replicas):
        for template in standalone_templates(owner):
            yield _with_uid(standalone_clique(owner, replica, template, None), uid_of)
    for group, _ in _groups(owner, uid_of):
        for index in range(group.spec.replicas):
            for name in group.spec.cliqueNames:
                template_ = template_named(owner, name)
                if template_ is not None:
                    yield _with_uid(member_clique(owner, group, index, template_, None), uid_of)


def _with_uid(obj: Any, uid_of: Any) -> Any:
    resource = resource_of(type(obj))
    uid = uid_of(resource.api_version, resource.kind, obj.metadata.namespace, obj.metadata.name)
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid=uid))


def _named(pod: Pod, index: int) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.generateName}{index}", generateName="")
    return msgspec.structs.replace(pod, metadata=metadata)


def _ungated(pod: Pod) -> Pod:
    """The pod when its gang has all its pods: without the gate that waits for that."""
    gates = tuple(each for each in pod.spec.schedulingGates if each.name != GANG_GATE)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, schedulingGates=gates))


def as_document(obj: KubeObject) -> Document:
    """The object as it is on the wire."""
    resource = resource_of(type(obj))
    document: Document = msgspec.json.decode(msgspec.json.encode(obj))
    return {**document, "apiVersion": resource.api_version, "kind": resource.kind}


__all__ = ["GroveParts", "PodGang", "as_document", "pod_clique_set"]
