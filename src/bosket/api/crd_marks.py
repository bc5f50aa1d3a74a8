"""Annotations of Struct fields for the CRD schema, beyond Python types.

Structs of custom resources annotate fields with these (`minMember: Count | None = None`) and state rules, columns and
the scale subresource as class variables. Constraints bind the API server, not the decoder: a cluster whose CRDs were
installed by KAI or Grove may hold objects that ours would refuse, and they must still be readable. That is why
constraints travel in `extra_json_schema`, which msgspec doesn't enforce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule on the value it is attached to, and the sentence that a violation is answered with."""

    rule: str
    message: str
    field_path: str = ""
    #: what kind of mistake it is; Kubernetes calls it FieldValueInvalid if nothing is said
    reason: str = ""
    #: run a rule that speaks of `oldSelf` also on creation; `oldSelf` is then an optional
    optional_old_self: bool = False

    @property
    def validation(self) -> dict[str, Any]:
        """The rule as it stands in a manifest."""
        validation: dict[str, Any] = {"rule": self.rule, "message": self.message}
        if self.field_path:
            validation["fieldPath"] = self.field_path
        if self.reason:
            validation["reason"] = self.reason
        if self.optional_old_self:
            validation["optionalOldSelf"] = True
        return validation


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; a priority above 0 shows only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def schema(
    *,
    list_type: str = "",
    list_map_keys: tuple[str, ...] = (),
    map_type: str = "",
    rules: tuple[Rule, ...] = (),
    **keywords: Any,
) -> msgspec.Meta:
    """Schema keywords of one field, by their OpenAPI names (`minimum=0`), Kubernetes' extensions by ours."""
    extra: dict[str, Any] = dict(keywords)
    if list_map_keys:
        list_type = "map"
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    if list_type:
        extra["x-kubernetes-list-type"] = list_type
    if map_type:
        extra["x-kubernetes-map-type"] = map_type
    if rules:
        extra["x-kubernetes-validations"] = [rule.validation for rule in rules]
    return msgspec.Meta(extra_json_schema=extra)


#: Go's own grammar of durations; ISO 8601, which JSON schema means by `format: duration`, is another.
_GO_DURATION = r"(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
QUALIFIED_NAME_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)

Int32 = Annotated[int, schema(format="int32")]
Int64 = Annotated[int, schema(format="int64")]
#: a number in a status that is 0 rather than absent, so that `kubectl get` shows it
Counter = Annotated[int, schema(format="int32", default=0)]
Count = Annotated[int, schema(format="int32", minimum=0)]
Timestamp = Annotated[str, schema(format="date-time")]
Duration = Annotated[str, schema(pattern=r"^[-+]?" + _GO_DURATION)]
NonNegativeDuration = Annotated[str, schema(pattern=r"^\+?" + _GO_DURATION)]
DnsLabel = Annotated[str, schema(minLength=1, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
