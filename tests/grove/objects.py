"""PodCliques, scaling groups and pods in any state, for tests of what follows from that."""

from __future__ import annotations

from collections.abc import Sequence

from bosket.api.core import ContainerStatus, Pod, PodCondition, PodSchedulingGate, PodSpec, PodStatus
from bosket.api.core.pod_status import ContainerState, ContainerStateTerminated
from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueScalingGroupStatus,
    PodCliqueStatus,
)
from bosket.api.grove.naming import (
    GANG_LABEL,
    GROUP_LABEL,
    GROUP_REPLICA_LABEL,
    SET_REPLICA_LABEL,
    TEMPLATE_HASH_LABEL,
)
from bosket.api.object import Condition, ObjectMeta
from bosket.api.time import format_time
from tests.grove.sets import NAMESPACE, clique

CREATED = 1_000_000.0


def condition(type_: str, status: str, seconds: float = 0.0) -> Condition:
    """Turned so many seconds after the creation of its object."""
    since = format_time(CREATED + seconds)
    return Condition(type=type_, status=status, lastTransitionTime=since, reason="Test", message="")


def meta(name: str, labels: dict[str, str], *, going: bool = False) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        uid=name,
        labels=labels,
        creationTimestamp=format_time(CREATED),
        deletionTimestamp=format_time(CREATED + 1) if going else None,
    )


def made_pod(
    name: str,
    *,
    gang: str = "s-0",
    scheduled: bool = False,
    ready: bool = False,
    started: bool = False,
    exit_code: int | None = None,
    hash_: str = "",
    gates: Sequence[str] = (),
) -> Pod:
    """A pod that says it is of a gang, unless that is empty; `exit_code` is how a container ended before."""
    ended = ContainerStateTerminated(exitCode=exit_code) if exit_code is not None else None
    container = ContainerStatus(
        name="main",
        image="",
        imageID="",
        restartCount=0,
        ready=ready,
        started=started,
        lastState=ContainerState(terminated=ended),
    )
    labels = {key: value for key, value in ((GANG_LABEL, gang), (TEMPLATE_HASH_LABEL, hash_)) if value}
    conditions = (
        PodCondition(type="PodScheduled", status="True" if scheduled else "False"),
        PodCondition(type="Ready", status="True" if ready else "False"),
    )
    return Pod(
        metadata=meta(name, labels),
        spec=PodSpec(containers=(), schedulingGates=tuple(PodSchedulingGate(name=each) for each in gates)),
        status=PodStatus(
            phase="Running" if started else "Pending", conditions=conditions, containerStatuses=(container,)
        ),
    )


def made_clique(
    name: str = "s-0-a",
    *conditions: Condition,
    replicas: int = 1,
    minimum: int | None = None,
    ready: int = 0,
    scheduled: int = 0,
    group: str = "",
    index: int = 0,
    going: bool = False,
) -> PodClique:
    """A PodClique of the set's first replica, perhaps of some replica of a scaling group."""
    labels = {SET_REPLICA_LABEL: "0", GANG_LABEL: "s-0"}
    if group:
        labels |= {GROUP_LABEL: group, GROUP_REPLICA_LABEL: str(index)}
    return PodClique(
        metadata=meta(name, labels, going=going),
        spec=clique("a", replicas, minimum).spec,
        status=PodCliqueStatus(
            conditions=conditions, readyReplicas=ready, scheduledReplicas=scheduled, observedGeneration=1
        ),
    )


def made_group(
    *conditions: Condition, replicas: int, minimum: int, available: int = 0, going: bool = False
) -> PodCliqueScalingGroup:
    """The scaling group s-0-g of cliques a and b."""
    return PodCliqueScalingGroup(
        metadata=meta("s-0-g", {SET_REPLICA_LABEL: "0"}, going=going),
        spec=PodCliqueScalingGroupSpec(replicas=replicas, minAvailable=minimum, cliqueNames=("a", "b")),
        status=PodCliqueScalingGroupStatus(conditions=conditions, availableReplicas=available),
    )
