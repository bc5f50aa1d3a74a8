"""authorization.k8s.io/v1: questions about what somebody may do."""

from __future__ import annotations

from bosket.api.object import KubeObject, LabelSelectorRequirement, Wire


class LabelSelectorAttributes(Wire):
    """The label selector of a request."""

    rawSelector: str = ""
    requirements: tuple[LabelSelectorRequirement, ...] = ()


class FieldSelectorAttributes(Wire):
    """The field selector of a request."""

    rawSelector: str = ""
    requirements: tuple[LabelSelectorRequirement, ...] = ()


class ResourceAttributes(Wire):
    """A request for a resource."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    fieldSelector: FieldSelectorAttributes | None = None
    labelSelector: LabelSelectorAttributes | None = None


class NonResourceAttributes(Wire):
    """A request for a path that is no resource."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(Wire):
    """Who wants to do what."""

    resourceAttributes: ResourceAttributes | None = None
    nonResourceAttributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    uid: str = ""


class SelfSubjectAccessReviewSpec(Wire):
    """What the asker wants to do."""

    resourceAttributes: ResourceAttributes | None = None
    nonResourceAttributes: NonResourceAttributes | None = None


class SubjectAccessReviewStatus(Wire):
    """Whether it is allowed, and why."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluationError: str = ""


class SubjectAccessReview(KubeObject):
    """Asks whether somebody may do something."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReview(KubeObject):
    """Asks whether the asker may do something."""

    spec: SelfSubjectAccessReviewSpec = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(KubeObject):
    """Asks whether somebody may do something in a namespace."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ResourceRule(Wire):
    """Verbs that are allowed on resources."""

    verbs: tuple[str, ...] = ()
    apiGroups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resourceNames: tuple[str, ...] = ()


class NonResourceRule(Wire):
    """Verbs that are allowed on paths."""

    verbs: tuple[str, ...] = ()
    nonResourceURLs: tuple[str, ...] = ()


class SelfSubjectRulesReviewSpec(Wire):
    """The namespace that is asked about."""

    namespace: str = ""


class SubjectRulesReviewStatus(Wire):
    """All that is allowed, as far as it can be listed."""

    resourceRules: tuple[ResourceRule, ...] | None = ()
    nonResourceRules: tuple[NonResourceRule, ...] | None = ()
    incomplete: bool = False
    evaluationError: str = ""


class SelfSubjectRulesReview(KubeObject):
    """Asks for all that the asker may do in a namespace."""

    spec: SelfSubjectRulesReviewSpec = SelfSubjectRulesReviewSpec()
    status: SubjectRulesReviewStatus = SubjectRulesReviewStatus()
