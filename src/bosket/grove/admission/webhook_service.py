"""Grove's admission as a service: webhooks that call this package's review handlers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from bosket.api.grove import ClusterTopologyBinding, PodCliqueSet
from bosket.api.grove.operator_configuration import VOLCANO_SCHEDULER
from bosket.api.object import ObjectKey
from bosket.api.volcano import HyperNode, Queue
from bosket.grove.admission.options import Options
from bosket.grove.admission.registration import configurations
from bosket.grove.admission.review_handlers import review_handlers
from bosket.runtime.service import Environment
from bosket.runtime.webhook.certificate_keeper import CertificateKeeper
from bosket.runtime.webhook.registration import Reach
from bosket.runtime.webhook.service import CertificateSource, Webhooks, WebhookService
from bosket.runtime.webhook.serving_certificate import CertificateDirectory

NAME: Final = "grove-admission"
_LOOPBACK: Final = "127.0.0.1"


class WatchedCluster:
    """What the rules may ask, answered from what is watched.

    Volcano's kinds are watched only where sets may be for it; they need not be there.
    """

    def __init__(self, env: Environment, schedulers: Collection[str]) -> None:
        self._bindings = env.informers.of(ClusterTopologyBinding)
        self._sets = env.informers.of(PodCliqueSet)
        with_volcano = VOLCANO_SCHEDULER in schedulers
        self._queues = env.informers.of(Queue, optional=True) if with_volcano else None
        self._hyper_nodes = env.informers.of(HyperNode, optional=True) if with_volcano else None

    async def wait_synced(self) -> None:
        for informer in (self._bindings, self._sets, self._queues, self._hyper_nodes):
            if informer is not None:
                await informer.wait_synced()

    def binding(self, name: str) -> ClusterTopologyBinding | None:
        return self._bindings.store.get(ObjectKey("", name))

    def set_annotations(self, namespace: str, name: str) -> Mapping[str, str] | None:
        found = self._sets.store.get(ObjectKey(namespace, name))
        return None if found is None else found.metadata.annotations

    def volcano_queue_state(self, name: str) -> str | None:
        found = None if self._queues is None else self._queues.store.get(ObjectKey("", name))
        return None if found is None else found.status.state

    def has_hyper_nodes(self) -> bool:
        return self._hyper_nodes is not None and any(True for _ in self._hyper_nodes.store.values())


def admission_service(env: Environment, options: Options) -> WebhookService:
    """The webhooks of Grove's operator."""
    configuration = options.configuration
    server = configuration.server.webhooks
    cluster = WatchedCluster(env, configuration.scheduler.names)
    reach = Reach(env.namespace, options.service_name, options.url, server.port)
    operator = f"system:serviceaccount:{env.namespace}:{options.service_account}"
    certificate: CertificateSource = (
        CertificateDirectory(Path(server.serverCertDir))
        if server.certProvisionMode == "manual"
        else CertificateKeeper(
            env.client, env.clock, namespace=env.namespace, secret_name=server.secretName, names=reach.names
        )
    )
    return WebhookService(
        env,
        Webhooks(
            name=NAME,
            handlers=review_handlers(configuration, operator, cluster),
            host=server.bindAddress or _LOOPBACK,
            port=server.port,
            certificate=certificate,
            configurations=lambda trusted_pem: configurations(
                reach, trusted_pem, authorizer=configuration.authorizer.enabled
            ),
            wait_synced=cluster.wait_synced,
            creates_configurations=options.creates_configurations,
            upkeep_seconds=options.upkeep_seconds,
        ),
    )
