"""ApiServer: assembles the parts and answers requests, over any transport.

`handle` takes a request and a user and gives an answer: a `Response`, or a `Watcher` for a watch. The in-process
transport (`in_process`) and the network listener (`bosket.apiserver.http`) call `handle` and nothing else. It never
raises: a refusal is a Status, and so is a bug (500, logged once).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry

from bosket.apiserver.admission.authorization import CreationCheck, EscalationCheck
from bosket.apiserver.admission.builtin import BuiltinAdmission
from bosket.apiserver.admission.chain import AdmissionChain, AdmissionPlugin, RequestValidator, ValidationPlugin
from bosket.apiserver.admission.policy.dispatch import Policies
from bosket.apiserver.admission.webhook.dispatch import Webhooks
from bosket.apiserver.auth import Authenticator, TokenIssuer
from bosket.apiserver.auth.bootstrap_token import BootstrapTokens
from bosket.apiserver.auth.identity import AUTHENTICATED
from bosket.apiserver.auth.jwt import SigningKey
from bosket.apiserver.custom import definition
from bosket.apiserver.custom.definition import Definitions
from bosket.apiserver.handlers.eviction import Evictor
from bosket.apiserver.handlers.reading import Reader
from bosket.apiserver.handlers.rest import ResponseOrWatch, Rest
from bosket.apiserver.handlers.reviews import register_reviews
from bosket.apiserver.handlers.subresource import Subresources
from bosket.apiserver.handlers.token_request import TokenRequests
from bosket.apiserver.handlers.watch import QUEUE_LIMIT
from bosket.apiserver.housekeeping.bootstrap import bootstrap
from bosket.apiserver.housekeeping.content_deletion import CustomResourceFinalizer, NamespaceContentDeleter
from bosket.apiserver.housekeeping.disruption_budget import DisruptionController
from bosket.apiserver.housekeeping.event_expiry import EventExpiry
from bosket.apiserver.housekeeping.garbage_collector import GarbageCollector
from bosket.apiserver.housekeeping.naming_controller import NamingController
from bosket.apiserver.housekeeping.role_aggregation import RoleAggregationController
from bosket.apiserver.kinds.catalogue import register_builtin_kinds
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.openapi.document import OpenApi
from bosket.apiserver.persistence.database import StorageError
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.apiserver.persistence.journal import KEPT_HISTORY, Journal
from bosket.apiserver.persistence.restore import restore
from bosket.apiserver.rbac import MASTERS, Authorizer
from bosket.apiserver.request.byte_budget import ByteBudget
from bosket.apiserver.request.executor import LARGE_BYTES, LargeObjectExecutor
from bosket.apiserver.request.request_info import parse_request
from bosket.apiserver.request.resource_request import READING_VERBS, ResourceRequest, User, resolve
from bosket.apiserver.request.response import with_warnings
from bosket.apiserver.server.discovery import Discovery
from bosket.apiserver.server.in_process import InProcessTransport
from bosket.apiserver.server.metrics import RequestMetrics
from bosket.apiserver.server.nonresource import NonResource
from bosket.apiserver.status import JSON, StatusError, WrongType, internal_error
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.deletion import Deleter
from bosket.apiserver.writing.writer import Writer
from bosket.kube.transport import Request, Response
from bosket.runtime.clock import Clock, LoopClock
from bosket.runtime.controller import Controller

#: How often a watcher that wants bookmarks gets one.
BOOKMARK_SECONDS = 60.0
#: What the server does by itself that in Kubernetes controllers do, by their names; each can be left out.
CONTROLLER_NAMES = ("garbage-collector", "namespace", "disruption")
#: Under this name a data directory keeps the key that signs tokens of service accounts.
_SIGNING_KEY = "service-account-key"

log = logging.getLogger(__name__)


class ApiServer:
    """A Kubernetes API server, in memory unless it is given a data directory."""

    def __init__(
        self,
        *,
        clock: Clock,
        default_scheduler_name: str = "default-scheduler",
        history: int = 4096,
        watch_queue: int = QUEUE_LIMIT,
        enabled_versions: Collection[str] = (),
        admission: Callable[[Store], AdmissionPlugin] | None = None,
        validation: Callable[[Store], ValidationPlugin] | None = None,
        request_validators: Callable[[], tuple[RequestValidator, ...]] = tuple,
        data: DataDirectory | None = None,
        kept_history: int = KEPT_HISTORY,
        without: Collection[str] = (),
    ) -> None:
        """Pods that name no scheduler get the default; watches may resume within `history` events of a resource,
        and have `watch_queue` events pending before they are dropped.

        `enabled_versions` are alpha and beta versions to serve, such as `scheduling.k8s.io/v1beta1`. `admission` is
        made with the server's store and asked after the built-in one, `validation` likewise when an object is complete
        and obeys the rules of its kind; `request_validators` are called after both, also about deletions and about what
        is posted to subresources. What is in `data` is there again, and what is written is kept in it until `close`,
        with `kept_history` writes for watches that resume after a restart. `without` names the parts of
        the server (`garbage-collector`, `namespace`, `disruption`) that another program runs.
        """
        self.clock = clock
        self.store = Store(history=history)
        self.registry = Registry()
        definitions = Definitions(self.registry, self.store)
        register_builtin_kinds(
            self.registry,
            self.store,
            scheduler_name=default_scheduler_name,
            enabled=enabled_versions,
            special={(definition.GROUP, "CustomResourceDefinition"): definitions.behaviour()},
        )
        definitions.listen()
        tokens = TokenIssuer(
            clock, self.store, SigningKey(None if data is None else partial(data.remembered, _SIGNING_KEY))
        )
        self.authenticator = Authenticator(tokens, BootstrapTokens(clock, self.store))
        self.authorizer = Authorizer(self.store)
        register_reviews(self.registry, self.store, self.authenticator, self.authorizer)
        # A loop with virtual time, which such a clock follows, would run ahead of a thread.
        threads = not isinstance(clock, LoopClock)
        self._executor = LargeObjectExecutor("large-writes", threads=threads)
        self._read_executor = LargeObjectExecutor("large-reads", threads=threads)
        self._byte_budget = ByteBudget()
        self.reader = Reader(clock, self._read_executor, queue_limit=watch_queue)
        more = () if admission is None else (admission(self.store),)
        self._webhooks = Webhooks(self.store)
        builtin = BuiltinAdmission(self.store, self.registry)
        plugins = (CreationCheck(self.authorizer), builtin, *more)
        policies = Policies(self.store, self.registry)
        validators = () if validation is None else (validation(self.store),)
        last = (EscalationCheck(self.authorizer),)
        chain = AdmissionChain(
            plugins,
            policies,
            self._webhooks,
            last,
            validators,
            request_validators=request_validators(),
            creatable_check=builtin,
        )
        self.writer = Writer(clock, chain, self._executor)
        deleter = Deleter(clock)
        parts = (clock, self.store, self.registry, self.writer)
        metrics = CollectorRegistry()
        self._controllers: list[Controller[Any]] = [
            CustomResourceFinalizer(*parts, deleter, metrics=metrics).controller,
            NamingController(*parts, definitions, metrics=metrics).controller,
            RoleAggregationController(*parts, metrics=metrics).controller,
        ]
        if "garbage-collector" not in without:
            self._controllers.append(GarbageCollector(*parts, deleter, metrics=metrics).controller)
        if "namespace" not in without:
            self._controllers.append(NamespaceContentDeleter(*parts, deleter, metrics=metrics).controller)
        if "disruption" not in without:
            self._controllers.append(DisruptionController(*parts, metrics=metrics).controller)
        self._expiry = EventExpiry(clock, self.store.resource("", "events"))
        self.rest = Rest(self.writer, self.reader, deleter, chain)
        evictor = Evictor(self.store, self.writer, deleter, chain)
        self.subresources = Subresources(self.rest, evictor, TokenRequests(clock, self.store, tokens, self._executor))

        self.metrics = RequestMetrics(self.store, self.reader)
        openapi = OpenApi(self.registry, self._read_executor)
        self._nonresource = NonResource(Discovery(self.registry), openapi, self.metrics, tokens)
        self._bootstrapped = False
        self._journal = None if data is None else self._resume(data, kept_history)

    def _resume(self, data: DataDirectory, kept_history: int) -> Journal:
        """Go on where the last server on this directory ended."""
        restore(self.store, data.database, (definition.GROUP, definition.PLURAL))
        journal = self.store.journal = Journal(data.database, self.store.version, kept_history=kept_history)
        return journal

    def close(self) -> None:
        """Bring to disk what is on its way there; nothing may be written afterwards."""
        self._executor.close()
        self._read_executor.close()
        if self._journal is not None:
            self._journal.close()

    def transport(
        self, user: str = "system:admin", groups: tuple[str, ...] = (MASTERS, AUTHENTICATED)
    ) -> InProcessTransport:
        """A way to talk to this server without a network."""
        identity = User(user, groups)
        return InProcessTransport(lambda request: self.handle(request, identity), self.reader)

    async def run(self) -> None:
        """What happens behind the requests, until cancelled: garbage collection, draining, expiry, bookmarks.

        Raises `StorageError` when nothing can be kept any more.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for controller in self._controllers:
                    tasks.create_task(controller.run())
                tasks.create_task(self._expiry.run())
                tasks.create_task(self._send_bookmarks())
                if self._journal is not None:
                    tasks.create_task(self._journal.wait_failed())
        except* StorageError as failures:
            raise failures.exceptions[0] from None
        finally:
            await self._webhooks.aclose()

    async def _send_bookmarks(self) -> None:
        while True:
            await self.clock.sleep(BOOKMARK_SECONDS)
            self.reader.send_bookmarks()

    def close_watches(self) -> None:
        """End all watches; their clients will come back, or be gone."""
        self.reader.close_watches()

    async def handle(self, raw: Request, user: User) -> ResponseOrWatch:
        try:
            if not self._bootstrapped:
                self._bootstrapped = True
                await bootstrap(self.store, self.registry, self.writer)
            info = parse_request(raw)
            if MASTERS not in user.groups:
                self.authorizer.check(user, info.attributes)
            if not info.attributes.resource:
                return await self._nonresource.respond(info)
            request = resolve(info, user, self.registry)
        except StatusError as error:
            return refusal(error)
        except Exception:
            log.exception("%s %s failed", raw.method, raw.path)
            return refusal(_mistake())
        began = perf_counter()
        kind = "readOnly" if request.verb in READING_VERBS else "mutating"
        self.metrics.in_flight[kind] += 1
        try:
            response = await self._respond(request)
            if not self.store.settled:
                await self.store.settle()
        except StorageError as error:
            response = refusal(internal_error(str(error)))
        finally:
            self.metrics.in_flight[kind] -= 1
        if request.version.deprecation:
            request.warnings.append(request.version.deprecation)
        if request.warnings and isinstance(response, Response):
            response = with_warnings(response, request.warnings)
        self.metrics.count(request, response.status, perf_counter() - began)
        return response

    def _about_pods(self, request: ResourceRequest) -> ResourceRequest:
        """POST bindings is the older form of POST pods/NAME/binding; it is allowed by `create` of `bindings`."""
        pods = self.registry.at("", "pods")
        assert pods is not None
        attributes = replace(request.attributes, resource="pods", subresource="binding")
        return replace(request, attributes=attributes, kind=pods, version=pods.versions["v1"])

    async def _respond(self, request: ResourceRequest) -> ResponseOrWatch:
        try:
            if request.kind.plural == "bindings" and not request.kind.group:
                request = self._about_pods(request)
            if (size := _size(request)) < LARGE_BYTES:
                return await self._dispatch(request)
            with self._byte_budget.hold(request.user.name, size):
                return await self._dispatch(request)
        except WrongType as error:
            return refusal(error.of_patch() if request.verb == "patch" else error)
        except StatusError as error:
            return refusal(error)
        except Exception:
            log.exception("%s of %s %s/%s failed", request.verb, request.kind.resource, request.namespace, request.name)
            return refusal(_mistake())

    async def _dispatch(self, request: ResourceRequest) -> ResponseOrWatch:
        return await (self.subresources.handle(request) if request.subresource else self.rest.handle(request))


def _size(request: ResourceRequest) -> int:
    """Bytes of JSON that are decoded at once for a write: of the body or of the stored object. 0 for what only reads,
    since objects of a list are decoded one after another."""
    if request.verb in READING_VERBS:
        return 0
    stored = request.kind.objects.get(request.namespace, request.name) if request.name else None
    return len(request.body) if stored is None else max(len(request.body), len(stored.encoded))


def _mistake() -> StatusError:
    return internal_error("the server made a mistake; its log has the details")


def refusal(error: StatusError) -> Response:
    """The answer that carries an error."""
    return Response(error.code, {"content-type": JSON, **error.headers}, error.body)
