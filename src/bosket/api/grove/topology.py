"""grove.io/v1alpha1 ClusterTopologyBinding: which node labels the words for topology domains mean."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bosket.api.crd_marks import AGE, Column, Int64, schema
from bosket.api.grove.constraint import TopologyDomain
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource

_LabelKey = Annotated[
    str,
    schema(
        minLength=1,
        maxLength=63,
        pattern="^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
    ),
]


class TopologyLevel(Wire):
    """One level of the topology."""

    domain: TopologyDomain
    """The word for it, such as rack."""
    key: _LabelKey
    """Key of the node label that tells its domains apart."""


class SchedulerTopologyBinding(Wire):
    """A topology object of a scheduler that somebody else keeps; the operator only compares it."""

    schedulerName: str
    topologyReference: str
    """Name of the scheduler's topology object."""


class ClusterTopologyBindingSpec(Wire, kw_only=True):
    """The levels of a cluster's topology."""

    levels: Annotated[tuple[TopologyLevel, ...], schema(minItems=1)]
    """From the widest to the narrowest."""
    schedulerTopologyBindings: tuple[SchedulerTopologyBinding, ...] = ()
    """For a scheduler that isn't named here, the operator makes the topology object itself."""


class SchedulerTopologyStatus(Wire):
    """Whether a scheduler's topology object says the same."""

    schedulerName: str
    topologyReference: str
    inSync: bool
    schedulerBackendTopologyObservedGeneration: Int64 | None = None
    message: str = ""


class ClusterTopologyBindingStatus(Wire):
    """Whether the schedulers' topology objects say the same."""

    observedGeneration: Int64 | None = None
    conditions: tuple[Condition, ...] = ()
    schedulerTopologyStatuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(KubeObject, kw_only=True):
    """The words for levels of the cluster's topology, bound to node labels."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("Domains", ".spec.levels[*].domain"), AGE)

    spec: ClusterTopologyBindingSpec
    status: ClusterTopologyBindingStatus = ClusterTopologyBindingStatus()


CLUSTER_TOPOLOGY_BINDING = Resource(
    "grove.io",
    "v1alpha1",
    "ClusterTopologyBinding",
    "clustertopologybindings",
    ClusterTopologyBinding,
    namespaced=False,
    short_names=("ct",),
    subresources=("status",),
)
