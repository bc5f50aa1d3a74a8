"""The binder's part of the command line: KAI's flags, checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.output import UsageError
from bosket.cli.workload_flags import WorkloadFlags, is_configured

if TYPE_CHECKING:
    from bosket.services.binder import Options

T = TypeVar("T")

_Positive = Annotated[int, Parameter(validator=Number(gte=1))]
_Seconds = Annotated[float, Parameter(validator=Number(gt=0))]


@Parameter(name="*", group=Group("Binder", sort_key=10))
@dataclass(frozen=True)
class BinderFlags:
    """What can be said about the binder.

    Parameters
    ----------
    resource_reservation_namespace
        Where the pods live that hold shared GPUs.
    resource_reservation_service_account
        Whose rights these pods have.
    resource_reservation_app_label
        Value of their label "app".
    resource_reservation_pod_image
        Their image, whose program is: bosket run reservation.
    resource_reservation_allocation_timeout
        Seconds that such a pod may take to say which GPU it holds.
    resource_reservation_pod_resources
        Their requests and limits beside the GPU, as JSON.
    resource_reservation_pod_security_context
        Their security context, as JSON.
    resource_reservation_container_security_context
        That of their container, as JSON.
    runtime_class_name
        Their runtime class.
    fake_gpu_nodes
        Nodes have no real GPUs: these pods only sleep, and whoever simulates GPUs says which one each holds.
    max_concurrent_reconciles
        How many pods are bound at once.
    max_concurrent_binds_per_node
        How many of them to the same node; 0 for any number.
    rate_limiter_base_delay
        Seconds until a bind is tried again that failed for no fault of its request; twice as long each time.
    rate_limiter_max_delay
        The longest such pause, in seconds.
    volume_binding_timeout_seconds
        Seconds that the volumes of a pod may take to be bound.
    plugins
        Settings of plugins by name, as JSON: {"gpusharing": {"enabled": true, "arguments": {"cdiEnabled": "true"}}}
    """

    resource_reservation_namespace: str = "kai-resource-reservation"
    resource_reservation_service_account: str = "kai-resource-reservation"
    resource_reservation_app_label: str = "kai-resource-reservation"
    resource_reservation_pod_image: str = "resource-reservation"
    resource_reservation_allocation_timeout: _Seconds = 40.0
    resource_reservation_pod_resources: str = ""
    resource_reservation_pod_security_context: str = ""
    resource_reservation_container_security_context: str = ""
    runtime_class_name: str = ""
    fake_gpu_nodes: bool = False
    max_concurrent_reconciles: _Positive = 10
    max_concurrent_binds_per_node: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    rate_limiter_base_delay: _Seconds = 1.0
    rate_limiter_max_delay: _Seconds = 60.0
    volume_binding_timeout_seconds: _Positive = 120
    plugins: str = ""


def binder_options(flags: BinderFlags, workloads: WorkloadFlags, services: Collection[str]) -> dict[str, object]:
    """The binder's options by its name, unless they are the default ones; raises `UsageError`."""
    configured = is_configured("binder", flags, workloads, services)
    return {"binder": _options(flags, workloads)} if configured else {}


def _options(flags: BinderFlags, workloads: WorkloadFlags) -> Options:
    from bosket.api.core import PodSecurityContext, ResourceRequirements, SecurityContext
    from bosket.api.kai import PluginConfig
    from bosket.services.binder import InvalidPluginSettings, Options, ReservationOptions, check_settings

    resources = _json(
        "resource-reservation-pod-resources", flags.resource_reservation_pod_resources, ResourceRequirements
    )
    plugins = _json("plugins", flags.plugins, dict[str, PluginConfig]) or {}
    try:
        check_settings(plugins)
    except InvalidPluginSettings as error:
        raise UsageError(f"--plugins: {error}") from error
    return Options(
        scheduler_name=workloads.scheduler_name,
        max_concurrent_reconciles=flags.max_concurrent_reconciles,
        max_concurrent_binds_per_node=flags.max_concurrent_binds_per_node,
        rate_limiter_base_delay_seconds=flags.rate_limiter_base_delay,
        rate_limiter_max_delay_seconds=flags.rate_limiter_max_delay,
        reservation=ReservationOptions(
            namespace=flags.resource_reservation_namespace,
            service_account=flags.resource_reservation_service_account,
            app_label=flags.resource_reservation_app_label,
            pod_image=flags.resource_reservation_pod_image,
            allocation_timeout_seconds=flags.resource_reservation_allocation_timeout,
            pod_resources=resources or ResourceRequirements(),
            pod_security_context=_json(
                "resource-reservation-pod-security-context",
                flags.resource_reservation_pod_security_context,
                PodSecurityContext,
            ),
            container_security_context=_json(
                "resource-reservation-container-security-context",
                flags.resource_reservation_container_security_context,
                SecurityContext,
            ),
            runtime_class_name=flags.runtime_class_name,
            fake_gpu_nodes=flags.fake_gpu_nodes,
        ),
        scale_adjust_namespace=workloads.scale_adjust_namespace,
        volume_binding_timeout_seconds=flags.volume_binding_timeout_seconds,
        plugins=plugins,
    )


def _json(flag: str, text: str, kind: type[T]) -> T | None:
    """What the text of a flag says; None where it is empty."""
    import msgspec

    from bosket.api.document import UnreadableDocument, read_json

    if not text:
        return None
    try:
        return read_json(text.encode(), kind)
    except (UnreadableDocument, msgspec.MsgspecError) as error:
        raise UsageError(f"--{flag} {text}: {error}") from error
