"""The objects that parameterise a policy where it is bound."""

from __future__ import annotations

from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.matching import selector_of
from bosket.apiserver.admission.policy.policy import Binding, Policy
from bosket.apiserver.objects.kind import Kind, Registry
from bosket.apiserver.store.entry import Doc, Entry

_NONE_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class Misconfigured(Exception):
    """A policy or a binding can't be used as it is; says why."""


def find_params(
    policy: Policy, binding: Binding, attributes: AdmissionAttributes, registry: Registry
) -> list[Doc | None]:
    """The parameters, each of which the policy is asked with; [None] where it has none."""
    wanted, reference = policy.param_kind, binding.param_ref
    if wanted is None or reference is None:
        return [None]
    group, _, version = wanted["apiVersion"].rpartition("/")
    kind = registry.of(group, wanted["kind"])
    served = None if kind is None else kind.versions.get(version)
    if kind is None or served is None:
        raise Misconfigured(f"paramKind kind `{wanted['apiVersion']}, Kind={wanted['kind']}` not known")
    found = [entry.decode() for entry in _entries(kind, reference, attributes)]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured(_NONE_FOUND)
    return [served.from_storage(each) if served.from_storage is not None else each for each in found]


def _entries(kind: Kind, reference: Doc, attributes: AdmissionAttributes) -> list[Entry]:
    namespace = reference.get("namespace") or ""
    if not kind.namespaced:
        if namespace:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        namespace = namespace or attributes.scope_namespace
        if not namespace:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    if name := reference.get("name"):
        entry = kind.objects.get(namespace, name)
        return [] if entry is None else [entry]
    selector = selector_of(reference.get("selector"))
    return [entry for entry in kind.objects.entries(namespace) if selector.matches(entry.labels)]
