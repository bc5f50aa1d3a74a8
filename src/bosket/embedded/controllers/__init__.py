"""The controllers of Kubernetes that people rely on, for the embedded cluster, where no kube-controller-manager runs.

Each module has one controller, or the pure decisions of one (`job_plan`, `deployment_scale`, `stateful_plan`).
Namespaces are emptied and orphans collected by the API server itself, pods of lost nodes by
`bosket.embedded.node_lifecycle`.
"""

from __future__ import annotations

from bosket.embedded.controllers.deployment import DeploymentController
from bosket.embedded.controllers.job import JobController
from bosket.embedded.controllers.job_strays import StrayJobPods
from bosket.embedded.controllers.pod_collector import PodCollector
from bosket.embedded.controllers.replica_set import ReplicaSetController
from bosket.embedded.controllers.service_account import ServiceAccountController
from bosket.embedded.controllers.stateful_set import StatefulSetController
from bosket.runtime.service import Environment, Service

__all__ = [
    "DeploymentController",
    "JobController",
    "PodCollector",
    "ReplicaSetController",
    "ServiceAccountController",
    "StatefulSetController",
    "StrayJobPods",
    "controllers",
]


def controllers(environment: Environment) -> list[Service]:
    """All of them."""
    return [
        JobController(environment),
        StrayJobPods(environment),
        PodCollector(environment),
        ReplicaSetController(environment),
        DeploymentController(environment),
        StatefulSetController(environment),
        ServiceAccountController(environment),
    ]
