"""Admission as a service: webhooks that call the review handlers of this package."""

from __future__ import annotations

from bosket.api.core import Namespace
from bosket.api.kai import PodGroup, Queue
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.codec import metadata_of
from bosket.runtime.service import Environment
from bosket.runtime.webhook.certificate_keeper import CertificateKeeper
from bosket.runtime.webhook.registration import Reach
from bosket.runtime.webhook.service import Webhooks, WebhookService
from bosket.services.admission.access import Known
from bosket.services.admission.options import Options
from bosket.services.admission.registration import configurations
from bosket.services.admission.review_handlers import review_handlers

NAME = "admission"


def admission_service(env: Environment, options: Options) -> WebhookService:
    """The admission webhooks, which look at queues, at labels of namespaces and, where a queue is to go, at groups."""
    queues = env.informers.of(Queue)
    namespaces = env.informers.of(metadata_of(Namespace))
    classes = env.informers.of(PriorityClass) if options.access_control else None
    groups = env.informers.of(PodGroup) if options.access_control else None
    reach = Reach(env.namespace, options.service_name, options.url, options.service_port)

    def known_queues() -> dict[str, Queue]:
        return {each.metadata.name: each for each in queues.store.values()}

    def known_classes() -> dict[str, PriorityClass]:
        return {each.metadata.name: each for each in classes.store.values()} if classes is not None else {}

    def namespace_labels(name: str) -> dict[str, str]:
        found = namespaces.store.get(ObjectKey("", name))
        return found.metadata.labels if found is not None else {}

    def known_group(key: ObjectKey) -> PodGroup | None:
        return groups.store.get(key) if groups is not None else None

    async def pod_groups() -> list[PodGroup]:
        # Asked for when a queue that is in use is deleted, which is rare: no reason to watch them all in every replica
        # unless access control does.
        return (await env.client.list(PodGroup)).items

    async def wait_synced() -> None:
        await queues.wait_synced()
        await namespaces.wait_synced()
        for informer in (classes, groups):
            if informer is not None:
                await informer.wait_synced()

    known = Known(known_queues, known_classes, namespace_labels, known_group, env.namespace)
    return WebhookService(
        env,
        Webhooks(
            name=NAME,
            handlers=review_handlers(options, known, pod_groups),
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
