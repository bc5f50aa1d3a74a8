"""`bosket up`: an embedded cluster for kubectl, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.interpretation import interpret
from bosket.cli.output import CommandError, Flag, LogFormat, LogLevel, UsageError, flush_line
from bosket.cli.path import FilePath, OptionalFilePath
from bosket.cli.run import Port
from bosket.cli.scheduler_flags import NAME, SchedulerFlags, recording_bounds, scheduler_options
from bosket.cli.workload_flags import WorkloadFlags

if TYPE_CHECKING:
    from bosket.embedded.cluster import EmbeddedCluster
    from bosket.scheduler.options import Options as SchedulerOptions

#: How long a server that may be running already is waited for.
_ASK_SECONDS: Final = 3.0
Count = Annotated[int, Parameter(validator=Number(gte=0, lte=100_000))]


def up(
    *,
    nodes: Count = 8,
    gpus: Count = 8,
    cpu: str = "64",
    memory: str = "512Gi",
    racks: Annotated[int, Parameter(validator=Number(gte=1))] = 2,
    zones: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    data: OptionalFilePath = None,
    accept_loss: Flag = False,
    kubeconfig: FilePath = Path("kubeconfig"),
    port: Port = 0,
    plugin_server_port: Port = 0,
    services: str = "all",
    without: str = "",
    default_scheduler: Literal["default-scheduler", "kai-scheduler"] = "default-scheduler",
    scheduler_config: OptionalFilePath = None,
    evict_by_deletion: bool = False,
    access_control: bool = False,
    schedule_csi_storage: bool = False,
    record: OptionalFilePath = None,
    record_most: str = "256Mi",
    record_keep: Annotated[float, Parameter(validator=Number(gt=0))] = 7.0,
    no_recording: Flag = False,
    log_format: LogFormat = "human",
    log_level: LogLevel = "warning",
) -> None:
    """Start an embedded cluster with simulated nodes, say "ready", and serve until SIGINT or SIGTERM.

    Parameters
    ----------
    nodes
        How many simulated nodes.
    gpus
        GPUs of each node.
    cpu
        CPUs of each node, as a Kubernetes quantity.
    memory
        Memory of each node, as a Kubernetes quantity.
    racks
        Over how many racks the nodes are spread (label bosket.dev/rack).
    zones
        Over how many zones the racks are spread (label topology.kubernetes.io/zone).
    data
        A directory to keep the cluster in; started again with the same one, it goes on where it ended. Without it the
        cluster is gone with the process.
    accept_loss
        Go on though files in the data directory are damaged, with what can be read; what is lost is said, and the
        damaged files are kept beside the new ones. Without it a damaged directory is refused.
    kubeconfig
        Where to write the kubeconfig; a file that is not an embedded cluster's is not overwritten, nor that of one
        which is running.
    port
        Port of the API server on 127.0.0.1; 0 takes a free one.
    plugin_server_port
        Port on 127.0.0.1 where the scheduler's plugins answer (bosket snapshot); 0 takes a free one.
    services
        Which of Bosket's services run in it: names with commas between them, "all" (but those that
        a cluster needs only with others, as the node scale adjuster with an autoscaler) or "none".
    without
        Which of Kubernetes' controllers don't run in it, because others do their work: names with commas between them,
        as kube-controller-manager has them ("job,replicaset,namespace,garbage-collector").
    default_scheduler
        The scheduler of pods that name none, as spec.schedulerName: Kubernetes' own by its name, which places them
        without queues, or Bosket's.
    scheduler_config
        The scheduler's configuration, a YAML file in KAI's format; what it doesn't say is as by default.
    evict_by_deletion
        Let the scheduler delete preempted pods instead of calling the eviction API, which respects
        disruption budgets.
    access_control
        Let only those namespaces and users use a queue or a priority class that its annotations admit.
    schedule_csi_storage
        Let the scheduler count down what CSI drivers have left, as it decides where volumes are made.
    record
        The folder of the recording of every cycle's input and decisions, for bosket replay, bosket record and --at; by
        default in the data directory, or beside the kubeconfig.
    record_most
        How large the recording becomes before its oldest part is deleted: 256Mi, 10Gi.
    record_keep
        How far the recording reaches back, in days.
    no_recording
        Record nothing.
    log_format
        Lines for people, or JSON objects for machines.
    log_level
        The least severe messages to log.
    """
    from bosket.embedded.kubeconfig import belongs_to_embedded_cluster
    from bosket.runtime.logs import configure_logging

    configure_logging(log_format, log_level.upper())
    _check_quantity("--cpu", cpu)
    _check_quantity("--memory", memory)
    if kubeconfig.exists() and not belongs_to_embedded_cluster(kubeconfig):
        raise UsageError(f"--kubeconfig {kubeconfig}: is there, and is not an embedded cluster's; name another file")
    if kubeconfig.exists() and (running := asyncio.run(_running_server(kubeconfig))):
        raise UsageError(
            f"--kubeconfig {kubeconfig}: is that of an embedded cluster which is running, at {running}; end that one, "
            f"or name another file for this one"
        )
    chosen = _service_names(services)
    left_out = _controller_names(without)
    if no_recording and record is not None:
        raise UsageError("--record and --no-recording were given: which of them?")
    recording = None
    if NAME in chosen and not no_recording:
        recording = record or (data / "recording" if data is not None else Path(f"{kubeconfig}.recording"))
    bounds = recording_bounds(record_most, record_keep)
    scheduler = SchedulerFlags(evict_by_deletion=evict_by_deletion, schedule_csi_storage=schedule_csi_storage)
    workloads = WorkloadFlags(access_control=access_control)
    workloads.check(chosen)
    options = scheduler_options(scheduler_config, scheduler, workloads, chosen) | _admission_options(workloads, chosen)

    def recorded(options: object | None) -> SchedulerOptions:
        """The options of a scheduler, whichever it is, that records its cycles."""
        from bosket.scheduler.options import Options

        found = options if isinstance(options, Options) else Options()
        return replace(found, recording=recording, recording_bounds=bounds)

    def interpreted(service: str, arguments: Sequence[str], configuration: str = "") -> object | None:
        found = interpret(service, arguments, configuration)
        return recorded(found) if service == NAME and recording is not None else found

    if recording is not None and NAME in options:
        options[NAME] = recorded(options[NAME])
    flush_line(
        f"starting {nodes} nodes with {gpus} GPUs, {cpu} CPUs and {memory} of memory each; "
        f"services: {', '.join(chosen) or 'none'}"
    )

    from bosket.apiserver.persistence.database import StorageError
    from bosket.apiserver.persistence.directory import DataDirectory
    from bosket.embedded.cluster import EmbeddedCluster, Listen
    from bosket.embedded.node import NodeShape

    try:
        with nullcontext() if data is None else DataDirectory(data, accept_loss=accept_loss) as directory:
            if directory is not None and directory.database.loss:
                flush_line(f"{data} was damaged: {directory.database.loss}")
            cluster = EmbeddedCluster(
                nodes=nodes,
                shape=NodeShape(gpus=gpus, cpu=cpu, memory=memory),
                racks=racks,
                zones=zones,
                services=chosen,
                without=left_out,
                default_scheduler=default_scheduler,
                service_options=options,
                listen=Listen(kubeconfig=kubeconfig, port=port),
                plugin_server_port=plugin_server_port,
                data=directory,
                interpret=interpreted,
            )
            asyncio.run(_serve(cluster, kubeconfig, recording))
    except StorageError as error:
        raise CommandError(str(error)) from error


def _admission_options(workloads: WorkloadFlags, services: Collection[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't those of any embedded cluster."""
    if not workloads.access_control or "admission" not in services:
        return {}

    from bosket.embedded.object_admission import DEFAULT_OPTIONS

    return {"admission": replace(DEFAULT_OPTIONS, access_control=True)}


