"""What PodCliqueSets say, at each of their levels, about nearness and about shared resource claims."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from bosket.api.crd_marks import Rule, schema
from bosket.api.object import Wire

#: a word for a level of a topology, such as rack; a ClusterTopologyBinding says which node label it means
TopologyDomain = Annotated[str, schema(minLength=1, maxLength=63, pattern="^[a-z][a-z0-9-]*$")]

_Scope = Literal["AllReplicas", "PerReplica"]


class TopologyPackConstraint(Wire):
    """Which domain the pods of a replica are packed into."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.required) || has(self.preferred)",
            "pack must specify at least one of required or preferred",
            reason="FieldValueRequired",
        ),
    )

    required: TopologyDomain | None = None
    """All pods run inside one domain of this kind, or don't run."""
    preferred: TopologyDomain | None = None
    """Pods run inside one domain of this kind if that is possible."""


class TopologyConstraint(Wire):
    """Keeps the pods of each replica close to each other; different replicas may be in different domains."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.pack) || has(self.packDomain)",
            "topologyConstraint must specify pack or deprecated packDomain",
            field_path=".pack",
            reason="FieldValueRequired",
        ),
        Rule(
            "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
            "must not set both pack.required and deprecated packDomain",
            field_path=".pack.required",
        ),
    )

    topologyName: str = ""
    """Name of the ClusterTopologyBinding that explains the domains; inherited if left out."""
    pack: TopologyPackConstraint | None = None
    packDomain: TopologyDomain | None = None
    """Deprecated name of pack.required; refused in new objects."""

    @property
    def required(self) -> str | None:
        return self.pack.required if self.pack and self.pack.required else self.packDomain

    @property
    def preferred(self) -> str | None:
        return self.pack.preferred if self.pack else None


class ResourceSharingSpec(Wire):
    """A resource claim that the pods of a PodClique share."""

    name: str
    """Name of one of the PodCliqueSet's resourceClaimTemplates, or else of a ResourceClaimTemplate."""
    scope: _Scope
    """Whether all replicas share one claim, or each has its own."""
    namespace: str = ""
    """Namespace of the ResourceClaimTemplate; the PodCliqueSet's own if left out."""


class ScalingGroupSharingFilter(Wire):
    """Which members of a scaling group share a claim."""

    childCliqueNames: tuple[str, ...] = ()


class ScalingGroupSharingSpec(Wire):
    """A resource claim that members of a scaling group share."""

    name: str
    """Name of one of the PodCliqueSet's resourceClaimTemplates, or else of a ResourceClaimTemplate."""
    scope: _Scope
    """Whether all replicas share one claim, or each has its own."""
    namespace: str = ""
    """Namespace of the ResourceClaimTemplate; the PodCliqueSet's own if left out."""
    filter: ScalingGroupSharingFilter | None = None
    """All members share it if left out."""


class PodCliqueSetSharingFilter(Wire):
    """Which members of a PodCliqueSet share a claim."""

    childCliqueNames: tuple[str, ...] = ()
    childScalingGroupNames: tuple[str, ...] = ()


class PodCliqueSetSharingSpec(Wire):
    """A resource claim that members of a PodCliqueSet share."""

    name: str
    """Name of one of the PodCliqueSet's resourceClaimTemplates, or else of a ResourceClaimTemplate."""
    scope: _Scope
    """Whether all replicas share one claim, or each has its own."""
    namespace: str = ""
    """Namespace of the ResourceClaimTemplate; the PodCliqueSet's own if left out."""
    filter: PodCliqueSetSharingFilter | None = None
    """All members share it if left out."""
