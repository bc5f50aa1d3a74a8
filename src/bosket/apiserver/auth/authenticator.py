"""Finds the user behind a request: by client certificate, or by bearer token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bosket.apiserver.auth.bootstrap_token import BootstrapTokens
from bosket.apiserver.auth.identity import ANONYMOUS_NAME, AUTHENTICATED, UNAUTHENTICATED
from bosket.apiserver.auth.jwt import BadToken
from bosket.apiserver.auth.service_account import ISSUER, TokenIssuer
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.status import unauthorized

ANONYMOUS: Final = User(ANONYMOUS_NAME, (UNAUTHENTICATED,))
#: What anybody may ask for.
PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")


class Authenticator:
    """Knows the server's own tokens, those of service accounts, and bootstrap tokens."""

    def __init__(self, issuer: TokenIssuer, bootstrap_tokens: BootstrapTokens) -> None:
        self._tokens: dict[str, User] = {}
        self._issuer = issuer
        self._bootstrap_tokens = bootstrap_tokens

    def trust(self, tokens: Mapping[str, User]) -> None:
        """From now on these tokens are good, for these users."""
        for token, user in tokens.items():
            groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
            self._tokens[token] = User(user.name, groups, user.uid, user.extra)

    def authenticate(self, authorization: str, peer_certificate: Mapping[str, Any] | None) -> User | None:
        """The user, None if there is no sign of one; a token that is not known is an error."""
        if peer_certificate and (user := _user_of(peer_certificate)) is not None:
            return user
        scheme, _, token = authorization.partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer":
            raise unauthorized()
        try:
            return self.identify(token.strip())[0]
        except BadToken:
            raise unauthorized() from None

    def identify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the audiences it is good; raises `BadToken`.

        Tokens that aren't for a certain audience are good for the server's own.
        """
        known = self._tokens.get(token) or self._bootstrap_tokens.find(token)
        if known is None:
            return self._issuer.identify(token, audiences)
        if ISSUER not in audiences:
            raise BadToken(f"the token is not for any of {list(audiences)}")
        return known, [ISSUER]


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
