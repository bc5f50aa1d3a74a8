"""The token controller: fills Secrets that ask for a token of a service account.

The token is bound to its Secret, so that it is worth nothing once the Secret is gone, and lasts as long as tokens can.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from bosket.api.authentication import TokenRequest
from bosket.api.core import ConfigMap, Secret, ServiceAccount
from bosket.api.keys import TOKEN_ACCOUNT_ANNOTATION, TOKEN_SECRET_TYPE
from bosket.api.object import ObjectKey
from bosket.kube.errors import NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_BY_ACCOUNT: Final = "service-account-token/account"
#: The ConfigMap in kube-system with the certificate of whoever signs the server's.
ROOT_CERTIFICATE: Final = "kube-root-ca.crt"
_SYSTEM: Final = "kube-system"
_LONGEST_SECONDS: Final = 1 << 32


class ServiceAccountTokenController:
    """Keeps tokens in the Secrets that are meant for them; a `Service`."""

    name = "serviceaccount-token-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._secrets = environment.informers.of(Secret, fields=f"type={TOKEN_SECRET_TYPE}")
        self._secrets.add_index(_BY_ACCOUNT, _account_of)
        self._accounts = environment.informers.of(ServiceAccount)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._secrets, lambda secret: (secret.key,))
        self._controller.watch(self._accounts, self._secrets_of)
        self._authorities = environment.informers.of(
            ConfigMap, namespace=_SYSTEM, fields=f"metadata.name={ROOT_CERTIFICATE}"
        )
        self._controller.watch(self._authorities, lambda _: [each.key for each in self._secrets.store.values()])

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _secrets_of(self, account: ServiceAccount) -> Iterable[ObjectKey]:
        return [each.key for each in self._secrets.store.by_index(_BY_ACCOUNT, str(account.key))]

    async def _reconcile(self, key: ObjectKey) -> None:
        secret = self._secrets.store.get(key)
        if secret is None or secret.metadata.deletionTimestamp is not None:
            return
        name = secret.metadata.annotations.get(TOKEN_ACCOUNT_ANNOTATION, "")
        account = self._accounts.store.get(ObjectKey(key.namespace, name))
        if account is None:
            return
        uid = account.metadata.uid
        has_token = bool(secret.data.get("token")) and secret.metadata.annotations.get(_ACCOUNT_UID) == uid
        authority = _encoded(self._authority())
        if has_token and secret.data.get("ca.crt", "") == authority:
            return
        try:
            token = secret.data["token"] if has_token else _encoded(await self._token(secret, account))
            data = {**secret.data, "token": token, "namespace": _encoded(key.namespace), "ca.crt": authority}
            annotations = {**secret.metadata.annotations, _ACCOUNT_UID: uid}
            after = replace(secret, metadata=replace(secret.metadata, annotations=annotations), data=data)
            self._secrets.store.put(await self._client.modify(secret, after))
        except NotFound:
            return  # Secret or account are gone

    async def _token(self, secret: Secret, account: ServiceAccount) -> str:
        body = {
            "spec": {
                "expirationSeconds": _LONGEST_SECONDS,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "name": secret.metadata.name,
                    "uid": secret.metadata.uid,
                },
            }
        }
        path = f"/api/v1/namespaces/{account.metadata.namespace}/serviceaccounts/{account.metadata.name}/token"
        answer = await self._client.raw("POST", path, body=body)
        return msgspec.json.decode(answer.body, type=TokenRequest).status.token

    def _authority(self) -> str:
        """The certificate of whoever signs the server's; empty where the server is reached in process alone."""
        found = self._authorities.store.get(ObjectKey(_SYSTEM, ROOT_CERTIFICATE))
        return found.data.get("ca.crt", "") if found is not None else ""


def _account_of(secret: Secret) -> Iterable[str]:
    name = secret.metadata.annotations.get(TOKEN_ACCOUNT_ANNOTATION)
    return (str(ObjectKey(secret.metadata.namespace, name)),) if name else ()


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
