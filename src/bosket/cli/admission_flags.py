"""Admission's part of the command line, by KAI's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.output import UsageError
from bosket.cli.service_flags import are_given


@Parameter(name="*", group=Group("Admission", sort_key=11))
@dataclass(frozen=True)
class AdmissionFlags:
    """What can be said about admission.

    Parameters
    ----------
    gpu_sharing_enabled
        Let pods share GPUs (annotations gpu-fraction, gpu-memory).
    hami_core_enabled
        Give pods that share a GPU the memory limit that HAMi-core enforces.
    block_nvidia_visible_devices
        Let containers see only GPUs that they asked for.
    gpu_fraction_runtime_class_name
        Runtime class of pods that share a GPU and name none, nvidia unless given; "" sets none.
    gpu_pod_runtime_class_name
        The older name of the same.
    enable_quota_validation
        Warn about queues whose quotas are more than their parent's.
    webhook_addr
        Port of the webhooks; 0 takes a free one.
    webhook_host
        Address that the webhooks listen on; in a pod, 0.0.0.0.
    webhook_url
        https://HOST:PORT where the API server reaches the webhooks, if not as the service "admission".
    """

    gpu_sharing_enabled: bool = False
    hami_core_enabled: bool = False
    block_nvidia_visible_devices: bool = False
    gpu_fraction_runtime_class_name: str | None = None
    gpu_pod_runtime_class_name: Annotated[str | None, Parameter(show=False)] = None
    enable_quota_validation: bool = False
    webhook_addr: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 9443
    webhook_host: str = "127.0.0.1"
    webhook_url: str = ""


def admission_options(flags: AdmissionFlags, services: Iterable[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not are_given(flags, "admission", services):
        return {}
    if flags.webhook_url and not _is_https(flags.webhook_url):
        raise UsageError(f"--webhook-url {flags.webhook_url}: not a URL such as https://10.0.0.7:9443")

    from bosket.admission import Options, PodRules

    runtime_class = flags.gpu_fraction_runtime_class_name
    if runtime_class is None:
        runtime_class = flags.gpu_pod_runtime_class_name
    if runtime_class is None:
        runtime_class = PodRules().gpu_fraction_runtime_class_name
    pods = PodRules(
        gpu_sharing_enabled=flags.gpu_sharing_enabled,
        hami_core_enabled=flags.hami_core_enabled,
        block_nvidia_visible_devices=flags.block_nvidia_visible_devices,
        gpu_fraction_runtime_class_name=runtime_class,
    )
    options = Options(
        pods=pods,
        enable_quota_validation=flags.enable_quota_validation,
        host=flags.webhook_host,
        port=flags.webhook_addr,
        url=flags.webhook_url,
    )
    return {"admission": options}


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and parts.path in ("", "/")
