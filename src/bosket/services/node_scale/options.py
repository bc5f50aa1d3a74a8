"""Options of the node scale adjuster; the fields are KAI's flags."""

from __future__ import annotations

from dataclasses import dataclass

from bosket.api.keys import SCALE_ADJUST_NAMESPACE, SCALING_POD_APP, SCALING_POD_SERVICE_ACCOUNT, SCHEDULER_NAME


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the node scale adjuster."""

    #: Whose pods it speaks for.
    scheduler_name: str = SCHEDULER_NAME
    #: Where scaling pods live; the binder looks there, too.
    scale_adjust_namespace: str = SCALE_ADJUST_NAMESPACE
    scaling_pod_image: str = "scalingpod"
    #: Value of their label "app".
    scaling_pod_app_label: str = SCALING_POD_APP
    scaling_pod_service_account: str = SCALING_POD_SERVICE_ACCOUNT
    #: What a request for GPU memory counts on each device: how large devices to come will be, nobody knows.
    gpu_memory_to_fraction_ratio: float = 0.1
