"""Who is asking: bearer tokens, client certificates, and those who may speak for others."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from bosket.apiserver.call import User
from bosket.apiserver.status import forbidden, unauthorized
from bosket.runtime.clock import Clock

#: May do everything, also act as somebody else.
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
#: What anybody may see.
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class TokenIssuer:
    """Tokens of service accounts, given out on request and worthless when their time is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[float, User]] = {}

    def issue(self, namespace: str, name: str, seconds: int) -> tuple[str, float]:
        """A new token for a service account, and when it ends."""
        now = self._clock.now()
        self._issued = {token: each for token, each in self._issued.items() if each[0] > now}
        token, expires = secrets.token_urlsafe(32), now + seconds
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        self._issued[token] = (expires, User(f"system:serviceaccount:{namespace}:{name}", groups))
        return token, expires

    def find(self, token: str) -> User | None:
        """Whose token it is, if it is one and still good."""
        expires, user = self._issued.get(token, (0.0, None))
        return user if expires > self._clock.now() else None


class Authenticator:
    """Finds the user behind a request."""

    def __init__(self, tokens: Mapping[str, User], issuer: TokenIssuer) -> None:
        self._tokens = dict(tokens)
        self._issuer = issuer

    def authenticate(self, headers: Mapping[str, str], peer_certificate: Mapping[str, Any] | None) -> User | None:
        """The user, None if there is no sign of one; a token that is not known is an error."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        user: User | None = None
        if scheme:
            token = token.strip()
            if scheme.lower() == "bearer":
                user = self._tokens.get(token) or self._issuer.find(token)
            if user is None:
                raise unauthorized()
        elif peer_certificate:
            user = _user_of(peer_certificate)
        if user is not None and "impersonate-user" in headers:
            user = _impersonated(user, headers)
        return user


def _user_of(certificate: Mapping[str, Any]) -> User | None:
    """The subject's common name is the user, its organizations are the groups."""
    subject: Sequence[Any] = certificate.get("subject", ())
    name, groups = "", []
    for parts in subject:
        for key, value in parts:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None


def _impersonated(user: User, headers: Mapping[str, str]) -> User:
    name = headers["impersonate-user"]
    if MASTERS not in user.groups:
        raise forbidden("", "users", name, f'User "{user.name}" cannot impersonate resource "users"')
    groups = [each.strip() for each in headers.get("impersonate-group", "").split(",") if each.strip()]
    return User(name, (*groups, AUTHENTICATED))
