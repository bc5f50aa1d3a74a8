"""The scheduler's part of the command line: `--scheduler-config FILE` and switches, checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bosket.cli.output import UsageError, complain

if TYPE_CHECKING:
    from bosket.scheduler.framework.configuration import Configuration


def service_options(
    file: Path | None, services: Iterable[str], *, evict_by_deletion: bool = False, schedule_csi_storage: bool = False
) -> dict[str, object]:
    """Options by the name of the service, for those that don't run with their defaults; raises `UsageError`."""
    given = [f"--scheduler-config {file}"] if file is not None else []
    given += ["--evict-by-deletion"] if evict_by_deletion else []
    given += ["--schedule-csi-storage"] if schedule_csi_storage else []
    if not given:
        return {}
    if "scheduler" not in services:
        raise UsageError(f"{given[0]}: the scheduler is not among the services that run")

    from bosket.scheduler import Options

    configuration = _read(file) if file is not None else Options().configuration
    if schedule_csi_storage:
        configuration = replace(configuration, settings=replace(configuration.settings, schedule_csi_storage=True))
    return {"scheduler": Options(configuration=configuration, evict_by_deletion=evict_by_deletion)}


def _read(file: Path) -> Configuration:
    from bosket.scheduler.actions import ACTIONS
    from bosket.scheduler.decide import known_part, make_plugins
    from bosket.scheduler.framework.configuration import ConfigurationError
    from bosket.scheduler.framework.configuration_file import parse_configuration
    from bosket.scheduler.usage.source import open_source

    def report(problem: str) -> None:
        complain(f"--scheduler-config {file}: {problem}")

    try:
        configuration = parse_configuration(file.read_text(encoding="utf-8"), known_actions=ACTIONS, report=report)
        known, _ = known_part(configuration)  # of what is missing the scheduler warns
        if configuration.usage_db is not None:
            open_source(configuration.usage_db)  # which is only made, and asked for nothing yet
        make_plugins(known)  # which arguments there are is known to the plugins alone
    except OSError as error:
        raise UsageError(f"--scheduler-config {file}: can't read it: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--scheduler-config {file}: not UTF-8") from error
    except ConfigurationError as error:
        raise UsageError(f"--scheduler-config {file}: {' '.join(str(error).split())}") from error
    return configuration
