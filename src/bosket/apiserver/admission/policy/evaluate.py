"""Evaluates one policy on one write, with one set of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bosket.api.cel import CelError
from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.match_condition import ConditionFailed, all_true, evaluation_error
from bosket.apiserver.admission.policy.policy import Demand, Policy, Said
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.store.entry import Doc

_MAX_MESSAGE_LENGTH = 5 * 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that the policy doesn't allow."""

    message: str
    reason: str = "Invalid"
    #: refused whatever the binding says is to be done
    always: bool = False


def failures(
    policy: Policy, attributes: AdmissionAttributes, version: Version, params: Doc | None, namespace: Doc | None
) -> list[Failure]:
    """All that the policy doesn't allow; also what could not be evaluated, unless the policy ignores that."""
    scene = _Scene(policy, attributes, version, params, namespace)
    try:
        if not all_true(policy.conditions, lambda expression: expression.evaluate(scene.outside)):
            return []
    except ConditionFailed as failure:
        return [] if policy.ignores_failure else [Failure(str(failure))]
    found = []
    for demand in policy.demands:
        try:
            if scene.evaluate(demand.said) is True:
                continue
        except CelError as error:
            if not policy.ignores_failure:
                found.append(Failure(evaluation_error(demand.said.expression, error)))
            continue
        found.append(Failure(_message(demand, scene), demand.reason))
    return found


class _Scene:
    """What expressions see. Variables are evaluated when they are first used."""

    def __init__(
        self,
        policy: Policy,
        attributes: AdmissionAttributes,
        version: Version,
        params: Doc | None,
        namespace: Doc | None,
    ) -> None:
        request = attributes.request(version)
        self.outside: dict[str, Any] = {
            "object": request.pop("object"),
            "oldObject": request.pop("oldObject"),
            "request": request,
            "params": params,
            "namespaceObject": namespace,
        }
        self._policy = policy
        self._values: dict[str, Any] = {}

    def evaluate(self, said: Said) -> Any:
        if not said.uses:
            return said.expression.evaluate(self.outside)
        variables = {name: self._variable(name) for name in said.uses if name in self._policy.variables}
        return said.expression.evaluate({**self.outside, "variables": variables})

    def _variable(self, name: str) -> Any:
        if name not in self._values:
            try:
                self._values[name] = self.evaluate(self._policy.variables[name])
            except CelError as error:
                raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from None
        return self._values[name]


def _message(demand: Demand, scene: _Scene) -> str:
    if demand.message_expression is None:
        return demand.message
    try:
        said = scene.evaluate(demand.message_expression)
    except CelError:
        return demand.message
    text = said.strip() if isinstance(said, str) else ""
    return text if text and len(text) <= _MAX_MESSAGE_LENGTH and "\n" not in text else demand.message
