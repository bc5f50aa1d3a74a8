"""Paths as command lines give them: `~` is the home directory, also where the shell leaves it, as in `--file=~/x`.

It is expanded when the option is read, so that nobody looks at one file and writes another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token


def _expanded(_: Any, tokens: Sequence[Token]) -> Path:
    try:
        return Path(tokens[0].value).expanduser()
    except RuntimeError as error:  # ~nobody
        raise ValueError(f"{tokens[0].value}: {error}") from error


FilePath = Annotated[Path, Parameter(converter=_expanded)]
OptionalFilePath = Annotated[Path | None, Parameter(converter=_expanded)]
