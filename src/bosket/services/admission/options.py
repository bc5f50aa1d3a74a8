"""Options of admission; names and defaults are those of KAI's flags and Config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bosket.api import keys

#: Kubernetes' own controllers.
TRUSTED_SUBJECTS: Final = ("serviceaccount:kube-system/*", "user:system:kube-controller-manager")


@dataclass(frozen=True, slots=True)
class PodRules:
    """What is demanded of pods, and done for them."""

    #: Pods of other schedulers are left alone.
    scheduler_name: str = keys.SCHEDULER_NAME
    gpu_sharing_enabled: bool = False
    hami_core_enabled: bool = False
    #: Containers may see only the GPUs that they asked for.
    block_nvidia_visible_devices: bool = False
    #: Given to pods that share a GPU and name none; empty switches that off.
    gpu_fraction_runtime_class_name: str = "nvidia"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the admission service."""

    pods: PodRules = field(default_factory=PodRules)
    #: Let only those namespaces and users use a queue or a priority class that its annotations admit.
    access_control: bool = False
    #: Controllers: what they make for an owner isn't judged by their own name.
    trusted_subjects: tuple[str, ...] = TRUSTED_SUBJECTS
    #: KAI's enable-quota-validation: warn about quotas of queues that add up to more than their parent's.
    enable_quota_validation: bool = False
    #: Where the webhooks listen.
    host: str = "127.0.0.1"
    port: int = 9443
    #: How the API server reaches them: a URL without a path, or, if empty, the service below.
    url: str = ""
    service_name: str = "admission"
    service_port: int = 443
    mutating_configuration_name: str = "mutating-kai-admission"
    validating_configuration_name: str = "validating-kai-admission"
    queue_configuration_name: str = "kai-queue-validation-v2"
    pod_group_configuration_name: str = "kai-podgroup-validation-v2alpha2"
    #: Whether configurations that aren't there are made; otherwise only those that somebody made are filled in.
    creates_configurations: bool = True
    #: How often certificate and registration are looked after.
    upkeep_seconds: float = 60.0
    #: Where replicas keep the certificate that all of them show.
    secret_name: str = "kai-admission-webhook-tls-secret"  # noqa: S105 - the name of one, not one
    #: Ask only about pods in namespaces that have the queue label.
    queue_label_selector: bool = False
    queue_label_key: str = keys.QUEUE_LABEL
    #: Labels that a namespace, and a pod, must have.
    namespace_label_selector: Mapping[str, str] = field(default_factory=dict)
    pod_label_selector: Mapping[str, str] = field(default_factory=dict)
