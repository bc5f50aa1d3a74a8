"""Which policies apply to a write, and their result: a refusal, a warning, or nothing.

Policies are compiled when one of them or of their bindings changes. A policy without a binding is not in force.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.policy.evaluate import Failure, failures
from bosket.apiserver.admission.policy.params import Misconfigured, find_params
from bosket.apiserver.admission.policy.policy import Binding, Policy
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.status import StatusError, qualified
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event
from bosket.apiserver.store.store import Store

_log = logging.getLogger(__name__)

_GROUP = "admissionregistration.k8s.io"
#: What the plurals of policies and their bindings begin with.
_POLICIES = ("validatingadmissionpolic", "mutatingadmissionpolic")
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class Policies:
    """Asks policies about attempts."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._registry = registry
        self._policies = store.resource(_GROUP, "validatingadmissionpolicies", namespaced=False)
        self._bindings = store.resource(_GROUP, "validatingadmissionpolicybindings", namespaced=False)
        self._namespaces = store.resource("", "namespaces", namespaced=False)
        self._compiled: tuple[Policy, ...] | None = None
        for resource_store in (self._policies, self._bindings):
            resource_store.listen(self._on_event)

    def _on_event(self, _event: Event) -> None:
        self._compiled = None

    @property
    def any(self) -> bool:
        """Whether there is a policy in force."""
        return bool(self._in_force())

    def _in_force(self) -> tuple[Policy, ...]:
        if self._compiled is None:
            bindings: dict[str, list[Binding]] = {}
            for entry in sorted(self._bindings.entries(), key=lambda entry: entry.name):
                spec = entry.decode()["spec"]
                bindings.setdefault(spec["policyName"], []).append(Binding.compile(entry.name, spec))
            self._compiled = tuple(
                Policy.compile(entry.name, entry.decode()["spec"], tuple(bindings[entry.name]))
                for entry in sorted(self._policies.entries(), key=lambda entry: entry.name)
                if entry.name in bindings
            )
        return self._compiled

    def check(self, attributes: AdmissionAttributes) -> None:
        """Raise what the first policy that refuses says; others may leave warnings."""
        if attributes.kind.group == _GROUP and attributes.kind.plural.startswith(_POLICIES):
            return  # a wrong policy must not deny its own correction; webhook configurations aren't spared
        refusals = [
            refusal
            for policy in self._in_force()
            for binding, failure in self._failures(policy, attributes)
            if (refusal := self._act(policy, binding, failure, attributes)) is not None
        ]
        if refusals:
            raise refusals[0]

    def _failures(self, policy: Policy, attributes: AdmissionAttributes) -> Iterator[tuple[Binding, Failure]]:
        version = policy.match.version(attributes, self._namespaces)
        if version is None:
            return
        for binding in policy.bindings:
            if binding.match is not None and binding.match.version(attributes, self._namespaces) is None:
                continue
            try:
                params = find_params(policy, binding, attributes, self._registry)
            except Misconfigured as problem:
                if not policy.ignores_failure:
                    yield binding, Failure(f"failed to configure binding: {problem}", always=True)
                continue
            namespace = self._namespace(attributes)
            for each in params:
                for failure in failures(policy, attributes, version, each, namespace):
                    yield binding, failure

    def _namespace(self, attributes: AdmissionAttributes) -> Doc | None:
        entry = self._namespaces.get("", attributes.namespace) if attributes.namespace else None
        return None if entry is None else entry.decode()

    def _act(
        self, policy: Policy, binding: Binding, failure: Failure, attributes: AdmissionAttributes
    ) -> StatusError | None:
        if "Warn" in binding.actions:
            attributes.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
                f"{failure.message}"
            )
        if "Audit" in binding.actions:
            names = {"policy": policy.name, "binding": binding.name, "object": attributes.shown_name}
            _log.info("a policy is broken", extra={**names, "why": failure.message})
        denied = failure.always or "Deny" in binding.actions
        return _denial(policy, binding, failure, attributes) if denied else None


def _denial(policy: Policy, binding: Binding, failure: Failure, attributes: AdmissionAttributes) -> StatusError:
    group, plural, name = attributes.kind.group, attributes.kind.plural, attributes.shown_name
    said = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request: {failure.message}"
    return StatusError(
        _CODES[failure.reason],
        failure.reason,
        f'{qualified(plural, group)} "{name}" is forbidden: {said}',
        group=group,
        kind=plural,
        name=name,
        causes=[{"message": said}],
    )
