"""A policy and its bindings, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bosket.api.cel import Expression
from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.match_condition import Condition, compiled_conditions
from bosket.apiserver.admission.matching import Rule, Selection, compiled_rules, matched_version
from bosket.apiserver.kinds.expression import used_variables
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import ResourceStore


@dataclass(frozen=True, slots=True)
class Match:
    """What a policy or a binding is about; with no rules, everything that the selectors select."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    selection: Selection
    equivalent: bool

    @classmethod
    def compile(cls, raw: Doc) -> Match:
        return cls(
            compiled_rules(raw.get("resourceRules")),
            compiled_rules(raw.get("excludeResourceRules")),
            Selection.compile(raw),
            raw.get("matchPolicy") != "Exact",
        )

    def version(self, attributes: AdmissionAttributes, namespaces: ResourceStore) -> Version | None:
        """The version in which it is about an attempt; None if it isn't."""
        version = (
            matched_version(self.rules, attributes, equivalent=self.equivalent) if self.rules else attributes.version
        )
        if version is None or not self.selection.matches(attributes, namespaces):
            return None
        excluded = matched_version(self.excluded, attributes, equivalent=self.equivalent) is not None
        return None if excluded else version


@dataclass(frozen=True, slots=True)
class Said:
    """An expression that uses variables, with the names of those it uses."""

    expression: Expression
    uses: tuple[str, ...]

    @classmethod
    def compile(cls, source: str) -> Said:
        return cls(Expression(source), used_variables(source))


@dataclass(frozen=True, slots=True)
class Demand:
    """An expression that must be true, and what is said if it isn't."""

    said: Said
    message: str
    message_expression: Said | None
    reason: str

    @classmethod
    def compile(cls, raw: Doc) -> Demand:
        message = raw.get("messageExpression")
        return cls(
            Said.compile(raw["expression"]),
            (raw.get("message") or "").strip() or f"failed expression: {raw['expression'].strip()}",
            Said.compile(message) if message else None,
            raw.get("reason") or "Invalid",
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a policy is in force, and what becomes of what breaks it."""

    name: str
    match: Match | None
    param_ref: Doc | None
    actions: tuple[str, ...]

    @classmethod
    def compile(cls, name: str, spec: Doc) -> Binding:
        match: Any = spec.get("matchResources")
        return cls(
            name,
            Match.compile(match) if match is not None else None,
            spec.get("paramRef"),
            tuple(spec.get("validationActions") or ()),
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy."""

    name: str
    match: Match
    conditions: tuple[Condition, ...]
    variables: dict[str, Said]
    demands: tuple[Demand, ...]
    param_kind: Doc | None
    #: what can't be evaluated doesn't count
    ignores_failure: bool
    bindings: tuple[Binding, ...]

    @classmethod
    def compile(cls, name: str, spec: Doc, bindings: tuple[Binding, ...]) -> Policy:
        return cls(
            name=name,
            match=Match.compile(spec.get("matchConstraints") or {}),
            conditions=compiled_conditions(spec.get("matchConditions")),
            variables={each["name"]: Said.compile(each["expression"]) for each in spec.get("variables") or ()},
            demands=tuple(Demand.compile(each) for each in spec.get("validations") or ()),
            param_kind=spec.get("paramKind"),
            ignores_failure=spec.get("failurePolicy") == "Ignore",
            bindings=bindings,
        )