async def _running_server(kubeconfig: Path) -> str:
    """The address of the server that answers by the kubeconfig; nothing if none does.

    Whatever else has taken its port since doesn't have its certificate.
    """
    from bosket.kube.errors import ConfigError, TransportError
    from bosket.kube.http import HttpTransport
    from bosket.kube.kubeconfig import load
    from bosket.kube.transport import Request

    try:
        config = load(kubeconfig)
    except ConfigError:
        return ""
    transport = HttpTransport(config, timeout_seconds=_ASK_SECONDS, connect_timeout_seconds=_ASK_SECONDS)
    try:
        await transport.request(Request("GET", "/livez"))
    except TransportError as error:
        return config.server if error.maybe_carried_out else ""
    finally:
        await transport.aclose()
    return config.server


async def _serve(cluster: EmbeddedCluster, kubeconfig: Path, recording: Path | None) -> None:
    from bosket.runtime.service import stop_on_signals

    with stop_on_signals():
        async with cluster:
            await cluster.wait_ready()
            flush_line(f"API server: {cluster.url}")
            flush_line(f"try: kubectl --kubeconfig {kubeconfig} get nodes")
            if cluster.scheduler_url:
                flush_line(f"scheduler: {cluster.scheduler_url}")
                flush_line(f"try: bosket snapshot --kubeconfig {kubeconfig}")
            if recording is not None:
                flush_line(f"recording: {recording} (try: bosket record list {recording})")
            flush_line(cluster.said_of_schedulers)
            flush_line("ready")
            await cluster.wait_stopped()
    flush_line("stopped")


def _service_names(text: str) -> list[str]:
    from bosket.embedded.services import DEFAULT_SERVICES, UnknownService, entries

    if text == "none":
        return []
    try:
        return [entry.name for entry in entries(DEFAULT_SERVICES if text == "all" else text.split(","))]
    except UnknownService as error:
        raise UsageError(f"--services {text}: {error}") from error


def _controller_names(text: str) -> list[str]:
    from bosket.embedded.controllers import UnknownController, check_names

    names = [name.strip().removesuffix("-controller") for name in text.split(",") if name.strip()]
    try:
        check_names(names)
    except UnknownController as error:
        raise UsageError(f"--without {text}: {error}") from error
    return names


def _check_quantity(option: str, text: str) -> None:
    from bosket.api.quantity import InvalidQuantity, to_milli

    try:
        amount = to_milli(text)
    except InvalidQuantity as error:
        raise UsageError(f"{option} {text}: {error}") from error
    if amount < 0:
        raise UsageError(f"{option} {text}: must not be negative")
