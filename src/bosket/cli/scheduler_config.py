"""`--scheduler-config FILE`: the scheduler's configuration, in KAI's format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bosket.cli.output import UsageError, complain

if TYPE_CHECKING:
    from bosket.scheduler.framework.configuration import Configuration


def read_configuration(file: Path) -> Configuration:
    """What the file says, checked before anything starts; raises `UsageError`."""
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
