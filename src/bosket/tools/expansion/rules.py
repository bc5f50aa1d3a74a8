"""Which kind follows which rule, by group and kind: all versions alike, where a rule doesn't ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bosket.services.podgrouper.table import GROUPERS, WRAPPERS
from bosket.tools.expansion.builtin import (
    cron_job,
    deployment,
    job,
    job_set,
    notebook,
    replica_set,
    stateful_set,
    train_job,
)
from bosket.tools.expansion.item import Rule
from bosket.tools.expansion.kubeflow import mpi_job, training_job
from bosket.tools.expansion.other import dev_workspace, spark_application, virtual_machine_instance
from bosket.tools.expansion.ray import ray_cluster, ray_job, ray_service
from bosket.tools.expansion.serving import (
    dynamo_graph_deployment,
    knative_configuration,
    knative_revision,
    knative_service,
    leader_worker_set,
    seldon_deployment,
)
from bosket.tools.expansion.workflow import argo_workflow, pipeline_run, runai_job, scheduled_workflow, task_run

#: By (group, kind).
RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "ReplicationController"): replica_set,
    ("apps", "Deployment"): deployment,
    ("apps", "ReplicaSet"): replica_set,
    ("apps", "StatefulSet"): stateful_set,
    ("argoproj.io", "Workflow"): argo_workflow,
    ("batch", "CronJob"): cron_job,
    ("batch", "Job"): job,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("kubeflow.org", "JAXJob"): training_job("jaxReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): mpi_job,
    ("kubeflow.org", "Notebook"): notebook,
    ("kubeflow.org", "PaddleJob"): training_job("paddleReplicaSpecs"),
    ("kubeflow.org", "PyTorchJob"): training_job("pytorchReplicaSpecs"),
    ("kubeflow.org", "ScheduledWorkflow"): scheduled_workflow,
    ("kubeflow.org", "TFJob"): training_job("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): training_job("xgbReplicaSpecs"),
    ("kubevirt.io", "VirtualMachineInstance"): virtual_machine_instance,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
    ("machinelearning.seldon.io", "SeldonDeployment"): seldon_deployment,
    ("nvidia.com", "DynamoGraphDeployment"): dynamo_graph_deployment,
    ("ray.io", "RayCluster"): ray_cluster,
    ("ray.io", "RayJob"): ray_job,
    ("ray.io", "RayService"): ray_service,
    ("run.ai", "RunaiJob"): runai_job,
    ("serving.knative.dev", "Configuration"): knative_configuration,
    ("serving.knative.dev", "Revision"): knative_revision,
    ("serving.knative.dev", "Service"): knative_service,
    ("sparkoperator.k8s.io", "SparkApplication"): spark_application,
    ("tekton.dev", "PipelineRun"): pipeline_run,
    ("tekton.dev", "TaskRun"): task_run,
    ("trainer.kubeflow.org", "TrainJob"): train_job,
    ("workspace.devfile.io", "DevWorkspace"): dev_workspace,
}
POD_CLIQUE_SET: Final = ("grove.io", "PodCliqueSet")

#: Kinds that the pod grouper knows, by (group, kind).
GROUPED: Final = frozenset(
    (group, kind)
    for text in (*GROUPERS, *WRAPPERS)
    for group, kind in [(text.split("/")[0] if text.count("/") == 2 else "", text.rpartition("/")[2])]
)

#: Kinds without a Struct here that say something about others and have no pods of their own.
WITHOUT_PODS: Final = frozenset(
    {
        ("grove.io", "PodClique"),
        ("run.ai", "Karta"),
        ("scheduler.grove.io", "PodGang"),
        ("tekton.dev", "Pipeline"),
        ("tekton.dev", "Task"),
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org", "TrainingRuntime"),
    }
)
