"""`EmbeddedCluster`: an API server, simulated nodes, the controllers people rely on, and Bosket's services, in one
process.

`bosket up`, `bosket demo`, tests and benchmarks use it as an asynchronous context manager. Everything inside talks to
the server in process; a network listener with TLS and a token is there for those outside, if asked for.

    async with EmbeddedCluster(nodes=8) as cluster:
        await cluster.wait_ready()
        await cluster.client().create(job)
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from prometheus_client import CollectorRegistry

from bosket.api.keys import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME
from bosket.apiserver import ApiServer
from bosket.apiserver.admission.chain import AdmissionPlugin
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.apiserver.store.store import Store
from bosket.embedded.bootstrap import bootstrap, create_if_absent
from bosket.embedded.controllers import check_names, controllers
from bosket.embedded.controllers.simulated_storage import DEFAULT_CLASS
from bosket.embedded.default_scheduler import BindGuard, DefaultScheduler
from bosket.embedded.gpu_devices import GpuDevices
from bosket.embedded.grove_admission import GroveChecks, GroveDefaults, configuration_for, grove_options
from bosket.embedded.kubeconfig import admin_kubeconfig, write_kubeconfig
from bosket.embedded.kubelet import Kubelet
from bosket.embedded.node import Layout, NodeShape, simulated_node
from bosket.embedded.node_lifecycle import NodeLifecycle
from bosket.embedded.object_admission import DEFAULT_OPTIONS, Members, ObjectAdmission
from bosket.embedded.services import (
    ADMISSION,
    BINDER,
    DEFAULT_SERVICES,
    GROVE_ADMISSION,
    SERVICES,
    ServiceEntry,
    entries,
)
from bosket.grove.admission.options import Options as GroveOptions
from bosket.kube.client import Client
from bosket.kube.informer import InformerBranch, Informers
from bosket.runtime.clock import Clock, SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.local_server import LocalPages, serve_local
from bosket.runtime.profile_page import add_profile_page
from bosket.runtime.service import Environment, Service, run_services
from bosket.services.admission.options import Options

if TYPE_CHECKING:
    from bosket.embedded.in_process_operator import Interpreter

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0
#: User names of clients in this process: of the administrator, of controllers, and of the default scheduler.
_ADMINISTRATOR: Final = "system:admin"
_CONTROLLERS: Final = "system:kube-controller-manager"
_DEFAULT_SCHEDULER: Final = "system:kube-scheduler"
#: Versions of the gang API that the default scheduler reads, served where pods can be bound. kube-apiserver serves
#: them when a flag enables them.
_GANG_VERSIONS: Final = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")


@dataclass(frozen=True, slots=True)
class Listen:
    """The address for clients outside this process, and the path of the kubeconfig with this address."""

    kubeconfig: Path | None = None
    host: str = "127.0.0.1"
    #: 0 takes any that is free.
    port: int = 0


class EmbeddedCluster:
    """A cluster of simulated nodes in this process; starts on entering, stops on leaving.

    `without` are names of `bosket.embedded.controllers` that don't run here, because something else does their work.
    `default_scheduler` is the scheduler of pods that name none.
    `services` are names of `bosket.embedded.services`; those named in `service_options` run with these instead of
    their default options. Admission is asked by the API server itself, and by default lets GPUs be shared. With
    `isolated` each of the others has a client and informers of its own, as in a process of its own, and can be stopped
    and started (`stop_service`, `start_service`); otherwise they share them, which is cheaper. With a
    `plugin_server_port` (0 for any that is free) the scheduler's plugins answer over HTTP on this machine. With `data`
    the cluster goes on where the last one with this directory ended, and whoever knew that one knows it.
    With `interpret` Config and SchedulingShards decide which services run, and with which options, as they do where the
    operator deploys them (`in_process_operator`); both are made with the cluster, unless they are there.
    `more_services` run beside those of the control plane: what the caller's cluster has and this one lacks.
    """

    def __init__(
        self,
        *,
        nodes: int = 8,
        shape: NodeShape | None = None,
        racks: int = 1,
        zones: int = 1,
        services: Iterable[str] = DEFAULT_SERVICES,
        without: Iterable[str] = (),
        default_scheduler: str = DEFAULT_SCHEDULER_NAME,
        service_options: Mapping[str, object] | None = None,
        isolated: bool = False,
        clock: Clock | None = None,
        listen: Listen | None = None,
        plugin_server_port: int | None = None,
        data: DataDirectory | None = None,
        more_services: Sequence[Callable[[Environment], Service]] = (),
        interpret: Interpreter | None = None,
    ) -> None:
        self.layout = Layout(nodes, racks=max(1, min(racks, nodes)), zones=max(1, min(zones, racks, nodes)))
        self.shape = shape or NodeShape()
        self.clock: Clock = clock or SystemClock()
        self.metrics = CollectorRegistry()
        self._default_scheduler_name = default_scheduler
        self._grove = configuration_for(default_scheduler)
        chosen = entries(services)
        self._without = frozenset(without)
        check_names(self._without)
        names = {entry.name for entry in chosen}
        self._services = [entry for entry in chosen if entry.name not in (ADMISSION, GROVE_ADMISSION)]
        self._service_options = service_options or {}
        self._object_admission: ObjectAdmission | None = None
        self.server = ApiServer(
            clock=self.clock,
            default_scheduler_name=default_scheduler,
            enabled_versions=_GANG_VERSIONS if self._has_binder else (),
            without=self._without,
            admission=partial(self._admission, names),
            validation=self._validation if GROVE_ADMISSION in names else None,
            request_validators=lambda: () if self._object_admission is None else (self._object_admission,),
            data=data,
        )
        self._data = data
        self._more_services = tuple(more_services)
        self._interpret, self._chosen = interpret, names
        #: The address of the network listener; empty without one.
        self.url = ""
        #: Where the scheduler's plugins answer on this machine; empty where they don't.
        self.scheduler_url = ""
        self._isolated = isolated
        self._listen = listen
        self._plugin_server_port = plugin_server_port
        self._local_pages = LocalPages()
        self._stack = AsyncExitStack()
        self._environments: dict[str, Environment] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def client(self, name: str = "user", user: str = _ADMINISTRATOR) -> Client:
        """A client in this process with all rights; `name` is what it calls itself, `user` what webhooks see as its
        user."""
        return Client(self.server.transport(user), user_agent=name, clock=self.clock)

    @property
    def said_of_schedulers(self) -> str:
        """Which pods are whose, in a sentence."""
        name = self._default_scheduler_name
        others = f'"{SCHEDULER_NAME}" are placed by queues'
        if not self._has_default_scheduler and name == DEFAULT_SCHEDULER_NAME:
            return f'pods that name the scheduler {others}; those that name none wait for a scheduler "{name}"'
        if name == DEFAULT_SCHEDULER_NAME:
            return f'pods that name the scheduler {others}; those that name none, or "{name}", without queues'
        return f'pods that name no scheduler, or {others}; those that name "{DEFAULT_SCHEDULER_NAME}", without queues'

    async def wait_ready(self) -> None:
        """Until everything that runs has seen the cluster; raises what stops one of the parts for good."""
        synced = asyncio.gather(*(each.informers.wait_synced() for each in self._environments.values()))
        await self._unless_stopped(synced)

    async def wait_stopped(self) -> None:
        """Until a part of the cluster ends, which none does by itself unless it fails; raises why."""
        await self._unless_stopped(asyncio.get_running_loop().create_future())

    async def stop_service(self, name: str) -> None:
        """End a service at once, as if its process were killed; only in an isolated cluster."""
        assert self._isolated, "the services of this cluster share their informers and stop together"
        await self._cancel(name)
        del self._environments[name]

    async def start_service(self, name: str) -> None:
        """Start a service that was stopped: anew, it knows nothing of its former life."""
        assert self._isolated, "the services of this cluster share their informers and run together"
        (entry,) = entries([name])
        environment = self._environments[name] = self._environment(name)
        self._run(name, environment, [self._make(entry, environment)])

    async def _start(self) -> None:
        self._stack.callback(self.server.close)
        self._tasks["apiserver"] = asyncio.create_task(self.server.run(), name="apiserver")
        self._stack.push_async_callback(self._cancel, "apiserver")
        admin = self.client("bosket-embedded")
        await bootstrap(admin)
        now = self.clock.now()
        nodes = [simulated_node(index, self.layout, self.shape, now) for index in range(self.layout.nodes)]
        await asyncio.gather(*(create_if_absent(admin, each) for each in (DEFAULT_CLASS, *nodes)))
        control_plane = self._environments["control-plane"] = self._environment("bosket-embedded", _CONTROLLERS)
        parts: list[Service] = [
            *controllers(control_plane, without=self._without),
            NodeLifecycle(control_plane, shape=self.shape),
            Kubelet(control_plane),
            GpuDevices(control_plane),
            *self._default_scheduler(control_plane),
            *(make(control_plane) for make in self._more_services),
        ]
        if self._isolated:
            self._run("control-plane", control_plane, parts)
            for entry in self._services:
                await self.start_service(entry.name)
        else:
            # The services come first: on the way down they end before those who carry out what they asked for.
            services = await self._start_managed(control_plane)
            self._run("control-plane", control_plane, [*services, *parts])
        if self._plugin_server_port is not None and self._local_pages.paths:
            add_profile_page(self._local_pages, "embedded cluster")
            server = serve_local(self._local_pages, self._plugin_server_port)
            self.scheduler_url = await self._stack.enter_async_context(server)
        await self._open_listener()

    @property
    def _has_binder(self) -> bool:
        return any(entry.name == BINDER for entry in self._services)

    @property
    def _has_default_scheduler(self) -> bool:
        """It runs where the binder does, which carries its decisions out, unless somebody else does its work."""
        return self._has_binder and DEFAULT_SCHEDULER_NAME not in self._without

    def _default_scheduler(self, environment: Environment) -> list[Service]:
        if not self._has_default_scheduler:
            return []
        transport = self.server.transport(_DEFAULT_SCHEDULER)
        return [DefaultScheduler(environment, transport, started=self._bind_guard.activate)]

    async def _start_managed(self, control_plane: Environment) -> list[Service]:
        """Those that run until the cluster stops; what Config and shards speak of, the operator among them runs."""
        if self._interpret is None:
            return [self._make(each, control_plane) for each in self._services]
        from bosket.embedded.in_process_operator import MANAGED, InProcessOperator, default_objects

        # Where others run all of them, Config and shards are theirs, too.
        if self._chosen.isdisjoint(MANAGED):
            return [self._make(each, control_plane) for each in self._services]
        admin = self.client("bosket-embedded")
        await asyncio.gather(*(create_if_absent(admin, each) for each in default_objects()))

        def environment(service: str, name: str) -> Environment:
            client = self.client(f"bosket-{service}")
            metrics = CollectorRegistry()
            # Pages are the default scheduler's: others have the same paths.
            pages = self._local_pages if name == f"{SCHEDULER_NAME}-default" else LocalPages()
            return replace(
                control_plane,
                client=client,
                informers=InformerBranch(client, control_plane.informers),
                events=EventRecorder(client, self.clock, SCHEDULER_NAME, metrics=metrics),
                metrics=metrics,
                local_pages=pages,
                readiness={},
            )

        operator = InProcessOperator(
            control_plane,
            chosen=self._chosen,
            given=self._service_options,
            interpret=self._interpret,
            environment=environment,
            admission=self._object_admission,
        )
        await operator.start()
        return [operator, *(self._make(e, control_plane) for e in self._services if e.name not in MANAGED)]

    def _admission(self, names: Collection[str], store: Store) -> Members:
        self._bind_guard = BindGuard(store)
        plugins: list[AdmissionPlugin] = [self._bind_guard]
        if ADMISSION in names:
            options = self._service_options.get(ADMISSION, DEFAULT_OPTIONS)
            self._object_admission = ObjectAdmission(cast("Options", options), store)
            plugins.append(self._object_admission)
        if GROVE_ADMISSION in names:
            plugins.append(GroveDefaults())
        return Members(plugins)

    def _validation(self, store: Store) -> GroveChecks:
        options = self._service_options.get(GROVE_ADMISSION)
        configuration = self._grove if options is None else cast("GroveOptions", options).configuration
        return GroveChecks(configuration, store)

    def _make(self, entry: ServiceEntry, environment: Environment) -> Service:
        options = self._service_options.get(entry.name)
        return entry.make(environment, grove_options(entry.name, self._grove) if options is None else options)

    def _environment(self, name: str, user: str = _ADMINISTRATOR) -> Environment:
        client = self.client(f"bosket-{name}" if name in SERVICES else name, user)
        metrics = self.metrics if not self._isolated else CollectorRegistry()
        return Environment(
            client=client,
            informers=Informers(client),
            clock=self.clock,
            events=EventRecorder(client, self.clock, SCHEDULER_NAME, metrics=metrics),
            metrics=metrics,
            identity=name,
            local_pages=self._local_pages,
        )

    def _run(self, name: str, environment: Environment, services: Sequence[Service]) -> None:
        running = run_services(environment, services, leader_election=False, stop_seconds=_STOP_SECONDS)
        self._tasks[name] = asyncio.create_task(running, name=name)
        self._stack.push_async_callback(self._cancel, name)

    async def _cancel(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("failed while stopping", extra={"part": name, "error": str(error)}, exc_info=error)

    async def _unless_stopped(self, awaited: asyncio.Future[Any]) -> None:
        """Wait for `awaited`, or for a part of the cluster to end; raises what ended it."""
        try:
            done, _ = await asyncio.wait({awaited, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            awaited.cancel()

    async def _open_listener(self) -> None:
        if self._listen is None:
            return
        # Half of what a start costs is these libraries; a cluster without a listener does without them.
        from bosket.apiserver.http.listener import Tls, serve
        from bosket.apiserver.request.resource_request import User
        from bosket.embedded.identity import identity_of, publish_authorities, remember_port

        identity = identity_of(self._data)
        await publish_authorities(self.client("kube-apiserver"), identity.authority.cert_pem)
        host = self._listen.host
        is_address = _is_address(host)
        key_pair = identity.authority.issue(
            "kube-apiserver", server=True, ips=[host] if is_address else [], dns=[] if is_address else [host]
        )
        listener = await serve(
            self.server,
            host=host,
            port=self._listen.port or _if_free(host, identity.port),
            tls=Tls(key_pair, client_authority_pem=identity.authority.cert_pem),
            tokens={identity.admin_token: User("admin", ("system:masters", "system:authenticated"))},
        )
        self._stack.push_async_callback(listener.aclose)
        self.url = listener.url
        if self._data is not None:
            remember_port(self._data, listener.port)
        if self._listen.kubeconfig is not None:
            kubeconfig = admin_kubeconfig(
                self.url, identity.authority.cert_pem, identity.admin_token, scheduler_url=self.scheduler_url
            )
            write_kubeconfig(self._listen.kubeconfig, kubeconfig)


def _if_free(host: str, port: int) -> int:
    """The port, or 0 if somebody else has taken it meanwhile."""
    if port == 0:
        return 0
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            _log.warning("the former port is taken; using another one", extra={"port": port, "error": str(error)})
            return 0
    return port


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
