"""What Grove's configuration file says about the process itself: logs, leases, where it answers, profiles.

It counts where no flag says otherwise, and only what stands in the file: Grove's defaults are those of its own pods.
Fields without effect are logged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bosket.cli.output import LogFormat, LogLevel

if TYPE_CHECKING:
    from bosket.api.grove.operator_configuration import OperatorConfiguration
    from bosket.runtime.health import Address
    from bosket.runtime.leader import LeaseTiming

_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What a file says; None, or nothing, where it is silent."""

    log_format: LogFormat | None = None
    log_level: LogLevel | None = None
    leader_elect: bool | None = None
    lease_timing: LeaseTiming | None = None
    listen: tuple[Address, ...] = ()
    profiler_port: int | None = None


def process_settings(
    configuration: OperatorConfiguration, document: Any, namespace: str, report: Callable[[str], None]
) -> ProcessSettings:
    """From a valid configuration and the document that it was read from; `namespace` is where leases live."""
    for problem in _without_effect(configuration, document, namespace):
        report(problem)
    return ProcessSettings(
        log_format=_log_format(configuration) if _said(document, "logFormat") else None,
        log_level=configuration.logLevel if _said(document, "logLevel") else None,
        leader_elect=configuration.leaderElection.enabled if _said(document, "leaderElection.enabled") else None,
        lease_timing=_lease_timing(configuration) if configuration.leaderElection.enabled else None,
        listen=tuple(_addresses(configuration, document)),
        profiler_port=configuration.debugging.pprofBindPort if configuration.debugging.enableProfiling else None,
    )


def _said(document: Any, path: str) -> bool:
    """Whether there is something in the document."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document is not None and document != ""


def _log_format(configuration: OperatorConfiguration) -> LogFormat:
    return "json" if configuration.logFormat == "json" else "human"


def _lease_timing(configuration: OperatorConfiguration) -> LeaseTiming:
    from bosket.api.time import parse_duration
    from bosket.runtime.leader import LeaseTiming

    election = configuration.leaderElection
    # A Lease says for how many whole seconds it is good.
    return LeaseTiming(
        math.ceil(parse_duration(election.leaseDuration)),
        parse_duration(election.renewDeadline),
        parse_duration(election.retryPeriod),
    )


def _addresses(configuration: OperatorConfiguration, document: Any) -> Iterator[Address]:
    """Where metrics and probes are answered; each answers both."""
    from bosket.runtime.health import Address

    server = configuration.server
    for name, section in (("metrics", server.metrics), ("healthProbes", server.healthProbes)):
        if _said(document, f"server.{name}"):
            yield Address(section.bindAddress or _LOOPBACK, section.port)


def _without_effect(configuration: OperatorConfiguration, document: Any, namespace: str) -> Iterator[str]:
    if _said(document, "runtimeClientConnection"):
        yield "runtimeClientConnection has no effect: calls aren't held back, and are made in JSON"
    election = configuration.leaderElection
    if election.resourceLock != "leases":
        yield "leaderElection.resourceLock has no effect: leaders are elected by Leases"
    if election.resourceNamespace not in ("", namespace):
        yield f"leaderElection.resourceNamespace has no effect: leases are in --namespace {namespace}"
    if configuration.debugging.pprofBindHost not in (_LOOPBACK, "localhost"):
        yield f"debugging.pprofBindHost has no effect: profiles are taken on {_LOOPBACK} alone"
    for index, profile in enumerate(configuration.scheduler.profiles):
        if profile.config:
            yield f"scheduler.profiles[{index}].config has no effect: no backend reads one"
