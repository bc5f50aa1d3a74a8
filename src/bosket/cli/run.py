"""`bosket run`: any set of services against any cluster."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.admission_flags import AdmissionFlags, admission_options
from bosket.cli.binder_flags import BinderFlags, binder_options
from bosket.cli.grove_flags import GroveFlags, grove_options, read_configuration
from bosket.cli.grove_initc import InitContainerFlags, wait_in_pod
from bosket.cli.grove_process import ProcessSettings
from bosket.cli.node_scale_adjuster_flags import NodeScaleAdjusterFlags, node_scale_adjuster_options
from bosket.cli.numa_exporter import NumaExporterFlags, export_placements
from bosket.cli.operator_flags import OperatorFlags, operator_options
from bosket.cli.output import CommandError, LogFormat, LogLevel, UsageError, flush_line
from bosket.cli.path import OptionalFilePath
from bosket.cli.podgroup_controller_flags import PodGroupControllerFlags, podgroup_controller_options
from bosket.cli.podgrouper_flags import PodGrouperFlags, podgrouper_options
from bosket.cli.queue_controller_flags import QueueControllerFlags, queue_controller_options
from bosket.cli.reservation import hold_gpu
from bosket.cli.scheduler_flags import NAME as SCHEDULER
from bosket.cli.scheduler_flags import SchedulerFlags, scheduler_options
from bosket.cli.workload_flags import WorkloadFlags

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from bosket.embedded.services import ServiceEntry
    from bosket.kube.client import Client
    from bosket.kube.transport import Transport
    from bosket.runtime.health import Address
    from bosket.runtime.leader import LeaseTiming
    from bosket.runtime.service import Environment

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]
_LISTEN: Final = "127.0.0.1:0"
#: How long an API server that can't be reached is waited for, and how long at most between two requests.
_SERVER_SECONDS: Final = 120.0
_SERVER_PAUSE_SECONDS: Final = 10.0
_LEAST_PAUSE_SECONDS: Final = 0.2

_log = logging.getLogger(__name__)


def run(
    *services: str,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    namespace: str = "kai-scheduler",
    scheduler_config: OptionalFilePath = None,
    leader_elect: bool | None = None,
    listen: str | None = None,
    plugin_server_port: Port = 8081,
    enable_profiler: bool = False,
    profiler_port: Port = 8182,
    pyroscope_address: str = "",
    qps: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    burst: Annotated[int, Parameter(validator=Number(gte=1))] = 100,
    log_format: LogFormat | None = None,
    log_level: LogLevel | None = None,
    list_services: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    admission: AdmissionFlags | None = None,
    binder: BinderFlags | None = None,
    grove: GroveFlags | None = None,
    grove_init_container: InitContainerFlags | None = None,
    node_scale_adjuster: NodeScaleAdjusterFlags | None = None,
    numa_exporter: NumaExporterFlags | None = None,
    operator: OperatorFlags | None = None,
    podgroup_controller: PodGroupControllerFlags | None = None,
    podgrouper: PodGrouperFlags | None = None,
    queue_controller: QueueControllerFlags | None = None,
    scheduler: SchedulerFlags | None = None,
    workloads: WorkloadFlags | None = None,
) -> None:
    """Run services until SIGINT or SIGTERM: admission, podgrouper, scheduler, binder and the others.

    In a reservation pod: bosket run reservation; in a scaling pod: bosket run scaling-pod. On each node with NUMA
    zones: bosket run numa-exporter. In pods of Grove's that start after others: bosket run grove-initc.

    Parameters
    ----------
    services
        Which ones; --list shows them all.
    kubeconfig
        Which cluster; by default as kubectl finds it, or the cluster that this process is a pod of.
    context
        A context of the kubeconfig other than the current one.
    namespace
        Where the services' leases live.
    scheduler_config
        The scheduler's configuration, a YAML file in KAI's format; what it doesn't say is as by default.
    leader_elect
        Work only while holding the service's lease, so that several processes may run the same service; the default.
    listen
        Where to serve /metrics, /healthz and /readyz, by default 127.0.0.1:0; port 0 takes a free one, "off" serves
        nothing.
    plugin_server_port
        Port on 127.0.0.1 where the scheduler's plugins answer (bosket snapshot); 0 takes a free one.
    enable_profiler
        Let CPU profiles be taken of this process, whatever it runs (bosket profile). A scheduler lets that be done at
        its plugins' port anyway.
    profiler_port
        Port on 127.0.0.1 for that; 0 takes a free one.
    pyroscope_address
        URL of a Pyroscope server to which profiles of this process are sent all the time; needs bosket[pyroscope].
    qps
        Requests a second that the services send to the API server at most, leases aside; by default without bound.
    burst
        With --qps: how many of them may go at once after a while of rest.
    log_format
        Lines for people (human, the default), or JSON objects for machines.
    log_level
        The least severe messages to log; info unless given.
    list_services
        List the services that there are, and do nothing else.
    """
    from bosket.embedded.services import (
        GROVE_INIT_CONTAINER,
        NUMA_EXPORTER,
        PROGRAMS,
        RESERVATION,
        SCALING_POD,
        SERVICES,
        UnknownService,
        entries,
    )

    if list_services:
        programs = [*((entry.name, entry.purpose) for entry in SERVICES.values()), *PROGRAMS]
        width = max(len(name) for name, _ in programs)
        for name, purpose in programs:
            flush_line(f"{name:{width}}  {purpose}")
        return
    if services == (RESERVATION.name,):
        _configure_logging(log_format, log_level)
        hold_gpu(kubeconfig, context)
        return
    if services == (NUMA_EXPORTER.name,):
        _configure_logging(log_format, log_level)
        export_placements(numa_exporter or NumaExporterFlags(), kubeconfig, context)
        return
    if services == (GROVE_INIT_CONTAINER.name,):
        _configure_logging(log_format, log_level)
        wait_in_pod(grove_init_container or InitContainerFlags(), kubeconfig, context)
        return
    if services == (SCALING_POD.name,):
        return
    if not services:
        raise UsageError(f"which services? there are: {', '.join(SERVICES)}")
    try:
        chosen = entries(services)
    except UnknownService as error:
        raise UsageError(str(error)) from error
    names = [entry.name for entry in chosen]
    grove = grove or GroveFlags()
    groves = read_configuration(grove, names, namespace)
    said = groves.process if groves is not None else ProcessSettings()
    _configure_logging(log_format or said.log_format, log_level or said.log_level)
    workloads = workloads or WorkloadFlags()
    given = {
        "admission": admission,
        "binder": binder,
        "node_scale_adjuster": node_scale_adjuster,
        "operator": operator,
        "podgroup_controller": podgroup_controller,
        "podgrouper": podgrouper,
        "queue_controller": queue_controller,
        "scheduler": scheduler,
        "workloads": workloads,
    }
    options = service_options(names, given, scheduler_config)
    options |= grove_options(grove, names, groves.configuration) if groves is not None else {}
    settings = _Settings(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        leader_elect=next((each for each in (leader_elect, said.leader_elect) if each is not None), True),
        lease_timing=said.lease_timing,
        listen=said.listen if listen is None and said.listen else _addresses(listen or _LISTEN),
        plugin_server_port=plugin_server_port,
        profiler_port=profiler_port if enable_profiler else said.profiler_port,
        qps=qps,
        burst=burst,
        service_options=options,
    )
    from bosket.runtime.pyroscope_push import PyroscopeError, push_profiles

    # As KAI calls it: after the scheduler, where it is one.
    application = workloads.scheduler_name if names == [SCHEDULER] else f"bosket-{'-'.join(names)}"
    try:
        with push_profiles(application, pyroscope_address):
            asyncio.run(_run(chosen, settings))
    except PyroscopeError as error:
        raise UsageError(f"--pyroscope-address: {error}") from error


def service_options(
    names: Collection[str], given: Mapping[str, Any], scheduler_config: Path | None = None
) -> dict[str, object]:
    """Options of KAI's services, where they aren't the default ones, from groups of flags; raises `UsageError`.

    `given`: by the name of the parameter of `run`; what is None, or isn't there, is as by default.
    """
    workloads = given.get("workloads") or WorkloadFlags()
    workloads.check(names)
    options = scheduler_options(scheduler_config, given.get("scheduler") or SchedulerFlags(), workloads, names)
    options |= admission_options(given.get("admission") or AdmissionFlags(), workloads, names)
    options |= binder_options(given.get("binder") or BinderFlags(), workloads, names)
    adjuster = given.get("node_scale_adjuster") or NodeScaleAdjusterFlags()
    options |= node_scale_adjuster_options(adjuster, workloads, names)
    options |= operator_options(given.get("operator") or OperatorFlags(), names)
    options |= podgroup_controller_options(given.get("podgroup_controller") or PodGroupControllerFlags(), names)
    options |= podgrouper_options(given.get("podgrouper") or PodGrouperFlags(), workloads, names)
    options |= queue_controller_options(given.get("queue_controller") or QueueControllerFlags(), workloads, names)
    return options


def _configure_logging(log_format: LogFormat | None, log_level: LogLevel | None) -> None:
    from bosket.runtime.logs import configure_logging

    configure_logging(log_format or "human", (log_level or "info").upper())


@dataclass(frozen=True, slots=True)
class _Settings:
    kubeconfig: Path | None
    context: str | None
    namespace: str
    leader_elect: bool
    #: None: as by default.
    lease_timing: LeaseTiming | None
    listen: Sequence[Address]
    plugin_server_port: int
    #: None: no profiles are taken there.
    profiler_port: int | None
    #: None: as fast as the API server lets them.
    qps: float | None
    burst: int
    service_options: Mapping[str, object]


def _addresses(text: str) -> tuple[Address, ...]:
    address = parse_address(text)
    return () if address is None else (address,)


def parse_address(text: str) -> Address | None:
    """`HOST:PORT`, `[HOST]:PORT`, or `off`; raises `UsageError`."""
    from bosket.runtime.health import Address

    if text == "off":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f'--listen {text}: not an address such as 127.0.0.1:8080, nor "off"')
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


async def _run(chosen: list[ServiceEntry], settings: _Settings) -> None:
    from prometheus_client import CollectorRegistry, ProcessCollector

    from bosket.kube.client import Client
    from bosket.kube.device_versions import DeviceVersions
    from bosket.kube.http import HttpTransport
    from bosket.kube.kubeconfig import find
    from bosket.kube.throttle import ThrottledTransport
    from bosket.runtime.clock import SystemClock
    from bosket.runtime.leader import DEFAULT_TIMING
    from bosket.runtime.profile_page import add_profile_page, serve_profiles
    from bosket.runtime.rest_metrics import MeasuredTransport
    from bosket.runtime.service import run_services, stop_on_signals

    metrics = CollectorRegistry()
    ProcessCollector(registry=metrics)
    # Measured below the throttle: how long the API server takes, not how long a request waits for its turn.
    measured = MeasuredTransport(HttpTransport(find(settings.kubeconfig, settings.context)), metrics)
    transport: Transport = DeviceVersions(measured)
    if settings.qps is not None:
        transport = ThrottledTransport(transport, settings.qps, settings.burst, SystemClock())
    client = Client(transport)
    try:
        await reach_cluster(client, settings.namespace if settings.leader_elect else None)
        environment = make_environment(client, metrics, settings.namespace)
        services = [entry.make(environment, settings.service_options.get(entry.name)) for entry in chosen]
        process = ", ".join(entry.name for entry in chosen)
        if environment.local_pages.paths:
            add_profile_page(environment.local_pages, process)
        with stop_on_signals():
            async with serve_profiles(process, settings.profiler_port):
                await run_services(
                    environment,
                    services,
                    leader_election=settings.leader_elect,
                    lease_timing=settings.lease_timing or DEFAULT_TIMING,
                    health=settings.listen,
                    local_port=settings.plugin_server_port,
                )
    finally:
        await client.aclose()


def make_environment(client: Client, metrics: CollectorRegistry, namespace: str) -> Environment:
    """What the services of this process share. Its identity is nobody else's, also where host names are shared."""
    from bosket.kube.informer import Informers
    from bosket.runtime.clock import SystemClock
    from bosket.runtime.events import EventRecorder
    from bosket.runtime.service import Environment

    clock = SystemClock()
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return Environment(
        client=client,
        informers=Informers(client),
        clock=clock,
        events=EventRecorder(client, clock, "kai-scheduler", instance=identity, metrics=metrics),
        metrics=metrics,
        namespace=namespace,
        identity=identity,
    )


