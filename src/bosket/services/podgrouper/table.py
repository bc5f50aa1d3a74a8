"""Which kind goes to which grouper.

A new kind is a line here, or a line in the packaging metadata of another installed package:

    [project.entry-points."bosket.groupers"]
    "example.com/v1/Simulation" = "example.grouping:simulation"

where `simulation` is a `Grouper`, a function `Workload -> Grouping`; the version may be `*`. Kinds that nobody lists
are grouped as a Karta says, without code, or by default.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from bosket.services.podgrouper.groupers.batch import cron_job, job
from bosket.services.podgrouper.groupers.default import default, deployment, pod
from bosket.services.podgrouper.groupers.grove import pod_clique_set
from bosket.services.podgrouper.groupers.job_set import job_set
from bosket.services.podgrouper.groupers.karta import by_karta
from bosket.services.podgrouper.groupers.knative import knative_service
from bosket.services.podgrouper.groupers.kubeflow import mpi_job, notebook, training_job
from bosket.services.podgrouper.groupers.leader_worker_set import leader_worker_set
from bosket.services.podgrouper.groupers.pytorch import pytorch_job
from bosket.services.podgrouper.groupers.ray import ray_cluster, ray_job, ray_service
from bosket.services.podgrouper.groupers.skipped import below_top
from bosket.services.podgrouper.groupers.vendor import aml_job, runai_job, spot_request
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupVersionKind
from bosket.services.podgrouper.workload import Grouper

_log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "bosket.groupers"

#: by group/version/Kind, as in an owner reference's apiVersion and kind
GROUPERS: Final[Mapping[str, Grouper]] = {
    "v1/Pod": pod,
    "apps/v1/Deployment": deployment,
    "apps/v1/ReplicaSet": default,
    "apps/v1/StatefulSet": default,
    "batch/v1/CronJob": cron_job,
    "batch/v1/Job": job,
    "amlarc.azureml.com/v1alpha1/AmlJob": aml_job,
    "egx.nvidia.io/v1/SPOTRequest": spot_request,
    "grove.io/v1alpha1/PodCliqueSet": pod_clique_set,
    "grove.io/v1alpha1/PodGangSet": pod_clique_set,
    "jobset.x-k8s.io/v1alpha2/JobSet": job_set,
    "kubeflow.org/v1/JAXJob": training_job("jaxReplicaSpecs", "Worker"),
    "kubeflow.org/v1/MPIJob": mpi_job,
    "kubeflow.org/v1/PyTorchJob": pytorch_job,
    "kubeflow.org/v1/TFJob": training_job("tfReplicaSpecs"),
    "kubeflow.org/v1/XGBoostJob": training_job("xgbReplicaSpecs", "Master", "Worker"),
    "kubeflow.org/v1alpha1/ScheduledWorkflow": default,
    "kubeflow.org/v1beta1/Notebook": notebook,
    "kubeflow.org/v2beta1/MPIJob": mpi_job,
    "kubevirt.io/v1/VirtualMachineInstance": default,
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": leader_worker_set,
    "machinelearning.seldon.io/v1/SeldonDeployment": default,
    "machinelearning.seldon.io/v1alpha2/SeldonDeployment": default,
    "ray.io/v1/RayCluster": ray_cluster,
    "ray.io/v1/RayJob": ray_job,
    "ray.io/v1/RayService": ray_service,
    "ray.io/v1alpha1/RayCluster": ray_cluster,
    "ray.io/v1alpha1/RayJob": ray_job,
    "ray.io/v1alpha1/RayService": ray_service,
    "run.ai/v1/RunaiJob": runai_job,
    "serving.knative.dev/v1/Service": knative_service,
    "tekton.dev/v1/PipelineRun": default,
    "tekton.dev/v1/TaskRun": default,
    "workspace.devfile.io/v1alpha2/DevWorkspace": default,
}

#: Kinds that wrap others: the owner below them decides.
WRAPPERS: Final = (
    "argoproj.io/v1alpha1/Workflow",
    "nvidia.com/*/DynamoGraphDeployment",
    "run.ai/*/DistributedInferenceWorkload",
    "run.ai/*/DistributedWorkload",
    "run.ai/*/InferenceWorkload",
    "run.ai/*/InteractiveWorkload",
    "run.ai/*/TrainingWorkload",
    "trainer.kubeflow.org/v1alpha1/TrainJob",
)


class GrouperTable:
    """The groupers in force."""

    def __init__(self, groupers: Mapping[str, Grouper] = GROUPERS) -> None:
        self._groupers: dict[GroupVersionKind, Grouper] = {}
        wrapper = below_top(self._groupers, default)
        self._groupers |= {_kind(text): wrapper for text in WRAPPERS}
        self._groupers |= {_kind(text): grouper for text, grouper in groupers.items()}

    def find(self, gvk: GroupVersionKind, options: Options) -> Grouper:
        """The grouper of exactly this kind, else of any version of it, else what Kartas say, else the default."""
        own = self._groupers.get(gvk) or self._groupers.get(gvk._replace(version="*"))
        return own or (by_karta if options.karta_fallback else default)


def load_table(found: Iterable[EntryPoint] | None = None) -> GrouperTable:
    """Our groupers and, before them, those that other packages registered; one that can't be loaded is left out."""
    groupers = dict(GROUPERS)
    for entry in entry_points(group=ENTRY_POINTS) if found is None else found:
        try:
            _kind(entry.name)
            groupers[entry.name] = entry.load()
        except (ImportError, AttributeError, ValueError) as error:
            _log.warning(
                "grouper can't be loaded", extra={"kind": entry.name, "from": entry.value, "error": str(error)}
            )
    return GrouperTable(groupers)


def _kind(text: str) -> GroupVersionKind:
    api_version, _, kind = text.rpartition("/")
    if not api_version or not kind:
        raise ValueError(f'"{text}" names no kind; expected group/version/Kind, or version/Kind for the core group')
    return GroupVersionKind.of(api_version, kind)
