"""`bosket version`."""

from __future__ import annotations

import platform

from bosket import __version__
from bosket.cli.output import Flag, flush_line


def version(*, json: Flag = False) -> None:
    """Print the version.

    Parameters
    ----------
    json
        Print a JSON object, with the version of Python beside it.
    """
    if json:
        import msgspec

        flush_line(msgspec.json.encode({"bosket": __version__, "python": platform.python_version()}).decode())
    else:
        flush_line(__version__)
