"""The service account controller: every namespace has a service account called default."""

from __future__ import annotations

from typing import Final

from bosket.api.core import Namespace, ServiceAccount
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.kube.errors import AlreadyExists, Forbidden, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_NAME: Final = "default"


class ServiceAccountController:
    """Makes what is missing, also after somebody deleted it; a `Service`."""

    name = "serviceaccount-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._namespaces = environment.informers.of(Namespace)
        self._accounts = environment.informers.of(ServiceAccount)
        self._controller: Controller[str] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._namespaces, lambda namespace: (namespace.metadata.name,))
        self._controller.watch(
            self._accounts, lambda account: (account.metadata.namespace,) if account.metadata.name == _NAME else ()
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, namespace: str) -> None:
        found = self._namespaces.store.get(ObjectKey("", namespace))
        if found is None or found.metadata.deletionTimestamp is not None:
            return
        if self._accounts.store.get(ObjectKey(namespace, _NAME)) is not None:
            return
        try:
            account = ServiceAccount(metadata=ObjectMeta(name=_NAME, namespace=namespace))
            self._accounts.store.put(await self._client.create(account, namespace))
        except (AlreadyExists, NotFound, Forbidden):
            return  # there already, or the namespace is going away
