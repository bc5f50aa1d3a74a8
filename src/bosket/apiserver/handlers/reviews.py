"""Reviews: requests in the form of objects, which are answered and not stored.

Who is asking, whose token is this, may this user do that, what may I do: all are answered by the same authenticator and
authorizer that requests pass.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bosket.api import authentication, authorization
from bosket.api.field_error import FieldError, invalid_value
from bosket.apiserver.auth import Authenticator
from bosket.apiserver.auth.jwt import BadToken
from bosket.apiserver.auth.service_account import ISSUER
from bosket.apiserver.objects.kind import Kind, Registry, Strategy, Version
from bosket.apiserver.objects.types import check_types
from bosket.apiserver.rbac import Authorizer
from bosket.apiserver.request.request_info import Attributes
from bosket.apiserver.request.resource_request import ResourceRequest, User
from bosket.apiserver.status import bad_request, invalid
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store

#: Completes the question with its answer.
ResponseOrWatch = Callable[[ResourceRequest, Doc], None]

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class _ReviewStrategy(Strategy):
    """A question has a type, and no more rules."""

    def __init__(self, struct: type[msgspec.Struct], group: str, kind: str) -> None:
        self.struct = struct
        self._group = group
        self._kind = kind

    def check_types(self, doc: Doc) -> list[str]:
        assert self.struct is not None
        check_types(doc, self.struct, self._group, self._kind, "v1")
        return []


def register_reviews(registry: Registry, store: Store, authenticator: Authenticator, authorizer: Authorizer) -> None:
    """Serve the reviews."""
    reviews = _Reviews(authenticator, authorizer)
    questions: tuple[tuple[str, type[msgspec.Struct], str, bool, ResponseOrWatch], ...] = (
        (_AUTHORIZATION, authorization.SelfSubjectAccessReview, "selfsubjectaccessreviews", False, reviews.may_i),
        (_AUTHORIZATION, authorization.SubjectAccessReview, "subjectaccessreviews", False, reviews.may_they),
        (_AUTHORIZATION, authorization.LocalSubjectAccessReview, "localsubjectaccessreviews", True, reviews.may_they),
        (_AUTHORIZATION, authorization.SelfSubjectRulesReview, "selfsubjectrulesreviews", False, reviews.my_rules),
        (_AUTHENTICATION, authentication.SelfSubjectReview, "selfsubjectreviews", False, reviews.who_am_i),
        (_AUTHENTICATION, authentication.TokenReview, "tokenreviews", False, reviews.whose_token),
    )
    for group, struct, plural, namespaced, response in questions:
        name = struct.__name__
        version = Version("v1", _ReviewStrategy(struct, group, name), review=response)
        registry.add(
            Kind(
                group=group,
                kind=name,
                plural=plural,
                namespaced=namespaced,
                objects=store.resource(group, plural, namespaced=namespaced),
                storage_version="v1",
                versions={"v1": version},
                verbs=("create",),
            )
        )


class _Reviews:
    """The answers."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def who_am_i(self, request: ResourceRequest, doc: Doc) -> None:
        doc["status"] = {"userInfo": request.user.info()}

    def whose_token(self, _call: ResourceRequest, doc: Doc) -> None:
        spec = doc.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        try:
            user, audiences = self._authenticator.identify(spec["token"], spec.get("audiences") or (ISSUER,))
        except BadToken as error:
            doc["status"] = {"user": {}, "error": f"[invalid bearer token, {error}]"}
        else:
            doc["status"] = {"authenticated": True, "user": user.info(), "audiences": audiences}

    def may_i(self, request: ResourceRequest, doc: Doc) -> None:
        self._decide(request, doc, request.user)

    def may_they(self, request: ResourceRequest, doc: Doc) -> None:
        spec = doc.get("spec") or {}
        user = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
        self._decide(request, doc, user)

    def my_rules(self, request: ResourceRequest, doc: Doc) -> None:
        namespace = (doc.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        resources: list[Doc] = []
        others: list[Doc] = []
        for rule in self._authorizer.rules(request.user, namespace):
            (others if rule.urls else resources).append(rule.doc())
        doc["status"] = {"resourceRules": resources, "nonResourceRules": others, "incomplete": False}

    def _decide(self, request: ResourceRequest, doc: Doc, user: User) -> None:
        spec = doc.get("spec") or {}
        errors = _check(request, doc, spec, names_user=bool(user.name or user.groups))
        if errors:
            raise invalid(_AUTHORIZATION, request.kind.kind, "", errors)
        allowed, reason = self._authorizer.explain(user, _asked(spec))
        doc["status"] = {"allowed": allowed} | ({"reason": reason} if reason else {})


def _check(request: ResourceRequest, doc: Doc, spec: Doc, *, names_user: bool) -> list[FieldError]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if (resource is None) == (other is None):
        errors.append(invalid_value("spec", other, _ONE_OF))
    if not names_user:
        errors.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    allowed = {"namespace"} if request.kind.namespaced else set()
    if any(value for key, value in doc["metadata"].items() if key not in allowed and key != "managedFields"):
        detail = "must be empty except for namespace" if allowed else "must be empty"
        errors.append(invalid_value("metadata", doc["metadata"], detail))
    if request.kind.namespaced:
        if resource is not None and resource.get("namespace", "") != request.namespace:
            field = "spec.resourceAttributes.namespace"
            errors.append(invalid_value(field, resource.get("namespace", ""), "must match metadata.namespace"))
        if other is not None:
            errors.append(invalid_value("spec.nonResourceAttributes", other, "disallowed on this kind of request"))
    return errors


def _asked(spec: Doc) -> Attributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        other = spec["nonResourceAttributes"]
        return Attributes(other.get("verb", ""), path=other.get("path", ""))
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{key: resource.get(key, "") for key in keys})
