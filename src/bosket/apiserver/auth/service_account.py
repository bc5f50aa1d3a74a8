"""Tokens of service accounts: signed, for an audience and a time, bound to objects and invalid once these are deleted.

`token_request` issues them, the authenticator and token reviews ask whose they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from bosket.apiserver.auth.identity import account_groups, account_name
from bosket.apiserver.auth.jwt import ALGORITHM, BadToken, SigningKey
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.store.entry import Entry
from bosket.apiserver.store.store import Store
from bosket.runtime.clock import Clock

#: The issuer of tokens, and their default audience.
ISSUER: Final = "https://kubernetes.default.svc"
_CLAIM: Final = "kubernetes.io"
_EXTRA: Final = "authentication.kubernetes.io/"
#: Objects that a token can be bound to: claim → resource, and whether it is in the account's namespace.
BOUND: Final = {"pod": ("pods", True), "secret": ("secrets", True), "node": ("nodes", False)}
#: Tokens whose signature was checked; beyond, all are checked again.
_MEMORY: Final = 1000


class TokenIssuer:
    """Gives tokens out, and knows its own."""

    def __init__(self, clock: Clock, store: Store, key: SigningKey) -> None:
        self._clock = clock
        self._store = store
        self._key = key
        self._verified: dict[str, dict[str, Any]] = {}

    def issue(self, account: Entry, seconds: int, audiences: Sequence[str], bound: dict[str, dict[str, str]]) -> str:
        """A token for a service account; `bound` are objects by claim, each with its name and UID."""
        now = int(self._clock.now())
        return self._key.sign(
            {
                "aud": list(audiences),
                "exp": now + seconds,
                "iat": now,
                "iss": ISSUER,
                "jti": str(uuid.uuid4()),
                _CLAIM: {
                    "namespace": account.namespace,
                    **bound,
                    "serviceaccount": {"name": account.name, "uid": account.uid},
                },
                "nbf": now,
                "sub": account_name(account.namespace, account.name),
            }
        )

    def identify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the audiences it is good; raises `BadToken`."""
        claims = self._verified.get(token)
        if claims is None:
            claims = self._key.verify(token)
            if len(self._verified) >= _MEMORY:
                self._verified.clear()
            self._verified[token] = claims
        now = self._clock.now()
        if now >= claims["exp"]:
            raise BadToken("service account token has expired")
        if now < claims["nbf"]:
            raise BadToken("service account token is not valid yet")
        common = [audience for audience in audiences if audience in claims["aud"]]
        if not common:
            raise BadToken(f"token audiences {claims['aud']} is invalid for the target audiences {list(audiences)}")
        return self._user(claims), common

    def _user(self, claims: dict[str, Any]) -> User:
        about = claims[_CLAIM]
        namespace, account = about["namespace"], about["serviceaccount"]
        if not self._is_there("serviceaccounts", namespace, account):
            raise BadToken(f'serviceaccounts "{account["name"]}" not found')
        extra = {f"{_EXTRA}credential-id": (f"JTI={claims['jti']}",)}
        for claim, (plural, namespaced) in BOUND.items():
            reference = about.get(claim)
            if reference is None:
                continue
            is_shown_only = claim == "node" and "pod" in about
            if not is_shown_only and not self._is_there(plural, namespace if namespaced else "", reference):
                raise BadToken("service account token has been invalidated")
            if claim != "secret":
                extra[f"{_EXTRA}{claim}-name"] = (reference["name"],)
                extra[f"{_EXTRA}{claim}-uid"] = (reference["uid"],)
        return User(claims["sub"], account_groups(namespace), account["uid"], extra)

    def _is_there(self, plural: str, namespace: str, reference: dict[str, str]) -> bool:
        entry = self._store.resource("", plural, namespaced=bool(namespace)).get(namespace, reference["name"])
        return entry is not None and entry.uid == reference["uid"]

    # for those who check tokens themselves

    def discovery(self) -> dict[str, Any]:
        """What `/.well-known/openid-configuration` says."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    def keys(self) -> dict[str, Any]:
        """What `/openid/v1/jwks` says."""
        return {"keys": [self._key.public_jwk()]}
