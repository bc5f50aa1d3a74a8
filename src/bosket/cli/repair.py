"""`bosket repair`: makes a data directory whose files were damaged usable again, with what can be read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bosket.cli.output import CommandError, UsageError, flush_line


def repair(directory: Annotated[Path, Parameter(show_default=False)], /) -> None:
    """Keep what can be read of a damaged data directory (bosket up --data), and say what was lost.

    The damaged files stay beside the new ones, as state.db.damaged-1 and so on. A directory that isn't damaged is left
    as it is.

    Parameters
    ----------
    directory
        The directory that bosket up --data was given. No server may be using it.
    """
    from bosket.apiserver.persistence.database import StorageError
    from bosket.apiserver.persistence.directory import DATABASE, DataDirectory, was_in_use

    try:
        if not was_in_use(directory):
            raise UsageError(f"{directory}: is no data directory: it has no {DATABASE}, or an empty one")
        with DataDirectory(directory, accept_loss=True) as data:
            kept = sum(1 for _ in data.database.rows())
            loss = data.database.loss
    except StorageError as error:
        raise CommandError(str(error)) from error
    if loss:
        flush_line(f"{directory} was damaged: {loss}")
        flush_line(f"repaired: the last known state of {kept} objects is kept")
    else:
        flush_line(f"{directory} is not damaged: {kept} writes can be read, and none is missing")
