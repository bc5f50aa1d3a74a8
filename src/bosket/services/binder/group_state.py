"""What must be cleaned up in a group of shared GPUs: a pure function of its pods and requests.

A reservation pod holds the group's GPU on a node as long as a pod uses it or is about to. A pod that uses it without a
reservation uses a GPU that other pods will get: it must be deleted.
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
    """Pods to delete; the deletions are independent of each other."""

    #: pods that run on a GPU without a reservation
    stop: tuple[Pod, ...] = ()
    #: reservations without users
    release: tuple[Pod, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stop or self.release)


def is_open(request: BindRequest) -> bool:
    """Whether the binder will still act on the request, now or after a pause."""
    return not is_done(request) and attempts_left(request)


def cleanup(
    pods: Collection[Pod],
    requests: Iterable[BindRequest],
    reservation_namespace: str,
    *,
    unknown_nodes: Collection[str] = (),
) -> Cleanup:
    """The cleanup of the group that all these pods share and all these requests name.

    `unknown_nodes`: nodes where pods share GPUs of an unknown group. It may be this one, so reservations there stay.
    """
    reservations = [pod for pod in pods if pod.metadata.namespace == reservation_namespace]
    others = [pod for pod in pods if pod.metadata.namespace != reservation_namespace]
    users = [pod for pod in others if pod.spec.nodeName and not has_ended(pod)]
    used_nodes = {pod.spec.nodeName for pod in users} | set(unknown_nodes)
    # Pods with the label but without a node are about to be bound, or about to lose the label.
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
    """Whether the pod runs. As in KAI, a pod is deleted only once it runs: before, it uses no GPU."""
    return pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None


def _is_reserved(pod: Pod, reservation: Pod | None) -> bool:
    """Whether the reservation holds the GPU that the pod got.

    KAI only checks that a reservation exists. But a reservation that was deleted and created again may hold another
    GPU.
    """
    if reservation is None:
        return False
    given = pod.metadata.annotations.get(SHARED_DEVICES_ANNOTATION, "")
    device = reserved_device(reservation)
    return not given or not device or device in given.split(",")
