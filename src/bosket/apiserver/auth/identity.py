"""The names that users and groups of the system have."""

from __future__ import annotations

from typing import Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS_NAME: Final = "system:anonymous"
_PREFIX: Final = "system:serviceaccount:"


def account_name(namespace: str, name: str) -> str:
    """A service account as a user."""
    return f"{_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of a service account."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)


def split_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user is, if it is one."""
    namespace, colon, name = user.removeprefix(_PREFIX).partition(":")
    return (namespace, name) if user.startswith(_PREFIX) and colon and namespace and name else None
