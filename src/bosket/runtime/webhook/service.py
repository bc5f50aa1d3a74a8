"""Webhooks as a service: over TLS, with a certificate and a registration that keep themselves.

Every replica serves, so there is no lease. A round of upkeep now and then: read (or renew) the certificate that all
replicas share, see to it that the API server trusts it and knows us, then show it. A round that fails changes nothing:
the webhooks go on with what they have.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bosket.kube.errors import KubeError
from bosket.runtime.certificates import KeyPair
from bosket.runtime.service import Environment
from bosket.runtime.serving import load_key_pair, server_context
from bosket.runtime.webhook.metrics import webhook_metrics
from bosket.runtime.webhook.registration import Configuration, register
from bosket.runtime.webhook.review import AnyReviewHandler
from bosket.runtime.webhook.server import serve_webhooks

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0


class Shown(Protocol):
    """A serving certificate, and the CA bundle for API servers."""

    @property
    def key_pair(self) -> KeyPair: ...

    @property
    def trusted_pem(self) -> bytes: ...

    @property
    def expires_at(self) -> float: ...


class CertificateSource(Protocol):
    """Where the certificate comes from."""

    async def current(self) -> Shown:
        """What all replicas should show by now."""
        ...


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The handlers of a webhook service, its address, and its webhook configurations."""

    #: Also the name of the service.
    name: str
    #: Who answers on which path.
    handlers: Mapping[str, AnyReviewHandler]
    host: str
    port: int
    certificate: CertificateSource
    #: The configurations that should be there; given what API servers are to trust.
    configurations: Callable[[bytes], Sequence[Configuration]]
    #: Informers that must be synced before a request is answered: the handlers read their stores.
    wait_synced: Callable[[], Awaitable[None]]
    #: Whether configurations that aren't there are made; otherwise only those that somebody made are filled in.
    creates_configurations: bool = True
    #: How often certificate and registration are looked after.
    upkeep_seconds: float = 60.0


class WebhookService:
    """Answers an API server's reviews until cancelled."""

    #: every replica serves, not only the leader
    in_every_replica = True

    def __init__(self, env: Environment, webhooks: Webhooks) -> None:
        self._env = env
        self._webhooks = webhooks
        self._metrics = webhook_metrics(env.metrics)
        #: Where the webhooks are reached, while they are.
        self.url = ""
        env.readiness[webhooks.name] = lambda: bool(self.url)

    @property
    def name(self) -> str:
        return self._webhooks.name

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        webhooks = self._webhooks
        await webhooks.wait_synced()
        shown = await webhooks.certificate.current()
        context = server_context(shown.key_pair)
        self._report(shown)
        server = serve_webhooks(
            webhooks.handlers,
            context,
            host=webhooks.host,
            port=webhooks.port,
            clock=self._env.clock,
            metrics=self._metrics,
        )
        async with server as url:
            _log.info("webhooks are served", extra={"url": url})
            self.url = url
            try:
                while True:
                    shown, pause = await self._keep_up(shown, context)
                    await self._env.clock.sleep(pause)
            finally:
                self.url = ""

    async def _keep_up(self, shown: Shown, context: ssl.SSLContext) -> tuple[Shown, float]:
        """One round; gives what is shown after it, and how long to wait for the next."""
        try:
            current = await self._webhooks.certificate.current()
            desired = self._webhooks.configurations(current.trusted_pem)
            changed = await register(self._env.client, desired, create=self._webhooks.creates_configurations)
            if changed:
                _log.info("webhooks are registered", extra={"configurations": ", ".join(changed)})
            if current.key_pair != shown.key_pair:
                load_key_pair(context, current.key_pair)
                self._report(current)
        except Exception as error:
            self._metrics.upkeep_failed(self.name)
            _log.warning(
                "certificate and registration stay as they are",
                extra={"error": str(error) or repr(error), "seconds": _RETRY_SECONDS},
                exc_info=not isinstance(error, KubeError),
            )
            return shown, _RETRY_SECONDS
        return current, self._webhooks.upkeep_seconds

    def _report(self, shown: Shown) -> None:
        self._metrics.certificate_expires(self.name, shown.expires_at)
