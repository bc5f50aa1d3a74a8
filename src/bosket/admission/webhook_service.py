"""Admission as a service: the judges of this package behind webhooks."""

from __future__ import annotations

from bosket.admission.judges import judges
from bosket.admission.options import Options
from bosket.admission.registration import configurations
from bosket.api.core import Namespace
from bosket.api.kai import Queue
from bosket.api.object import ObjectKey
from bosket.kube.codec import metadata_of
from bosket.runtime.service import Environment
from bosket.webhook.certificate_keeper import CertificateKeeper
from bosket.webhook.registration import Reach
from bosket.webhook.service import Webhooks, WebhookService

NAME = "admission"


def admission_service(env: Environment, options: Options) -> WebhookService:
    """The admission webhooks, which look at the queues and at the labels of the namespaces that there are."""
    queues = env.informers.of(Queue)
    namespaces = env.informers.of(metadata_of(Namespace))
    reach = Reach(env.namespace, options.service_name, options.url, options.service_port)

    def known_queues() -> dict[str, Queue]:
        return {each.metadata.name: each for each in queues.store.values()}

    def namespace_labels(name: str) -> dict[str, str]:
        found = namespaces.store.get(ObjectKey("", name))
        return found.metadata.labels if found is not None else {}

    async def wait_synced() -> None:
        await queues.wait_synced()
        await namespaces.wait_synced()

    return WebhookService(
        env,
        Webhooks(
            name=NAME,
            judges=judges(options, known_queues, namespace_labels),
            host=options.host,
            port=options.port,
            certificate=CertificateKeeper(
                env.client, env.clock, namespace=env.namespace, secret_name=options.secret_name, names=reach.names
            ),
            configurations=lambda trusted_pem: configurations(options, reach, trusted_pem),
            creates_configurations=options.creates_configurations,
            wait_synced=wait_synced,
            upkeep_seconds=options.upkeep_seconds,
        ),
    )
