"""Kubernetes' own scheduler: a PodGang becomes what the gang API of the cluster's version wants (`gang_api`).

Where no version is served, pods are scheduled one by one, as Grove does it, and the gang says so.
"""

from __future__ import annotations

from typing import Any

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import PodGang
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s import v1alpha2, v1beta1
from bosket.grove.backends.backend import Refused, Rendering, SchedulerBackend, Surroundings, Verdict, with_spec
from bosket.grove.backends.composition import label_name
from bosket.grove.backends.gang_api import APIS, GangApi, find_api
from bosket.grove.backends.gang_api.adapter import dropped_level


class DefaultBackend(SchedulerBackend):
    """Workloads, PodGroups and CompositePodGroups of scheduling.k8s.io."""

    name = "default"
    scheduler_name = keys.DEFAULT_SCHEDULER_NAME
    kinds = tuple(dict.fromkeys(kind for api in APIS for kind in api.kinds))
    gate = "scheduling.k8s.io/workload"

    def kinds_in(self, served: frozenset[tuple[str, str]]) -> tuple[type[KubeObject], ...]:
        """Of one version only: versions show the same objects."""
        api = find_api(served)
        return api.kinds if api is not None else ()

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        api = find_api(cluster.served)
        if api is None:
            left_out = "the API server serves no gang API (scheduling.k8s.io): its pods are scheduled one by one"
            return Rendering(left_out=(left_out,))
        return _without_impossible_changes(api, api.render(gang, cluster), cluster)

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        api = next(each for each in APIS if type(found) in each.kinds)
        return api.update(found, wanted)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        api = find_api(cluster.served)
        if api is None:
            return pod
        return _with_priority_of_group(gang, api.link(gang, pod), cluster)

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        del gang
        api = find_api(cluster.served)
        said = api.conditions(cluster.owned) if api is not None else []
        waiting = [
            (each, condition)
            for each, condition in said
            if api is not None and condition.type in api.scheduled_conditions and condition.status == "False"
        ]
        disrupted = [
            f"{each.metadata.name}: {condition.message or condition.reason}"
            for each, condition in said
            if condition.type == "DisruptionTarget" and condition.status == "True"
        ]
        return Verdict(
            reason=waiting[0][1].reason if waiting else "",
            message="; ".join(
                f"{each.metadata.name}: {condition.message or condition.reason}" for each, condition in waiting
            ),
            disruption="; ".join(disrupted),
        )


def _without_impossible_changes(api: GangApi, rendering: Rendering, cluster: Surroundings) -> Rendering:
    """Groups that would have to be made anew stay as they are while they have pods, which would hold them anyway."""
    found = {(type(each), each.metadata.name): each for each in cluster.owned}
    objects, left_out = [], list(rendering.left_out)
    for wanted in rendering.objects:
        present = found.get((type(wanted), wanted.metadata.name))
        if present is not None and (level := dropped_level(present, wanted)):
            raise Refused(
                f"{wanted.metadata.name} must be in one domain of {level}, and the API server drops that: its feature "
                "gate TopologyAwareWorkloadScheduling is off"
            )
        is_workload = type(wanted) is api.kinds[0]
        if present is None or is_workload or not cluster.pods or api.update(present, wanted) is not None:
            objects.append(wanted)
        else:
            objects.append(present)
            left_out.append(f"{api.kinds[-1].__name__} {wanted.metadata.name} can't be changed while it has pods")
    return Rendering(tuple(objects), tuple(left_out))


def _with_priority_of_group(gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
    """The scheduler wants the pods of a group to have the group's priority, which can't be changed any more."""
    name = label_name(pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL])
    groups = (each for each in cluster.owned if each.metadata.name == name)
    known: Any = next((each for each in groups if isinstance(each, v1alpha2.PodGroup | v1beta1.PodGroup)), None)
    wanted = (known.spec.priorityClassName if known is not None else "") or gang.spec.priorityClassName
    return with_spec(pod, priorityClassName=wanted) if wanted else pod
