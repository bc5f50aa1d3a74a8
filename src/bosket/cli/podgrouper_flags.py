"""The pod grouper's part of the command line, by KAI's names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.output import UsageError
from bosket.cli.service_flags import pairs
from bosket.cli.workload_flags import WorkloadFlags, is_configured


@Parameter(name="*", group=Group("Pod grouper", sort_key=12))
@dataclass(frozen=True)
class PodGrouperFlags:
    """What can be said about the pod grouper.

    Parameters
    ----------
    search_legacy_pg
        Go on using groups that were made under an older naming scheme.
    knative_gang_schedule
        Let the pods of a Knative revision wait for each other.
    generic_karta_fallback
        Let Kartas say how kinds are grouped for which there is no rule.
    default_priorities_configmap_name
        A ConfigMap with priority class and preemptibility of workloads that don't say, by kind.
    default_priorities_configmap_namespace
        Where it is.
    grouper_concurrency
        How many pods are grouped at once.
    """

    search_legacy_pg: bool = True
    knative_gang_schedule: bool = True
    generic_karta_fallback: bool = True
    default_priorities_configmap_name: str = ""
    default_priorities_configmap_namespace: str = ""
    grouper_concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 10


def podgrouper_options(
    flags: PodGrouperFlags, workloads: WorkloadFlags, services: Collection[str]
) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not is_configured("podgrouper", flags, workloads, services):
        return {}
    name, namespace = flags.default_priorities_configmap_name, flags.default_priorities_configmap_namespace
    if bool(name) != bool(namespace):
        raise UsageError("--default-priorities-configmap-name and -namespace: one of them alone says nothing")

    from bosket.services.podgrouper import Options

    options = Options(
        scheduler_name=workloads.scheduler_name,
        search_legacy_groups=flags.search_legacy_pg,
        knative_gang_schedule=flags.knative_gang_schedule,
        karta_fallback=flags.generic_karta_fallback,
        default_priorities_configmap_name=name,
        default_priorities_configmap_namespace=namespace,
        pod_label_selector=pairs("--pod-label-selector", workloads.pod_label_selector),
        namespace_label_selector=pairs("--namespace-label-selector", workloads.namespace_label_selector),
        queue_label_key=workloads.queue_label_key,
        node_pool_label_key=workloads.nodepool_label_key,
        max_concurrent_reconciles=flags.grouper_concurrency,
    )
    return {"podgrouper": options}
