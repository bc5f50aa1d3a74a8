"""docs/commands.md shows what the commands really print: each block that begins with `$ bosket` is run and compared.

python -m tests.cli.test_documented_commands     # writes the blocks anew
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from bosket.cli import events, top
from bosket.cli.main import main
from tests.cli import documented
from tests.cli.everyday import recorded

BLOCK = re.compile(r"^```console\n\$ (bosket [^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A terminal of the usual width, without colour, in no particular part of the world.
TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80", "TERM": "xterm-256color", "TZ": "UTC"}


def blocks() -> Iterator[tuple[str, str]]:
    for found in BLOCK.finditer(documented.DOCUMENT.read_text()):
        yield found[1], found[2]


def output_of(command: str, snapshot: str) -> str:
    """What the command prints of the documented cluster."""
    arguments = [*shlex.split(command)[1:], "--snapshot", snapshot]
    said = io.StringIO()
    with (
        patch.dict(os.environ, TERMINAL),
        patch.object(events, "open_history", lambda _: documented.history()),
        patch.object(top, "open_history", lambda _: documented.history()),
        contextlib.redirect_stdout(said),
    ):
        time.tzset()
        assert main(arguments) == 0
    time.tzset()
    return said.getvalue()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(tmp_path_factory.mktemp("documented"), documented.objects())


@pytest.mark.parametrize(("command", "shown"), list(blocks()))
def test_what_is_shown_is_what_is_printed(command: str, shown: str, snapshot: str) -> None:
    assert output_of(command, snapshot) == shown, "python -m tests.cli.test_documented_commands writes it anew"


def test_every_everyday_command_is_shown() -> None:
    shown = {command.split()[1] for command, _ in blocks()}
    assert {"queues", "jobs", "order", "nodes", "events", "top"} <= shown


def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = recorded(Path(folder), documented.objects())
        text = documented.DOCUMENT.read_text()
        made = BLOCK.sub(lambda found: f"```console\n$ {found[1]}\n{output_of(found[1], file)}```", text)
    documented.DOCUMENT.write_text(made)


if __name__ == "__main__":
    _write()
