"""The common controllers of Kubernetes, for embedded clusters without a kube-controller-manager.

Each module has one controller, or the pure decisions of one (`job_plan`, `deployment_scale`, `stateful_plan`).
Namespaces are emptied, orphans collected and disruption budgets counted by the API server itself
(`apiserver.housekeeping`), pods of lost nodes by `bosket.embedded.node_lifecycle`. Any of them can be left out, for one
that runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from bosket.api.keys import DEFAULT_SCHEDULER_NAME
from bosket.apiserver.server.api_server import CONTROLLER_NAMES
from bosket.embedded.controllers.cron_job import CronJobController
from bosket.embedded.controllers.daemon_set import DaemonSetController
from bosket.embedded.controllers.deployment import DeploymentController
from bosket.embedded.controllers.ephemeral_volume import EphemeralVolumeController
from bosket.embedded.controllers.job import JobController
from bosket.embedded.controllers.job_strays import StrayJobPods
from bosket.embedded.controllers.pod_collector import PodCollector
from bosket.embedded.controllers.replica_set import ReplicaSetController
from bosket.embedded.controllers.resource_claim import ResourceClaimController
from bosket.embedded.controllers.root_certificate import RootCertificatePublisher
from bosket.embedded.controllers.service_account import ServiceAccountController
from bosket.embedded.controllers.service_account_token import ServiceAccountTokenController
from bosket.embedded.controllers.simulated_storage import SimulatedStorage
from bosket.embedded.controllers.stateful_set import StatefulSetController
from bosket.embedded.controllers.volume import VolumeController
from bosket.embedded.controllers.volume_protection import VolumeProtection
from bosket.embedded.taint_eviction import TaintEviction
from bosket.runtime.service import Environment, Service

_Make = Callable[[Environment], Service]

#: What makes each, by the name that kube-controller-manager has for it, without "-controller" at the end.
_MAKERS: Final[Mapping[str, tuple[_Make, ...]]] = {
    "job": (JobController, StrayJobPods),
    "cronjob": (CronJobController,),
    "pod-garbage-collector": (PodCollector,),
    "replicaset": (ReplicaSetController,),
    "deployment": (DeploymentController,),
    "statefulset": (StatefulSetController,),
    "daemonset": (DaemonSetController,),
    "serviceaccount": (ServiceAccountController,),
    "serviceaccount-token": (ServiceAccountTokenController,),
    "root-ca-certificate-publisher": (RootCertificatePublisher,),
    "persistentvolume-binder": (VolumeController,),
    "volume-protection": (VolumeProtection,),
    "ephemeral-volume": (EphemeralVolumeController,),
    "simulated-storage": (SimulatedStorage,),
    "resourceclaim": (ResourceClaimController,),
    "taint-eviction": (TaintEviction,),
}
#: All that can be left out, the default scheduler and those of the API server too.
CONTROLLERS: Final = (*_MAKERS, DEFAULT_SCHEDULER_NAME, *CONTROLLER_NAMES)


class UnknownController(ValueError):
    """A name that is not in `CONTROLLERS`."""

    def __init__(self, name: str) -> None:
        super().__init__(f'there is no controller "{name}"; there are: {", ".join(CONTROLLERS)}')


def check_names(names: Collection[str]) -> None:
    """Raise unless each names a controller."""
    for name in names:
        if name not in CONTROLLERS:
            raise UnknownController(name)


def controllers(environment: Environment, *, without: Collection[str] = ()) -> list[Service]:
    """All of them but those named."""
    return [make(environment) for name, makers in _MAKERS.items() if name not in without for make in makers]
