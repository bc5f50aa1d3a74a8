"""Bootstrap tokens: short ones that are Secrets in kube-system, for those who join a cluster with nothing else."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Final

from bosket.api.time import parse_time
from bosket.apiserver.auth.identity import AUTHENTICATED
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.store.store import Store
from bosket.runtime.clock import Clock

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_TYPE: Final = "bootstrap.kubernetes.io/token"
_GROUP: Final = "system:bootstrappers"
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """Finds the Secret behind such a token."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._secrets = store.resource("", "secrets")

    def find(self, token: str) -> User | None:
        """Whose token it is, if it is one and still good."""
        parts = _TOKEN.fullmatch(token)
        entry = None if parts is None else self._secrets.get("kube-system", f"bootstrap-token-{parts[1]}")
        if parts is None or entry is None or entry.deleting:
            return None
        secret = entry.decode()
        data = {key: _text(value) for key, value in (secret.get("data") or {}).items()}
        if secret.get("type") != _TYPE or data.get("token-id") != parts[1]:
            return None
        if not secrets.compare_digest(data.get("token-secret", "").encode(), parts[2].encode()):
            return None
        if data.get("usage-bootstrap-authentication") != "true" or self._is_over(data.get("expiration", "")):
            return None
        extra = [each for each in data.get("auth-extra-groups", "").split(",") if _EXTRA_GROUP.fullmatch(each)]
        return User(f"system:bootstrap:{parts[1]}", (_GROUP, *extra, AUTHENTICATED))

    def _is_over(self, expiration: str) -> bool:
        if not expiration:
            return False
        try:
            return parse_time(expiration) <= self._clock.now()
        except ValueError:
            return True  # who wrote it wanted it to end


def _text(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
