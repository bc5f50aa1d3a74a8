"""Topologies: levels that nodes have, and constraints that name them rightly."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.kai import PodGroup, Topology, TopologyConstraint
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation


def check_levels(installation: Installation) -> Iterator[Finding]:
    """Levels that no node has, and nodes that are outside."""
    nodes = list(installation.nodes.values())
    if not nodes:
        return
    for topology in installation.bundle.of(Topology):
        labels = [level.nodeLabel for level in topology.spec.levels]
        empty = [label for label in labels if not any(label in node.metadata.labels for node in nodes)]
        for label in empty:
            yield Finding(
                "topology-level-on-no-node",
                Severity.ERROR,
                named(topology),
                f"spec.levels[{labels.index(label)}].nodeLabel",
                f"no node has the label {label}, so no node belongs to the topology, and whatever asks for it waits",
                "label the nodes, or make a topology without this level",
                f"kubectl get nodes -L {','.join(labels)}",
            )
        outside = [node.metadata.name for node in nodes if any(label not in node.metadata.labels for label in labels)]
        if outside and not empty:
            yield Finding(
                "topology-nodes-outside",
                Severity.INFO,
                named(topology),
                "spec.levels",
                f"no work that wants it goes to {counted(len(outside), 'node')} ({some(outside)}) without its labels",
                "label them if they belong to it",
                f"kubectl get nodes -L {','.join(labels)}",
            )


def check_constraints(installation: Installation) -> Iterator[Finding]:
    """Constraints of pod groups that name a topology or a level that isn't there."""
    topologies = {topology.metadata.name: topology for topology in installation.bundle.of(Topology)}
    for group in installation.bundle.of(PodGroup):
        places = [("spec.topologyConstraint", group.spec.topologyConstraint)]
        places += [
            (f"spec.subGroups[{each.name}].topologyConstraint", each.topologyConstraint)
            for each in group.spec.subGroups
        ]
        for field, constraint in places:
            if constraint is not None and constraint.topology:
                yield from _check_constraint(group, field, constraint, topologies)


def _check_constraint(
    group: PodGroup, field: str, constraint: TopologyConstraint, topologies: dict[str, Topology]
) -> Iterator[Finding]:
    topology = topologies.get(constraint.topology)
    edit = f"kubectl edit podgroups.scheduling.run.ai -n {group.metadata.namespace} {group.metadata.name}"
    if topology is None:
        yield Finding(
            "topology-unknown",
            Severity.ERROR,
            named(group),
            f"{field}.topology",
            f'there is no Topology "{constraint.topology}" (there are: {some(topologies) or "none"}), so it waits for '
            "ever",
            "create the topology, or name one that is there",
            edit,
        )
        return
    known = {name for level in topology.spec.levels for name in (level.nodeLabel, level.alias) if name}
    for key in ("requiredTopologyLevel", "preferredTopologyLevel"):
        level = getattr(constraint, key)
        if level and level not in known:
            required = key == "requiredTopologyLevel"
            yield Finding(
                "topology-level-unknown",
                Severity.ERROR if required else Severity.WARNING,
                named(group),
                f"{field}.{key}",
                f'Topology {constraint.topology} has no level "{level}" (it has {some(sorted(known))}), so '
                + ("it waits for ever" if required else "the preference has no effect"),
                "name a level that it has",
                edit,
            )
