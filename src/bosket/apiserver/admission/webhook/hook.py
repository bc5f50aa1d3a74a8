"""A webhook of a configuration, compiled."""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass, field

from bosket.api.cel import Expression
from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.match_condition import Condition, ConditionFailed, all_true, compiled_conditions
from bosket.apiserver.admission.matching import Rule, Selection, compiled_rules, matched_version
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.status import forbidden
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.apiserver.store.store import Store

_DEFAULT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook says that it is: a URL, or a service with a path."""

    url: str
    service: Doc | None
    ca_pem: str

    @classmethod
    def of(cls, client_config: Doc) -> Target:
        try:
            ca_pem = base64.b64decode(client_config.get("caBundle") or "").decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            ca_pem = "not a certificate"  # then no server is believed
        return cls(client_config.get("url") or "", client_config.get("service"), ca_pem)

    def tls(self) -> ssl.SSLContext:
        """Believes the given authorities, or those that the machine believes if none are given."""
        return ssl.create_default_context(cadata=self.ca_pem or None)


@dataclass(slots=True)
class Hook:
    """One webhook. Hooks with one `identity` are the same webhook."""

    identity: tuple[str, str, int]
    name: str
    target: Target
    rules: tuple[Rule, ...]
    selection: Selection
    conditions: tuple[Condition, ...]
    equivalent: bool
    #: a webhook that doesn't answer is as good as one that agrees
    ignores_failure: bool
    timeout_seconds: int
    side_effects: str
    review_versions: tuple[str, ...]
    #: wants to be asked again when others changed the object after it
    reinvocable: bool
    _tls: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def compile(cls, configuration: str, index: int, raw: Doc) -> Hook:
        return cls(
            identity=(configuration, raw["name"], index),
            name=raw["name"],
            target=Target.of(raw.get("clientConfig") or {}),
            rules=compiled_rules(raw.get("rules")),
            selection=Selection.compile(raw),
            conditions=compiled_conditions(raw.get("matchConditions")),
            equivalent=raw.get("matchPolicy") != "Exact",
            ignores_failure=raw.get("failurePolicy") == "Ignore",
            timeout_seconds=raw.get("timeoutSeconds") or _DEFAULT_SECONDS,
            side_effects=raw.get("sideEffects") or "",
            review_versions=tuple(raw.get("admissionReviewVersions") or ()),
            reinvocable=raw.get("reinvocationPolicy") == "IfNeeded",
        )

    @property
    def tls(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = self.target.tls()
        return self._tls

    def concerned_version(self, attributes: AdmissionAttributes, namespaces: ResourceStore) -> Version | None:
        """The version in which it is to be asked about an attempt; None if it isn't."""
        version = matched_version(self.rules, attributes, equivalent=self.equivalent)
        if version is None or not self.selection.matches(attributes, namespaces):
            return None
        if self.conditions and not self._conditions_hold(attributes, version):
            return None
        return version

    def _conditions_hold(self, attributes: AdmissionAttributes, version: Version) -> bool:
        request = attributes.request(version)
        variables = {"object": request.pop("object"), "oldObject": request.pop("oldObject"), "request": request}

        def evaluate(expression: Expression) -> object:
            return expression.evaluate(variables)

        try:
            return all_true(self.conditions, evaluate)
        except ConditionFailed as failure:
            if self.ignores_failure:
                return False
            raise forbidden(
                attributes.kind.group, attributes.kind.plural, attributes.shown_name, str(failure)
            ) from None


_GROUP = "admissionregistration.k8s.io"


class HookTable:
    """Kept in step with the configurations; made anew when it is needed after one of them changed."""

    def __init__(self, store: Store, plural: str) -> None:
        self._objects = store.resource(_GROUP, plural, namespaced=False)
        self._objects.listen(self._on_event)
        self._hooks: tuple[Hook, ...] | None = None

    def _on_event(self, _event: Event) -> None:
        self._hooks = None

    @property
    def hooks(self) -> tuple[Hook, ...]:
        hooks = self._hooks
        if hooks is None:
            entries = sorted(self._objects.entries(), key=lambda entry: entry.name)
            hooks = self._hooks = tuple(
                Hook.compile(entry.name, index, raw)
                for entry in entries
                for index, raw in enumerate(entry.decode().get("webhooks") or ())
            )
        return hooks