async def reach_cluster(client: Client, lease_namespace: str | None) -> None:
    """Wait for an API server that can't be reached, for as long as one takes to be restarted; then check the cluster.

    A service that ended instead would be started again by whoever watches over it, later and later each time.
    """
    from bosket.kube.errors import TransportError
    from bosket.kube.retry import full_jitter

    loop = asyncio.get_running_loop()
    until = loop.time() + _SERVER_SECONDS
    for attempt in itertools.count():
        try:
            await _check_cluster(client, lease_namespace)
        except TransportError as error:
            left = until - loop.time()
            if left <= 0:
                raise
            _log.warning("the API server can't be reached, asking again for %.0f s: %s", left, error)
            pause = full_jitter(attempt, base_seconds=1.0, limit_seconds=_SERVER_PAUSE_SECONDS)
            await asyncio.sleep(min(left, pause + _LEAST_PAUSE_SECONDS))
        else:
            return


async def _check_cluster(client: Client, lease_namespace: str | None) -> None:
    """A cluster that isn't ready is said at once, not by services that wait for ever."""
    from bosket.api.core import Namespace
    from bosket.api.kai import Queue
    from bosket.api.keys import SYSTEM_NAMESPACE
    from bosket.api.table import resource_of
    from bosket.kube.errors import Forbidden, NotFound

    try:
        # Everybody may ask what there is, and only some may list queues.
        await client.raw("GET", f"/apis/{resource_of(Queue).api_version}")
    except NotFound as error:
        raise CommandError("the cluster doesn't know KAI's kinds; install them with: bosket crds --install") from error
    if lease_namespace is None:
        return
    try:
        await client.get(Namespace, lease_namespace)
    except Forbidden:
        return  # one may have the right to leases and not to see where they are
    except NotFound as error:
        own = lease_namespace == SYSTEM_NAMESPACE
        remedy = "bosket crds --install" if own else f"kubectl create namespace {lease_namespace}"
        raise CommandError(
            f"the cluster has no namespace {lease_namespace} for the services' leases; create it with: {remedy}"
        ) from error
