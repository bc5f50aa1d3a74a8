"""Admission's part of the command line, by KAI's names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.output import UsageError
from bosket.cli.service_flags import pairs
from bosket.cli.workload_flags import WorkloadFlags, is_configured


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
    webhook_service_port
        Port of that service.
    create_webhook_configurations
        Make webhook configurations that aren't there; otherwise fill in only those that somebody (the operator) made.
    mutating_webhook_configuration_name
        What the one for pods that are completed is called.
    validating_webhook_configuration_name
        The one for pods and topologies that are checked.
    queue_webhook_configuration_name
        The one for queues.
    podgroup_webhook_configuration_name
        The one for pod groups.
    queue_label_selector
        Ask only about pods in namespaces that have the queue label.
    trusted_subjects
        With access control: controllers, beside Kubernetes' own, whose pods are judged by who made their owner, such
        as serviceaccount:kubeflow/training-operator, with commas between them.
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
    webhook_service_port: Annotated[int, Parameter(validator=Number(gte=1, lte=65535))] = 443
    create_webhook_configurations: bool = True
    mutating_webhook_configuration_name: str = "mutating-kai-admission"
    validating_webhook_configuration_name: str = "validating-kai-admission"
    queue_webhook_configuration_name: str = "kai-queue-validation-v2"
    podgroup_webhook_configuration_name: str = "kai-podgroup-validation-v2alpha2"
    queue_label_selector: bool = False
    trusted_subjects: str = ""


def admission_options(flags: AdmissionFlags, workloads: WorkloadFlags, services: Collection[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not is_configured("admission", flags, workloads, services):
        return {}
    if flags.webhook_url and not is_https(flags.webhook_url):
        raise UsageError(f"--webhook-url {flags.webhook_url}: not a URL such as https://10.0.0.7:9443")

    from bosket.services.admission import Options, PodRules
    from bosket.services.admission.options import TRUSTED_SUBJECTS

    runtime_class = flags.gpu_fraction_runtime_class_name
    if runtime_class is None:
        runtime_class = flags.gpu_pod_runtime_class_name
    if runtime_class is None:
        runtime_class = PodRules().gpu_fraction_runtime_class_name
    pods = PodRules(
        scheduler_name=workloads.scheduler_name,
        gpu_sharing_enabled=flags.gpu_sharing_enabled,
        hami_core_enabled=flags.hami_core_enabled,
        block_nvidia_visible_devices=flags.block_nvidia_visible_devices,
        gpu_fraction_runtime_class_name=runtime_class,
    )
    options = Options(
        pods=pods,
        access_control=workloads.access_control,
        trusted_subjects=(*TRUSTED_SUBJECTS, *_subjects(flags.trusted_subjects)),
        enable_quota_validation=flags.enable_quota_validation,
        host=flags.webhook_host,
        port=flags.webhook_addr,
        url=flags.webhook_url,
        service_port=flags.webhook_service_port,
        creates_configurations=flags.create_webhook_configurations,
        mutating_configuration_name=flags.mutating_webhook_configuration_name,
        validating_configuration_name=flags.validating_webhook_configuration_name,
        queue_configuration_name=flags.queue_webhook_configuration_name,
        pod_group_configuration_name=flags.podgroup_webhook_configuration_name,
        queue_label_selector=flags.queue_label_selector,
        queue_label_key=workloads.queue_label_key,
        namespace_label_selector=pairs("--namespace-label-selector", workloads.namespace_label_selector),
        pod_label_selector=pairs("--pod-label-selector", workloads.pod_label_selector),
    )
    return {"admission": options}


def _subjects(text: str) -> list[str]:
    from bosket.kube.access import subject_problem

    found = [each.strip() for each in text.split(",") if each.strip()]
    for each in found:
        if problem := subject_problem(each):
            raise UsageError(f"--trusted-subjects: {problem}")
    return found


def is_https(url: str) -> bool:
    """Whether webhooks can be reached there: a host, and no path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and parts.path in ("", "/")
