"""All kinds that have a Struct, and the ways to find one: by Struct, by apiVersion and kind, by URL path.

The client resolves kinds here. The embedded API server serves what `TABLE` lists, KAI's and Grove's kinds as
CustomResourceDefinitions. Short names, categories and subresources are those of kube-apiserver.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar, cast

from bosket.api import (
    admission,
    apiextensions,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    coordination,
    core,
    discovery_k8s,
    events,
    grove,
    kai,
    koordinator,
    networking_k8s,
    node_k8s,
    node_topology,
    policy,
    rbac,
    resource_k8s,
    scheduling_k8s,
    storage,
    volcano,
)
from bosket.api.resource import AnyResource, Resource
from bosket.api.scheduling_k8s import v1alpha1, v1alpha2, v1alpha3, v1beta1

T = TypeVar("T")
_Group = partial[Resource[Any]]

_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
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

_core: _Group = partial(Resource, "", "v1")
_CORE: tuple[AnyResource, ...] = (
    _core("Pod", "pods", core.Pod, short_names=("po",), categories=_ALL, subresources=_POD),
    _core("Node", "nodes", core.Node, namespaced=False, short_names=("no",), subresources=("status", "proxy")),
    _core(
        "Namespace",
        "namespaces",
        core.Namespace,
        namespaced=False,
        short_names=("ns",),
        subresources=("status", "finalize"),
    ),
    _core("ConfigMap", "configmaps", core.ConfigMap, short_names=("cm",)),
    _core("Secret", "secrets", core.Secret),
    _core("Service", "services", core.Service, short_names=("svc",), categories=_ALL, subresources=("status", "proxy")),
    _core("ServiceAccount", "serviceaccounts", core.ServiceAccount, short_names=("sa",), subresources=("token",)),
    _core("Endpoints", "endpoints", core.Endpoints, short_names=("ep",)),
    _core("Event", "events", core.Event, short_names=("ev",)),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        core.PersistentVolume,
        namespaced=False,
        short_names=("pv",),
        subresources=_STATUS,
    ),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        core.PersistentVolumeClaim,
        short_names=("pvc",),
        subresources=_STATUS,
    ),
    _core("PodTemplate", "podtemplates", core.PodTemplate),
    _core(
        "ReplicationController",
        "replicationcontrollers",
        core.ReplicationController,
        short_names=("rc",),
        categories=_ALL,
        subresources=_SCALABLE,
    ),
    _core("ResourceQuota", "resourcequotas", core.ResourceQuota, short_names=("quota",), subresources=_STATUS),
    _core("LimitRange", "limitranges", core.LimitRange, short_names=("limits",)),
)

_apps: _Group = partial(Resource, "apps", "v1", categories=_ALL)
_batch: _Group = partial(Resource, "batch", "v1", categories=_ALL, subresources=_STATUS)
_WORKLOADS: tuple[AnyResource, ...] = (
    _apps("Deployment", "deployments", apps.Deployment, short_names=("deploy",), subresources=_SCALABLE),
    _apps("ReplicaSet", "replicasets", apps.ReplicaSet, short_names=("rs",), subresources=_SCALABLE),
    _apps("StatefulSet", "statefulsets", apps.StatefulSet, short_names=("sts",), subresources=_SCALABLE),
    _apps("DaemonSet", "daemonsets", apps.DaemonSet, short_names=("ds",), subresources=_STATUS),
    _apps("ControllerRevision", "controllerrevisions", apps.ControllerRevision, categories=()),
    _batch("Job", "jobs", batch.Job),
    _batch("CronJob", "cronjobs", batch.CronJob, short_names=("cj",)),
    Resource(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        autoscaling.HorizontalPodAutoscaler,
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
    ),
    Resource(
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        networking_k8s.Ingress,
        short_names=("ing",),
        subresources=_STATUS,
    ),
    Resource(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        policy.PodDisruptionBudget,
        short_names=("pdb",),
        subresources=_STATUS,
    ),
)

_SCHEDULING_GROUP = "scheduling.k8s.io"
_v1beta1: _Group = partial(Resource, _SCHEDULING_GROUP, "v1beta1")
_SCHEDULING: tuple[AnyResource, ...] = (
    Resource(
        _SCHEDULING_GROUP,
        "v1",
        "PriorityClass",
        "priorityclasses",
        scheduling_k8s.PriorityClass,
        namespaced=False,
        short_names=("pc",),
    ),
    _v1beta1("Workload", "workloads", v1beta1.Workload),
    _v1beta1("PodGroup", "podgroups", v1beta1.PodGroup, subresources=_STATUS),
    Resource(
        _SCHEDULING_GROUP,
        "v1alpha3",
        "CompositePodGroup",
        "compositepodgroups",
        v1alpha3.CompositePodGroup,
        subresources=_STATUS,
    ),
)

_storage: _Group = partial(Resource, "storage.k8s.io", "v1", namespaced=False)
_STORAGE: tuple[AnyResource, ...] = (
    _storage("StorageClass", "storageclasses", storage.StorageClass, short_names=("sc",)),
    _storage("VolumeAttachment", "volumeattachments", storage.VolumeAttachment, subresources=_STATUS),
    _storage("VolumeAttributesClass", "volumeattributesclasses", storage.VolumeAttributesClass, short_names=("vac",)),
    _storage("CSIDriver", "csidrivers", storage.CSIDriver),
    _storage("CSINode", "csinodes", storage.CSINode, subresources=_STATUS),
    _storage("CSIStorageCapacity", "csistoragecapacities", storage.CSIStorageCapacity, namespaced=True),
)

_dra: _Group = partial(Resource, "resource.k8s.io", "v1")
_DEVICES: tuple[AnyResource, ...] = (
    _dra("ResourceSlice", "resourceslices", resource_k8s.ResourceSlice, namespaced=False),
    _dra("DeviceClass", "deviceclasses", resource_k8s.DeviceClass, namespaced=False),
    _dra("ResourceClaim", "resourceclaims", resource_k8s.ResourceClaim, subresources=_STATUS),
    _dra("ResourceClaimTemplate", "resourceclaimtemplates", resource_k8s.ResourceClaimTemplate),
    _dra(
        "DeviceTaintRule",
        "devicetaintrules",
        resource_k8s.DeviceTaintRule,
        namespaced=False,
        subresources=_STATUS,
    ),
)

_rbac: _Group = partial(Resource, "rbac.authorization.k8s.io", "v1")
_webhooks: _Group = partial(Resource, "admissionregistration.k8s.io", "v1", namespaced=False, categories=_EXTENSIONS)
_ADMINISTRATION: tuple[AnyResource, ...] = (
    _rbac("Role", "roles", rbac.Role),
    _rbac("RoleBinding", "rolebindings", rbac.RoleBinding),
    _rbac("ClusterRole", "clusterroles", rbac.ClusterRole, namespaced=False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", rbac.ClusterRoleBinding, namespaced=False),
    _webhooks(
        "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", admission.ValidatingWebhookConfiguration
    ),
    _webhooks("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", admission.MutatingWebhookConfiguration),
    _webhooks(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        admission.ValidatingAdmissionPolicy,
        subresources=_STATUS,
    ),
    _webhooks(
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        admission.ValidatingAdmissionPolicyBinding,
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        apiextensions.CustomResourceDefinition,
        namespaced=False,
        short_names=("crd", "crds"),
        categories=_EXTENSIONS,
        subresources=_STATUS,
    ),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", coordination.Lease),
    Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", discovery_k8s.EndpointSlice),
    Resource("events.k8s.io", "v1", "Event", "events", events.Event, short_names=("ev",)),
    Resource("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", node_k8s.RuntimeClass, namespaced=False),
)

#: What an API server of today stores.
TABLE: tuple[AnyResource, ...] = (
    *_CORE,
    *_WORKLOADS,
    *_SCHEDULING,
    *_STORAGE,
    *_DEVICES,
    *_ADMINISTRATION,
    *kai.RESOURCES,
    *grove.RESOURCES,
)

_authentication: _Group = partial(Resource, "authentication.k8s.io", "v1", namespaced=False)
_authorization: _Group = partial(Resource, "authorization.k8s.io", "v1", namespaced=False)
#: Kinds that are posted and answered, but never stored.
REQUESTS: tuple[AnyResource, ...] = (
    _core("Binding", "bindings", core.Binding),
    _authentication("TokenReview", "tokenreviews", authentication.TokenReview),
    _authentication("SelfSubjectReview", "selfsubjectreviews", authentication.SelfSubjectReview),
    _authorization("SubjectAccessReview", "subjectaccessreviews", authorization.SubjectAccessReview),
    _authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", authorization.SelfSubjectAccessReview),
    _authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews", authorization.SelfSubjectRulesReview),
    _authorization(
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        authorization.LocalSubjectAccessReview,
        namespaced=True,
    ),
)

_v1alpha1: _Group = partial(Resource, _SCHEDULING_GROUP, "v1alpha1")
_v1alpha2: _Group = partial(Resource, _SCHEDULING_GROUP, "v1alpha2")
_v1alpha3: _Group = partial(Resource, _SCHEDULING_GROUP, "v1alpha3")
#: Versions that only former releases of Kubernetes serve, in shapes of their own; clients of such clusters need them.
FORMER: tuple[AnyResource, ...] = (
    _v1alpha1("Workload", "workloads", v1alpha1.Workload),
    _v1alpha2("Workload", "workloads", v1alpha2.Workload),
    _v1alpha2("PodGroup", "podgroups", v1alpha2.PodGroup, subresources=_STATUS),
    # Where v1beta1 is switched off.
    _v1alpha3("Workload", "workloads", v1alpha3.Workload),
    _v1alpha3("PodGroup", "podgroups", v1alpha3.PodGroup, subresources=_STATUS),
)

#: Custom kinds of other projects; who installs them has their definitions.
FOREIGN: tuple[AnyResource, ...] = (*node_topology.RESOURCES, *volcano.RESOURCES, *koordinator.RESOURCES)

_KNOWN = (*TABLE, *REQUESTS, *FORMER, *FOREIGN)
_BY_STRUCT: dict[type, AnyResource] = {resource.struct: resource for resource in _KNOWN}
_BY_KIND: dict[tuple[str, str], AnyResource] = {(resource.api_version, resource.kind): resource for resource in _KNOWN}
_BY_PATH: dict[tuple[str, str, str], AnyResource] = {
    (resource.group, resource.version, resource.plural): resource for resource in _KNOWN
}


def resource_of(struct: type[T]) -> Resource[T]:
    """The kind whose objects are `struct`s, whole or lean."""
    try:
        return cast(Resource[T], _BY_STRUCT[struct])
    except KeyError:
        for base in struct.__mro__:
            if base in _BY_STRUCT:
                return cast(Resource[T], _BY_STRUCT[base])
        raise LookupError(f"{struct.__module__}.{struct.__qualname__} is no kind's Struct") from None


def resource_for(api_version: str, kind: str) -> AnyResource | None:
    """The kind that a manifest names."""
    return _BY_KIND.get((api_version, kind))


def resource_at(group: str, version: str, plural: str) -> AnyResource | None:
    """The kind that a URL path names."""
    return _BY_PATH.get((group, version, plural))
