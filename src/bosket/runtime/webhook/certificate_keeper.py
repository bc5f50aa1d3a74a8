"""CertificateKeeper: the Secret in which replicas share a certificate.

The first replica that finds the certificate missing or due writes it; the others read what it wrote. The API server's
own checks (a name exists once, a version is replaced once) decide which replica is first.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Secret
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.runtime.clock import Clock
from bosket.runtime.webhook.serving_certificate import Names, Serving, from_secret, renewed, to_secret

_log = logging.getLogger(__name__)

#: Each failure means that somebody else succeeded.
_ATTEMPTS: Final = 10


class CertificateKeeper:
    """Reads and renews what is in the Secret."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, secret_name: str, names: Names) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._secret_name = secret_name
        self._names = names

    async def current(self) -> Serving:
        """What all replicas should show by now."""
        for _ in range(_ATTEMPTS):
            secret = await self._read()
            serving = from_secret(secret.data) if secret is not None else None
            fresh = renewed(serving, self._names, self._clock.now())
            if fresh is None:
                assert serving is not None
                return serving
            try:
                await self._write(secret, fresh)
            except (AlreadyExists, Conflict):
                continue
            _log.info(
                "made a certificate",
                extra={"secret": f"{self._namespace}/{self._secret_name}", "expires": fresh.expires.isoformat()},
            )
            return fresh
        raise RuntimeError(f"secret {self._namespace}/{self._secret_name} keeps changing")

    async def _read(self) -> Secret | None:
        try:
            return await self._client.get(Secret, self._secret_name, self._namespace)
        except NotFound:
            return None

    async def _write(self, former: Secret | None, serving: Serving) -> None:
        if former is None:
            metadata = ObjectMeta(name=self._secret_name, namespace=self._namespace)
            await self._client.create(Secret(metadata=metadata, data=to_secret(serving), type="Opaque"))
        else:
            await self._client.modify(former, replace(former, data={**former.data, **to_secret(serving)}))
