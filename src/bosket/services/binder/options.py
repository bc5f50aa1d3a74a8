"""Options of the binder; the fields are KAI's flags unless noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.api.core import PodSecurityContext, ResourceRequirements, SecurityContext
from bosket.api.kai import PluginConfig
from bosket.api.keys import (
    RESERVATION_APP,
    RESERVATION_NAMESPACE,
    RESERVATION_SERVICE_ACCOUNT,
    SCALE_ADJUST_NAMESPACE,
    SCHEDULER_NAME,
)
from bosket.runtime.workqueue import Backoff


@dataclass(frozen=True, slots=True)
class ReservationOptions:
    """Options of reservation pods: image, resources, timeout."""

    namespace: str = RESERVATION_NAMESPACE
    service_account: str = RESERVATION_SERVICE_ACCOUNT
    app_label: str = RESERVATION_APP
    pod_image: str = "resource-reservation"
    allocation_timeout_seconds: float = 40.0
    #: Beside the GPU, which each of them has.
    pod_resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    pod_security_context: PodSecurityContext | None = None
    container_security_context: SecurityContext | None = None
    runtime_class_name: str = ""
    #: Nodes have simulated GPUs: reservation pods only sleep, and the simulator writes their devices.
    fake_gpu_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the binder."""

    #: Pods of others share no GPUs of ours, whatever their labels say; `schedulerName` of a pod never changes.
    scheduler_name: str = SCHEDULER_NAME
    max_concurrent_reconciles: int = 10
    #: Concurrent binds per node; 0: unlimited. KAI has no such limit.
    max_concurrent_binds_per_node: int = 0
    #: Pauses after errors that are not a request's fault (no answer from the API server, conflicts).
    rate_limiter_base_delay_seconds: float = 1.0
    #: The longest pause between two attempts.
    rate_limiter_max_delay_seconds: float = 60.0
    #: How long the volumes of a pod may take to be bound.
    volume_binding_timeout_seconds: float = 120.0
    reservation: ReservationOptions = field(default_factory=ReservationOptions)
    #: No GPU is reserved while a pod here waits for a node: the node to come would be the wrong one.
    scale_adjust_namespace: str = SCALE_ADJUST_NAMESPACE
    #: By name: what differs from the defaults of the binder's plugins.
    plugins: Mapping[str, PluginConfig] = field(default_factory=dict)

    def backoff(self) -> Backoff:
        """Of whatever the binder reconciles."""
        return Backoff(self.rate_limiter_base_delay_seconds, self.rate_limiter_max_delay_seconds)
