"""A cluster in which Bosket is installed and everything is in order, as a list of objects; and ways to break it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from bosket.api import keys
from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import Deployment
from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import Endpoints, Namespace, Pod, Service, ServiceAccount
from bosket.api.crd import crd_manifests
from bosket.api.kai import (
    CONFIG_NAME,
    Config,
    ConfigSpec,
    Queue,
    SchedulingShard,
)
from bosket.api.object import Condition, KubeObject, ObjectMeta
from bosket.api.time import format_micro_time, format_time
from bosket.runtime.certificates import Authority, KeyPair, make_authority
from bosket.runtime.webhook.registration import Reach
from bosket.services.admission.options import Options
from bosket.services.admission.registration import configurations
from bosket.testing.build import gang, node, pod_group, priority_class, queue, topology, within
from bosket.tools.doctor.bundle import Bundle, bundle_of
from bosket.tools.doctor.collect import KINDS
from bosket.tools.doctor.diagnose import diagnose
from bosket.tools.doctor.finding import Finding

K = TypeVar("K", bound=KubeObject)

#: Certificates are made for the time that it really is.
NOW: Final = time.time()
SYSTEM: Final = keys.SYSTEM_NAMESPACE
SERVICES: Final = ("admission", "binder", "pod-grouper", "podgroup-controller", "queue-controller")
LEASES: Final = ("binder", "podgrouper", "podgroup-controller", "queue-controller", "scheduler")
_CONDITIONS: Final = ("Deployed", "Available", "DependenciesFulfilled", "Ready")


@cache
def authority() -> Authority:
    return make_authority("test")


@cache
def serving() -> KeyPair:
    return authority().issue("admission", server=True, dns=(f"admission.{SYSTEM}.svc",))


def conditions(**false: str) -> tuple[Condition, ...]:
    """All true, but for those that are given a message."""
    return tuple(
        Condition(
            type=kind,
            status="False" if kind in false else "True",
            lastTransitionTime=format_time(NOW),
            reason="test",
            message=false.get(kind, ""),
        )
        for kind in _CONDITIONS
    )


@cache
def definitions() -> tuple[CustomResourceDefinition, ...]:
    """As a server shows them."""
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return tuple(
        msgspec.convert(
            {"metadata": manifest["metadata"], "spec": manifest["spec"], "status": established},
            CustomResourceDefinition,
        )
        for manifest in crd_manifests()
    )


def deployment(name: str, *, image: str = "example.com/bosket:1.0", replicas: int = 2) -> Deployment:
    labels = {"app": name}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": SYSTEM, "labels": labels},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": image, "args": ["bosket", "run", name]}]},
                },
            },
            "status": {"replicas": replicas, "availableReplicas": replicas},
        },
        Deployment,
    )


def lease(name: str, now: float = NOW) -> Lease:
    spec = LeaseSpec(holderIdentity=f"{name}-0", leaseDurationSeconds=15, renewTime=format_micro_time(now - 3))
    return Lease(metadata=ObjectMeta(name=name, namespace=SYSTEM), spec=spec)


def webhooks(trusted: bytes | None = None) -> list[MutatingWebhookConfiguration | ValidatingWebhookConfiguration]:
    return configurations(Options(), Reach(SYSTEM, "admission"), authority().cert_pem if trusted is None else trusted)


def installed(now: float = NOW) -> list[KubeObject]:
    """Four nodes in two racks, three queues, a job that runs and one that waits; every service twice."""
    service = {"metadata": {"name": "admission", "namespace": SYSTEM}, "spec": {"ports": [{"port": 443}]}}
    endpoints = {
        "metadata": {"name": "admission", "namespace": SYSTEM},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 9443}]}],
    }
    accounts = [(name, SYSTEM) for name in SERVICES] + [(keys.RESERVATION_SERVICE_ACCOUNT, keys.RESERVATION_NAMESPACE)]
    return [
        *definitions(),
        Config(metadata=ObjectMeta(name=CONFIG_NAME), spec=ConfigSpec(), status=_status(Config)),
        SchedulingShard(metadata=ObjectMeta(name="default"), status=_status(SchedulingShard)),
        *(deployment(name) for name in (*SERVICES, "kai-scheduler-default")),
        *(lease(name, now) for name in LEASES),
        *webhooks(),
        msgspec.convert(service, Service),
        msgspec.convert(endpoints, Endpoints),
        *(ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace)) for name, namespace in accounts),
        *(Namespace(metadata=ObjectMeta(name=name)) for name in ("default", SYSTEM, keys.RESERVATION_NAMESPACE)),
        *(node(f"n{number}", rack=f"r{number % 2}", gpu_memory=81559) for number in range(4)),
        topology("racks", "rack", "kubernetes.io/hostname"),
        *(priority_class(name, value) for name, value in keys.PRIORITY_CLASSES.items()),
        queue("default-parent-queue", quota=16),
        queue("default-queue", parent="default-parent-queue", quota=0),
        queue("team", parent="default-parent-queue", quota=8, limit=24),
        pod_group("runs", min_member=2, queue="team", topology=within("racks", required="rack")),
        *gang("runs", 2, gpus=4, on="n0"),
        pod_group("waits", min_member=2, queue="team", priority="train"),
        *gang("waits", 2, gpus=8),
    ]


def _status(kind: type[Any]) -> Any:
    return msgspec.convert({"conditions": msgspec.to_builtins(conditions())}, type(kind().status))


def bundle(objects: Iterable[KubeObject], now: float = NOW, **fields: Any) -> Bundle:
    """Everything was read, and everything is known."""
    given: dict[str, Any] = {
        "now": now,
        "server_version": "v1.37.1",
        "refused": (),
        "certificates": {(SYSTEM, "kai-admission-webhook-tls-secret"): serving().cert_pem},
    }
    return bundle_of([_told(obj, now) for obj in objects], KINDS, **{**given, **fields})


def _told(obj: KubeObject, now: float) -> KubeObject:
    """Pods and groups are an hour old; the scheduler has told pods that wait so."""
    if not isinstance(obj, Pod) or obj.status.conditions or obj.spec.nodeName or obj.spec.schedulingGates:
        return obj
    if obj.spec.schedulerName != keys.SCHEDULER_NAME:
        return obj
    return _set(obj, "status.conditions", [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}])


def findings(objects: Iterable[KubeObject], now: float = NOW, **fields: Any) -> list[Finding]:
    return list(diagnose(bundle(objects, now, **fields)).findings)


# ── ways to break it ──


def without(objects: Iterable[KubeObject], kind: type[KubeObject], *names: str) -> list[KubeObject]:
    """Those that are left without the ones of this kind, or of these names of it."""
    return [obj for obj in objects if not (type(obj) is kind and (not names or obj.metadata.name in names))]


def edited(objects: Iterable[KubeObject], kind: type[KubeObject], name: str, path: str, value: Any) -> list[KubeObject]:
    """With one field of one object set, as kubectl would; `path` may go through lists by number. None removes it."""
    listed = list(objects)
    assert any(type(obj) is kind and obj.metadata.name == name for obj in listed), f"there is no {kind.__name__} {name}"
    return [_set(obj, path, value) if type(obj) is kind and obj.metadata.name == name else obj for obj in listed]


def labelled(objects: Iterable[KubeObject], kind: type[KubeObject], name: str, **labels: str) -> list[KubeObject]:
    """With labels beside those that it has; `node_pool` is the node pool's."""
    named = {keys.NODE_POOL_LABEL if key == "node_pool" else key: value for key, value in labels.items()}
    found = next(obj for obj in objects if type(obj) is kind and obj.metadata.name == name)
    return edited(objects, kind, name, "metadata.labels", {**found.metadata.labels, **named})


def _set(obj: K, path: str, value: Any) -> K:
    document = msgspec.to_builtins(obj)
    at = document
    *above, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in above:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return msgspec.convert(document, type(obj))


def queue_with(name: str, **fields: Any) -> Queue:
    """A queue below the default parent."""
    return queue(name, **{"parent": "default-parent-queue", "quota": 0, **fields})
