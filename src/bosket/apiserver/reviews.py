"""Reviews: questions that look like objects. They are answered and forgotten.

Who may do what: everybody who is known may do everything, for now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bosket.api import authentication, authorization
from bosket.apiserver.auth import TokenIssuer
from bosket.apiserver.call import Call, User
from bosket.apiserver.kind import Kind, Registry, Strategy, Version
from bosket.apiserver.store import Doc, Store
from bosket.apiserver.types import check_types

#: Completes the question with its answer.
Answer = Callable[[Call, Doc], None]


class _ReviewStrategy(Strategy):
    """A question has a type, and no more rules."""

    def __init__(self, struct: type[msgspec.Struct], group: str, kind: str) -> None:
        self.struct = struct
        self._group = group
        self._kind = kind

    def check_types(self, doc: Doc, *, find_unknown: bool) -> list[str]:  # noqa: ARG002 - extra fields are ignored
        assert self.struct is not None
        check_types(doc, self.struct, self._group, self._kind, "v1")
        return []


def register_reviews(registry: Registry, store: Store, tokens: TokenIssuer) -> None:
    """Serve the reviews."""

    def review_token(_call: Call, doc: Doc) -> None:
        user = tokens.find(doc.get("spec", {}).get("token", ""))
        if user is None:
            doc["status"] = {"authenticated": False, "error": "unknown token"}
        else:
            doc["status"] = {"authenticated": True, "user": _user_info(user)}

    questions: tuple[tuple[str, type[msgspec.Struct], str, bool, Answer], ...] = (
        ("authorization.k8s.io", authorization.SelfSubjectAccessReview, "selfsubjectaccessreviews", False, _allow),
        ("authorization.k8s.io", authorization.SubjectAccessReview, "subjectaccessreviews", False, _allow),
        ("authorization.k8s.io", authorization.LocalSubjectAccessReview, "localsubjectaccessreviews", True, _allow),
        ("authentication.k8s.io", authentication.SelfSubjectReview, "selfsubjectreviews", False, _who_am_i),
        ("authentication.k8s.io", authentication.TokenReview, "tokenreviews", False, review_token),
    )
    for group, struct, plural, namespaced, answer in questions:
        name = struct.__name__
        version = Version("v1", _ReviewStrategy(struct, group, name), review=answer)
        registry.add(
            Kind(
                group=group,
                kind=name,
                plural=plural,
                namespaced=namespaced,
                shelf=store.shelf(group, plural, namespaced=namespaced),
                storage_version="v1",
                versions={"v1": version},
                verbs=("create",),
            )
        )


def _allow(_call: Call, doc: Doc) -> None:
    doc["status"] = {"allowed": True, "reason": "every known user may do everything"}


def _who_am_i(call: Call, doc: Doc) -> None:
    doc["status"] = {"userInfo": _user_info(call.user)}


def _user_info(user: User) -> dict[str, Any]:
    return {"username": user.name, "groups": list(user.groups)}
