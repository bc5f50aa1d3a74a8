"""YuniKorn: a PodGang becomes annotations of its pods: an application with a task group for each pod group.

There is no object of its own: YuniKorn reads the task groups from the first pod of an application that it sees, so all
pods carry all of them, from their creation on. It knows no topology.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Container, Pod, PodSpec
from bosket.api.grove import GangPodGroup, PodGang
from bosket.api.quantity import Quantity, add, compare
from bosket.api.yunikorn import TaskGroup
from bosket.grove.backends.backend import Refused, Rendering, SchedulerBackend, Surroundings, Verdict, with_metadata
from bosket.grove.backends.composition import preferred_level, required_level, template_of

_DOMAIN: Final = "yunikorn.apache.org"
APP_ID_LABEL: Final = f"{_DOMAIN}/app-id"
QUEUE_KEY: Final = f"{_DOMAIN}/queue"
TASK_GROUP_ANNOTATION: Final = f"{_DOMAIN}/task-group-name"
TASK_GROUPS_ANNOTATION: Final = f"{_DOMAIN}/task-groups"
POLICY_ANNOTATION: Final = f"{_DOMAIN}/schedulingPolicyParameters"
#: All of the minimum or nothing: the alternative, Soft, gives up being a gang after a while.
_POLICY: Final = "gangSchedulingStyle=Hard"


class YuniKornBackend(SchedulerBackend):
    """Labels and annotations of yunikorn.apache.org."""

    name = "yunikorn"
    scheduler_name = "yunikorn"

    def matches(self, scheduler_name: str) -> bool:
        return self.name in scheduler_name

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        del cluster
        left_out = []
        spec = gang.spec
        for name, constraint in (
            ("the gang", spec.topologyConstraint),
            *((each.name, each.topologyConstraint) for each in spec.topologyConstraintGroupConfigs),
            *((each.name, each.topologyConstraint) for each in spec.podgroups),
        ):
            if required := required_level(constraint):
                raise Refused(f"{name} must be in one domain of {required}; YuniKorn has no topology constraints")
            if preferred := preferred_level(constraint):
                left_out.append(f"{name} prefers one domain of {preferred}; YuniKorn has no topology constraints")
        return Rendering(left_out=tuple(left_out))

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        self.sync(gang, cluster)  # what YuniKorn can't express is refused here too: nothing else holds the pod back
        own = pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL]
        groups = [
            _task_group(part, _pod_spec(part, pod, own, cluster)) for part in gang.spec.podgroups if part.minReplicas
        ]
        labels = {APP_ID_LABEL: gang.metadata.name}
        queue = gang.metadata.labels.get(QUEUE_KEY) or gang.metadata.annotations.get(QUEUE_KEY)
        if queue and QUEUE_KEY not in pod.metadata.labels and QUEUE_KEY not in pod.metadata.annotations:
            labels[QUEUE_KEY] = queue
        annotations = {
            POLICY_ANNOTATION: pod.metadata.annotations.get(POLICY_ANNOTATION, _POLICY),
            TASK_GROUP_ANNOTATION: own,
            TASK_GROUPS_ANNOTATION: msgspec.json.encode(groups).decode(),
        }
        return with_metadata(pod, labels=labels, annotations=annotations)

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        """Only pods show what YuniKorn thinks."""
        del gang
        for pod in sorted(cluster.pods, key=lambda pod: pod.metadata.name):
            for condition in pod.status.conditions:
                is_refused = condition.type == "PodScheduled" and condition.status == "False"
                if is_refused and condition.reason != "SchedulingGated":
                    return Verdict(reason=condition.reason, message=f"{pod.metadata.name}: {condition.message}")
        return Verdict()


def _pod_spec(part: GangPodGroup, pod: Pod, own: str, cluster: Surroundings) -> PodSpec:
    """What the pods of a pod group look like."""
    if part.name == own:
        return pod.spec
    template = template_of(cluster.owner, part.name)
    if template is None:
        raise Refused(
            f"{part.name}: no clique of its PodCliqueSet says what its pods ask for, which YuniKorn must know"
        )
    return template.spec.podSpec


def _task_group(part: GangPodGroup, spec: PodSpec) -> TaskGroup:
    return TaskGroup(
        name=part.name,
        minMember=part.minReplicas,
        minResource=_requests(spec),
        nodeSelector=spec.nodeSelector,
        tolerations=spec.tolerations,
        affinity=spec.affinity,
    )


def _requests(spec: PodSpec) -> dict[str, Quantity]:
    """What a pod asks for: the larger of all its containers and its largest init step; sidecars run all the time."""
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.initContainers:
        asked = _of_container(container)
        if container.restartPolicy == "Always":
            sidecars = _sum(sidecars, asked)
            asked = {}
        peak = _larger(peak, _sum(sidecars, asked))
    total = sidecars
    for container in spec.containers:
        total = _sum(total, _of_container(container))
    return dict(sorted(_sum(_larger(total, peak), spec.overhead).items()))


def _of_container(container: Container) -> dict[str, Quantity]:
    return {**container.resources.limits, **container.resources.requests}


def _sum(left: dict[str, Quantity], right: dict[str, Quantity]) -> dict[str, Quantity]:
    return {**left, **{name: add(left.get(name, "0"), amount) for name, amount in right.items()}}


def _larger(left: dict[str, Quantity], right: dict[str, Quantity]) -> dict[str, Quantity]:
    more = {name: amount for name, amount in right.items() if compare(amount, left.get(name, "0")) > 0}
    return {**left, **more}
