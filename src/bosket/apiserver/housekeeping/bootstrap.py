"""What a cluster has from the start: its own namespaces, priority classes, the service `kubernetes`, default roles."""

from __future__ import annotations

from copy import deepcopy

from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.rbac.defaults import install_default_roles
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Writer, own_write

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
#: Under this name and address pods look for the server, as in any cluster.
_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}


async def bootstrap(store: Store, registry: Registry, writer: Writer) -> None:
    """Create what isn't there yet."""
    wanted: list[tuple[str, str, Doc]] = [
        ("", "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) for name in NAMESPACES
    ]
    for name, (value, description) in _PRIORITY_CLASSES.items():
        priority_class = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        wanted.append(("scheduling.k8s.io", "priorityclasses", priority_class))
    wanted.append(("", "services", _SERVICE))
    for group, plural, doc in wanted:
        kind = registry.at(group, plural)
        namespace = doc["metadata"].get("namespace", "")
        if kind is not None and kind.objects.get(namespace, doc["metadata"]["name"]) is None:
            await writer.create(own_write(kind, namespace, "kube-apiserver"), deepcopy(doc))
    install_default_roles(store, writer.now())
