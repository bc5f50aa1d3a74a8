"""What has to be done about a group of shared GPUs, by how things stand: a pure function.

A reservation pod holds the group's GPU on a node as long as somebody uses it or is about to. Those who use it without
a reservation use a GPU that others will be given: they have to go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import SHARED_DEVICES_ANNOTATION
from bosket.api.pod_phase import has_ended
from bosket.services.binder.reservation_pod import reserved_device
from bosket.services.binder.verdict import attempts_left, is_done


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What has to be done; nothing of it depends on the rest."""

    #: Pods that run on a GPU which no reservation holds for them.
    stop: tuple[Pod, ...] = ()
    #: Reservations that nobody needs.
    release: tuple[Pod, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stop or self.release)


def is_open(request: BindRequest) -> bool:
    """Whether the binder is going to act on the request, now or after a pause."""
    return not is_done(request) and attempts_left(request)


def cleanup(
    pods: Collection[Pod],
    requests: Iterable[BindRequest],
    reservation_namespace: str,
    *,
    unknown_nodes: Collection[str] = (),
) -> Cleanup:
    """What has to be done about the group that all these pods share and all these requests name.

    `unknown_nodes`: where pods share GPUs of which nobody can say the group any more. It may be this one, so what is
    reserved there stays.
    """
    reservations = [pod for pod in pods if pod.metadata.namespace == reservation_namespace]
    others = [pod for pod in pods if pod.metadata.namespace != reservation_namespace]
    users = [pod for pod in others if pod.spec.nodeName and not has_ended(pod)]
    used_nodes = {pod.spec.nodeName for pod in users} | set(unknown_nodes)
    # Pods that have the label and no node yet are about to be bound, or else about to lose it again.
    awaited_nodes = {request.spec.selectedNode for request in requests if is_open(request)}
    holding = {pod.spec.nodeName: pod for pod in reservations if not has_ended(pod)}
    return Cleanup(
        stop=tuple(pod for pod in users if _runs(pod) and not _is_reserved(pod, holding.get(pod.spec.nodeName))),
        release=tuple(
            pod
            for pod in reservations
            if pod.spec.nodeName not in awaited_nodes and (has_ended(pod) or pod.spec.nodeName not in used_nodes)
        ),
    )


def _runs(pod: Pod) -> bool:
    """KAI waits for a pod to run before it takes it away, and so does this: until then it uses nothing."""
    return pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None


def _is_reserved(pod: Pod, reservation: Pod | None) -> bool:
    """Whether the reservation holds the GPU that the pod was given.

    KAI looks only whether there is one. But a reservation that somebody deleted and the next bind made anew may hold
    another GPU than before.
    """
    if reservation is None:
        return False
    given = pod.metadata.annotations.get(SHARED_DEVICES_ANNOTATION, "")
    device = reserved_device(reservation)
    return not given or not device or device in given.split(",")
