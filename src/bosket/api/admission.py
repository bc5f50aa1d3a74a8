"""Admission: reviews (admission.k8s.io/v1), and the objects that say who is asked for them (admissionregistration)."""

from __future__ import annotations

from typing import Any

from bosket.api.authentication import UserInfo
from bosket.api.meta import GroupVersionKind, GroupVersionResource
from bosket.api.object import Condition, KubeObject, LabelSelector, Status, Wire


class AdmissionRequest(Wire):
    """What somebody wants to do."""

    uid: str = ""
    kind: GroupVersionKind | None = None
    resource: GroupVersionResource | None = None
    subResource: str = ""
    requestKind: GroupVersionKind | None = None
    requestResource: GroupVersionResource | None = None
    requestSubResource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    userInfo: UserInfo = UserInfo()
    object: Any = None
    oldObject: Any = None
    dryRun: bool | None = None
    options: Any = None


class AdmissionResponse(Wire):
    """Whether it may be done, and how it is changed; `patch` is base64 of a JSON patch."""

    uid: str = ""
    allowed: bool = False
    status: Status | None = None
    patch: str = ""
    patchType: str | None = None
    auditAnnotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class AdmissionReview(Wire):
    """Asks a webhook about a request, and is its answer."""

    apiVersion: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


class WebhookServiceReference(Wire):
    """The service of a webhook."""

    namespace: str
    name: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Wire):
    """How to reach a webhook."""

    url: str | None = None
    service: WebhookServiceReference | None = None
    caBundle: str = ""


class RuleWithOperations(Wire):
    """Which requests a webhook is asked about."""

    operations: tuple[str, ...] = ()
    apiGroups: tuple[str, ...] = ()
    apiVersions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


class MatchCondition(Wire):
    """An expression that must be true of a request."""

    name: str
    expression: str


class ValidatingWebhook(Wire):
    """A webhook that may refuse."""

    name: str
    clientConfig: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failurePolicy: str | None = None
    matchPolicy: str | None = None
    namespaceSelector: LabelSelector | None = None
    objectSelector: LabelSelector | None = None
    sideEffects: str | None = None
    timeoutSeconds: int | None = None
    admissionReviewVersions: tuple[str, ...] = ()
    matchConditions: tuple[MatchCondition, ...] = ()


class MutatingWebhook(Wire):
    """A webhook that may refuse and change."""

    name: str
    clientConfig: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failurePolicy: str | None = None
    matchPolicy: str | None = None
    namespaceSelector: LabelSelector | None = None
    objectSelector: LabelSelector | None = None
    sideEffects: str | None = None
    timeoutSeconds: int | None = None
    admissionReviewVersions: tuple[str, ...] = ()
    reinvocationPolicy: str | None = None
    matchConditions: tuple[MatchCondition, ...] = ()


class ValidatingWebhookConfiguration(KubeObject):
    """Webhooks that validate."""

    webhooks: tuple[ValidatingWebhook, ...] = ()


class MutatingWebhookConfiguration(KubeObject):
    """Webhooks that change."""

    webhooks: tuple[MutatingWebhook, ...] = ()


class NamedRuleWithOperations(Wire):
    """Which requests a policy is about; of all objects, or of those with these names."""

    resourceNames: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    apiGroups: tuple[str, ...] = ()
    apiVersions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


class MatchResources(Wire):
    """What a policy, or its binding, is about."""

    namespaceSelector: LabelSelector | None = None
    objectSelector: LabelSelector | None = None
    resourceRules: tuple[NamedRuleWithOperations, ...] = ()
    excludeResourceRules: tuple[NamedRuleWithOperations, ...] = ()
    matchPolicy: str | None = None


class ParamKind(Wire):
    """The kind of the objects that parameterise a policy."""

    apiVersion: str = ""
    kind: str = ""


class ParamRef(Wire):
    """The objects that parameterise a policy where it is bound."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameterNotFoundAction: str | None = None


class Validation(Wire):
    """An expression that must be true, and what is said if it isn't."""

    expression: str
    message: str = ""
    reason: str | None = None
    messageExpression: str = ""


class AuditAnnotation(Wire):
    """Something to note in the audit log."""

    key: str
    valueExpression: str


class Variable(Wire):
    """An expression that others can use by its name."""

    name: str
    expression: str


class ValidatingAdmissionPolicySpec(Wire):
    """Rules about writes."""

    paramKind: ParamKind | None = None
    matchConstraints: MatchResources | None = None
    validations: tuple[Validation, ...] = ()
    failurePolicy: str | None = None
    auditAnnotations: tuple[AuditAnnotation, ...] = ()
    matchConditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()


class ExpressionWarning(Wire):
    """What is doubtful about an expression."""

    fieldRef: str
    warning: str


class TypeChecking(Wire):
    """What was found out about a policy's expressions."""

    expressionWarnings: tuple[ExpressionWarning, ...] = ()


class ValidatingAdmissionPolicyStatus(Wire):
    """What the cluster thinks of a policy."""

    observedGeneration: int = 0
    typeChecking: TypeChecking | None = None
    conditions: tuple[Condition, ...] = ()


class ValidatingAdmissionPolicy(KubeObject):
    """Rules about writes, in force where they are bound."""

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


class ValidatingAdmissionPolicyBindingSpec(Wire):
    """Where a policy is in force, with which parameters, and what becomes of what breaks it."""

    policyName: str = ""
    paramRef: ParamRef | None = None
    matchResources: MatchResources | None = None
    validationActions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(KubeObject):
    """Puts a policy in force."""

    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()
