"""`--scheduler-config FILE`: the scheduler's configuration, in KAI's format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bosket.cli.output import UsageError, complain

if TYPE_CHECKING:
    from bosket.scheduler.configuration.configuration import Configuration


def read_configuration(file: Path) -> Configuration:
    """What the file says, checked before anything starts; raises `UsageError`."""
    from bosket.scheduler.configuration.configuration import ConfigurationError
    from bosket.scheduler.configuration_watch import checked_configuration

    def report(problem: str) -> None:
        complain(f"--scheduler-config {file}: {problem}")

    try:
        return checked_configuration(file.read_text(encoding="utf-8"), report)
    except OSError as error:
        raise UsageError(f"--scheduler-config {file}: can't read it: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--scheduler-config {file}: not UTF-8") from error
    except ConfigurationError as error:
        raise UsageError(f"--scheduler-config {file}: {' '.join(str(error).split())}") from error
