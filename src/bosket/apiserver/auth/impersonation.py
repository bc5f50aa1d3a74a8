"""Acting as somebody else (`kubectl --as`): roles must allow each part of the other identity (`impersonate`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from bosket.apiserver.auth.identity import (
    ANONYMOUS_NAME,
    AUTHENTICATED,
    UNAUTHENTICATED,
    account_groups,
    split_account,
)
from bosket.apiserver.rbac import Authorizer
from bosket.apiserver.request.request_info import Attributes
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.status import bad_request

_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """The effective user: `user`, or the impersonated one of the headers; raises a 403 where that isn't allowed."""
    found = [(key.lower(), value) for key, value in headers if key[: len(_PREFIX)].lower() == _PREFIX]
    if not found:
        return user
    name = next((value for key, value in found if key == "impersonate-user"), "")
    uid = next((value for key, value in found if key == "impersonate-uid"), "")
    groups = [value for key, value in found if key == "impersonate-group"]
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in found:
        if key.startswith(_EXTRA):
            named = unquote(key.removeprefix(_EXTRA))
            extra[named] = (*extra.get(named, ()), value)
    if not name:
        if uid or groups or extra:
            raise bad_request("requested a group, UID or extra value without impersonating a user")
        return user
    account = split_account(name)
    asked = [
        Attributes("impersonate", resource="users", name=name)
        if account is None
        else Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1]),
        *(Attributes("impersonate", resource="groups", name=group) for group in groups),
        *(
            Attributes("impersonate", _AUTHENTICATION, "userextras", key, name=value)
            for key, values in extra.items()
            for value in values
        ),
        *([Attributes("impersonate", _AUTHENTICATION, "uids", name=uid)] if uid else []),
    ]
    for each in asked:
        authorizer.check(user, each)
    if account is not None and not groups:
        groups = list(account_groups(account[0]))
    return User(name, _complete(name, groups), uid, extra)


def _complete(name: str, groups: list[str]) -> tuple[str, ...]:
    """The groups with the one that says whether the user is known."""
    if name == ANONYMOUS_NAME:
        return tuple(groups) if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, AUTHENTICATED)
