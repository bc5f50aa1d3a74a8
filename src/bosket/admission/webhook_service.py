"""Admission as a service: webhooks over TLS, with a certificate and a registration that keep themselves.

Every replica serves, so there is no lease. A round of upkeep now and then: read (or renew) the certificate that all
replicas share, see to it that the API server trusts it and knows us, then show it. A round that fails changes nothing:
the webhooks go on with what they have.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from typing import Final
from urllib.parse import urlsplit

from bosket.admission.certificate_keeper import CertificateKeeper
from bosket.admission.judges import judges
from bosket.admission.metrics import webhook_metrics
from bosket.admission.options import Options
from bosket.admission.registration import configurations, register
from bosket.admission.server import serve_webhooks
from bosket.admission.serving_certificate import Names, Serving
from bosket.api.kai import Queue
from bosket.kube.errors import KubeError
from bosket.runtime.service import Environment
from bosket.runtime.tls import load_key_pair, server_context

NAME = "admission"

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0


class Admission:
    """Answers an API server's reviews until cancelled."""

    name = NAME
    #: Whoever is asked must answer, not only the one that leads.
    in_every_replica = True

    def __init__(self, env: Environment, options: Options) -> None:
        self._env = env
        self._options = options
        self._metrics = webhook_metrics(env.metrics)
        self._queues = env.informers.of(Queue)
        self._keeper = CertificateKeeper(
            env.client,
            env.clock,
            namespace=env.namespace,
            secret_name=options.secret_name,
            names=names(options, env.namespace),
        )
        #: Where the webhooks are reached, while they are.
        self.url = ""
        env.readiness[NAME] = lambda: bool(self.url)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._queues.wait_synced()
        serving = await self._keeper.current()
        context = server_context(serving.key_pair)
        self._shown(serving)
        server = serve_webhooks(
            judges(self._options, self._known_queues),
            context,
            host=self._options.host,
            port=self._options.port,
            clock=self._env.clock,
            metrics=self._metrics,
        )
        async with server as url:
            _log.info("webhooks are served", extra={"url": url})
            self.url = url
            try:
                while True:
                    serving, pause = await self._keep_up(serving, context)
                    await self._env.clock.sleep(pause)
            finally:
                self.url = ""

    async def _keep_up(self, shown: Serving, context: ssl.SSLContext) -> tuple[Serving, float]:
        """One round; gives what is shown after it, and how long to wait for the next."""
        try:
            serving = await self._keeper.current()
            desired = configurations(self._options, self._env.namespace, serving.trusted_pem)
            changed = await register(self._env.client, desired)
            if changed:
                _log.info("webhooks are registered", extra={"configurations": ", ".join(changed)})
            if serving.key_pair != shown.key_pair:
                load_key_pair(context, serving.key_pair)
                self._shown(serving)
        except Exception as error:
            self._metrics.upkeep_failed()
            _log.warning(
                "certificate and registration stay as they are",
                extra={"error": str(error) or repr(error), "seconds": _RETRY_SECONDS},
                exc_info=not isinstance(error, KubeError),
            )
            return shown, _RETRY_SECONDS
        return serving, self._options.upkeep_seconds

    def _shown(self, serving: Serving) -> None:
        self._metrics.certificate_expires(serving.expires.timestamp())

    def _known_queues(self) -> dict[str, Queue]:
        return {each.metadata.name: each for each in self._queues.store.values()}


def names(options: Options, namespace: str) -> Names:
    """What API servers call us: as a service, and as the host of the URL if there is one."""
    service_name = f"{options.service_name}.{namespace}"
    dns = [f"{service_name}.svc", service_name, f"{service_name}.svc.cluster.local"]
    ips: list[str] = []
    host = urlsplit(options.url).hostname if options.url else None
    if host:
        try:
            ips.append(str(ipaddress.ip_address(host)))
        except ValueError:
            dns.append(host)
    return Names(tuple(dns), tuple(ips))
