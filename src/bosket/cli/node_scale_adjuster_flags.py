"""The node scale adjuster's part of the command line, by KAI's names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.api.keys import SCALING_POD_APP, SCALING_POD_SERVICE_ACCOUNT
from bosket.cli.workload_flags import WorkloadFlags, is_configured


@Parameter(name="*", group=Group("Node scale adjuster", sort_key=14))
@dataclass(frozen=True)
class NodeScaleAdjusterFlags:
    """What can be said about the node scale adjuster.

    Parameters
    ----------
    scaling_pod_image
        The image of scaling pods, whose program is: bosket run scaling-pod.
    scaling_pod_app_label
        Value of their label "app".
    scaling_pod_service_account
        Whose rights they have.
    gpu_memory_to_fraction_ratio
        What part of a GPU a request for GPU memory counts as.
    """

    scaling_pod_image: str = "scalingpod"
    scaling_pod_app_label: str = SCALING_POD_APP
    scaling_pod_service_account: str = SCALING_POD_SERVICE_ACCOUNT
    gpu_memory_to_fraction_ratio: Annotated[float, Parameter(validator=Number(gt=0, lte=1))] = 0.1


def node_scale_adjuster_options(
    flags: NodeScaleAdjusterFlags, workloads: WorkloadFlags, services: Collection[str]
) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not is_configured("node-scale-adjuster", flags, workloads, services):
        return {}

    from bosket.services.node_scale import Options

    options = Options(
        scheduler_name=workloads.scheduler_name,
        scale_adjust_namespace=workloads.scale_adjust_namespace,
        scaling_pod_image=flags.scaling_pod_image,
        scaling_pod_app_label=flags.scaling_pod_app_label,
        scaling_pod_service_account=flags.scaling_pod_service_account,
        gpu_memory_to_fraction_ratio=flags.gpu_memory_to_fraction_ratio,
    )
    return {"node-scale-adjuster": options}
