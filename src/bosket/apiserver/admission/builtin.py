"""Built-in admission: checks and defaults that depend on other objects than the written one.

A namespace must exist and not be going away; a pod gets its priority, its service account, what its RuntimeClass says
and the usual tolerations.
"""

from __future__ import annotations

from typing import Any

from bosket.apiserver.admission.runtime_class import RefusedByRuntimeClass, apply_runtime_class
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.objects.metadata import shown_name
from bosket.apiserver.status import StatusError, forbidden, no_such_path, not_found
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Write

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300


class BuiltinAdmission:
    """The admission that every server has."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = store.resource("", "namespaces", namespaced=False)
        self._priority_classes = store.resource("scheduling.k8s.io", "priorityclasses", namespaced=False)
        self._accounts = store.resource("", "serviceaccounts")
        self._runtime_classes = store.resource("node.k8s.io", "runtimeclasses", namespaced=False)

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if old is None:
            self.check_creatable(write, new)
        if write.kind.kind == "Pod" and not write.kind.group:
            if old is None:
                self._complete_pod(new)
            elif not write.subresource:
                add_tolerations(new["spec"])
        elif write.kind.objects is self._priority_classes:
            self._check_single_default(new)

    def check_creatable(self, write: Write, new: Doc) -> None:
        """Raise unless there is, now, a place for a new object: its namespace and its kind, neither going away."""
        if write.namespace:
            self._check_namespace(write, new)
        kind = self._registry.at(write.kind.group, write.kind.plural)
        if kind is None or kind.objects is not write.kind.objects:
            raise no_such_path()
        if kind.terminating:
            detail = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind.group, kind.plural, shown_name(new), detail)

    def _check_namespace(self, write: Write, new: Doc) -> None:
        namespace = self._namespaces.get("", write.namespace)
        if namespace is None:
            raise not_found("", "namespaces", write.namespace)
        if namespace.deleting:
            raise forbidden(
                write.kind.group,
                write.kind.plural,
                shown_name(new),
                f"unable to create new content in namespace {write.namespace} because it is being terminated",
                causes=[
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {write.namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )

    def _complete_pod(self, pod: Doc) -> None:
        spec = pod["spec"]
        self._set_priority(pod, spec)
        self._set_account(pod, spec)
        try:
            apply_runtime_class(spec, self._runtime_classes)
        except RefusedByRuntimeClass as error:
            raise _pod_forbidden(pod, str(error)) from error
        add_tolerations(spec)

    def _set_priority(self, pod: Doc, spec: dict[str, Any]) -> None:
        name = spec.get("priorityClassName", "")
        value, policy = 0, "PreemptLowerPriority"
        if name:
            entry = self._priority_classes.get("", name)
            if entry is None:
                raise _pod_forbidden(pod, f"no PriorityClass with name {name} was found")
            found = entry.decode()
            value, policy = found["value"], found.get("preemptionPolicy", policy)
        else:
            default = self._default_class()
            if default is not None:
                spec["priorityClassName"] = default["metadata"]["name"]
                value, policy = default["value"], default.get("preemptionPolicy", policy)
        if spec.get("priority", value) != value:
            raise _pod_forbidden(
                pod,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        if spec.get("preemptionPolicy", policy) != policy:
            raise _pod_forbidden(
                pod,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _default_class(self) -> Doc | None:
        """The class of pods that name none; of several, the lowest."""
        marked = [
            entry.decode() for entry in self._priority_classes.entries() if entry.fields.get("globalDefault") == "true"
        ]
        return min(marked, key=lambda doc: doc["value"], default=None)

    def _check_single_default(self, new: Doc) -> None:
        default = self._default_class() if new.get("globalDefault") else None
        if default is not None and default["metadata"]["name"] != new["metadata"].get("name"):
            raise forbidden(
                "scheduling.k8s.io",
                "priorityclasses",
                shown_name(new),
                f"PriorityClass {default['metadata']['name']} is already marked as default. Only one default can exist",
            )

    def _set_account(self, pod: Doc, spec: dict[str, Any]) -> None:
        name = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = name
        namespace = pod["metadata"]["namespace"]
        # The namespace's own account is made by a controller; a pod need not wait for that.
        if name != "default" and self._accounts.get(namespace, name) is None:
            raise _pod_forbidden(
                pod, f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            )


def _pod_forbidden(pod: Doc, detail: str) -> StatusError:
    return forbidden("", "pods", shown_name(pod), detail)


def add_tolerations(spec: dict[str, Any]) -> None:
    """A pod stays five minutes on a node that is in trouble, unless it says otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(
            each.get("key", key) == key and each.get("effect", "NoExecute") == "NoExecute" for each in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )
