"""The root certificate publisher: every namespace has a ConfigMap with the certificate that the API server's rests on.

The one in kube-system is written when the cluster is opened to the network (`bosket.embedded.identity`); here it is
copied to all others, and put right where somebody changed it. A cluster without a listener has none.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import ConfigMap, Namespace
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.embedded.controllers.service_account_token import ROOT_CERTIFICATE
from bosket.kube.errors import AlreadyExists, Forbidden, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_SOURCE = ObjectKey("kube-system", ROOT_CERTIFICATE)


class RootCertificatePublisher:
    """Keeps the copies; a `Service`."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._namespaces = environment.informers.of(Namespace)
        self._copies = environment.informers.of(ConfigMap, fields=f"metadata.name={ROOT_CERTIFICATE}")
        self._controller: Controller[str] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._namespaces, lambda namespace: (namespace.metadata.name,))
        self._controller.watch(self._copies, self._concerned)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _concerned(self, copy: ConfigMap) -> list[str]:
        if copy.key == _SOURCE:
            return [each.metadata.name for each in self._namespaces.store.values()]
        return [copy.metadata.namespace]

    async def _reconcile(self, namespace: str) -> None:
        found = self._namespaces.store.get(ObjectKey("", namespace))
        source = self._copies.store.get(_SOURCE)
        if source is None or found is None or found.metadata.deletionTimestamp is not None:
            return
        copy = self._copies.store.get(ObjectKey(namespace, ROOT_CERTIFICATE))
        if copy is not None and copy.data == source.data:
            return
        try:
            if copy is None:
                made = ConfigMap(metadata=ObjectMeta(name=ROOT_CERTIFICATE, namespace=namespace), data=source.data)
                self._copies.store.put(await self._client.create(made, namespace))
            else:
                self._copies.store.put(await self._client.modify(copy, replace(copy, data=source.data)))
        except (AlreadyExists, NotFound, Forbidden):
            return  # there already, or the namespace is going away
