"""All kinds that have a Struct, and the ways to find one: by Struct, by apiVersion and kind, by URL path.

The client resolves kinds here; the embedded API server serves what is listed (KAI's and Grove's as
CustomResourceDefinitions). Short names, categories and subresources are those of kube-apiserver.
"""

from __future__ import annotations

from typing import TypeVar, cast

from bosket.api import apps, batch, coordination, core, kai, policy, scheduling_k8s
from bosket.api.resource import AnyResource, Resource

T = TypeVar("T")

_ALL = ("all",)
_STATUS = ("status",)
_SCALABLE = ("status", "scale")
_POD = (
    "status",
    "binding",
    "eviction",
    "ephemeralcontainers",
    "resize",
    "log",
    "exec",
    "attach",
    "portforward",
    "proxy",
)

_CORE: tuple[AnyResource, ...] = (
    Resource("", "v1", "Pod", "pods", core.Pod, True, ("po",), _ALL, _POD),
    Resource("", "v1", "Node", "nodes", core.Node, False, ("no",), (), ("status", "proxy")),
    Resource("", "v1", "Namespace", "namespaces", core.Namespace, False, ("ns",), (), ("status", "finalize")),
    Resource("", "v1", "ConfigMap", "configmaps", core.ConfigMap, True, ("cm",)),
    Resource("", "v1", "Secret", "secrets", core.Secret),
    Resource("", "v1", "Service", "services", core.Service, True, ("svc",), _ALL, ("status", "proxy")),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", core.ServiceAccount, True, ("sa",), (), ("token",)),
    Resource("", "v1", "Endpoints", "endpoints", core.Endpoints, True, ("ep",)),
    Resource("", "v1", "Event", "events", core.Event, True, ("ev",)),
    Resource("", "v1", "Binding", "bindings", core.Binding),
    Resource("", "v1", "PersistentVolume", "persistentvolumes", core.PersistentVolume, False, ("pv",), (), _STATUS),
    Resource(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        core.PersistentVolumeClaim,
        True,
        ("pvc",),
        (),
        _STATUS,
    ),
    Resource("", "v1", "PodTemplate", "podtemplates", core.PodTemplate),
    Resource(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        core.ReplicationController,
        True,
        ("rc",),
        _ALL,
        _SCALABLE,
    ),
    Resource("", "v1", "ResourceQuota", "resourcequotas", core.ResourceQuota, True, ("quota",), (), _STATUS),
    Resource("", "v1", "LimitRange", "limitranges", core.LimitRange, True, ("limits",)),
)

_APPS: tuple[AnyResource, ...] = (
    Resource("apps", "v1", "Deployment", "deployments", apps.Deployment, True, ("deploy",), _ALL, _SCALABLE),
    Resource("apps", "v1", "ReplicaSet", "replicasets", apps.ReplicaSet, True, ("rs",), _ALL, _SCALABLE),
    Resource("apps", "v1", "StatefulSet", "statefulsets", apps.StatefulSet, True, ("sts",), _ALL, _SCALABLE),
    Resource("apps", "v1", "DaemonSet", "daemonsets", apps.DaemonSet, True, ("ds",), _ALL, _STATUS),
    Resource("apps", "v1", "ControllerRevision", "controllerrevisions", apps.ControllerRevision),
)

_BATCH: tuple[AnyResource, ...] = (
    Resource("batch", "v1", "Job", "jobs", batch.Job, True, (), _ALL, _STATUS),
    Resource("batch", "v1", "CronJob", "cronjobs", batch.CronJob, True, ("cj",), _ALL, _STATUS),
)

_OTHERS: tuple[AnyResource, ...] = (
    Resource(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        policy.PodDisruptionBudget,
        True,
        ("pdb",),
        (),
        _STATUS,
    ),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", coordination.Lease),
    Resource(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", scheduling_k8s.PriorityClass, False, ("pc",)
    ),
)

TABLE: tuple[AnyResource, ...] = (*_CORE, *_APPS, *_BATCH, *_OTHERS, *kai.RESOURCES)

_BY_STRUCT: dict[type, AnyResource] = {resource.struct: resource for resource in TABLE}
_BY_KIND: dict[tuple[str, str], AnyResource] = {(resource.api_version, resource.kind): resource for resource in TABLE}
_BY_PATH: dict[tuple[str, str, str], AnyResource] = {
    (resource.group, resource.version, resource.plural): resource for resource in TABLE
}


def resource_of(struct: type[T]) -> Resource[T]:
    """The kind whose objects are `struct`s."""
    try:
        return cast(Resource[T], _BY_STRUCT[struct])
    except KeyError:
        raise LookupError(
            f"{struct.__module__}.{struct.__qualname__} is not the Struct of any kind in the table"
        ) from None


def resource_for(api_version: str, kind: str) -> AnyResource | None:
    """The kind that a manifest names."""
    return _BY_KIND.get((api_version, kind))


def resource_at(group: str, version: str, plural: str) -> AnyResource | None:
    """The kind that a URL path names."""
    return _BY_PATH.get((group, version, plural))
