"""docs/plan.md shows what the command really prints of the cluster of docs/commands.md.

python -m tests.plan.test_documentation     # writes the blocks anew
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.cli.main import main
from tests.cli import documented
from tests.cli.everyday import recorded
from tests.cli.test_documented_commands import TERMINAL

DOCUMENT = documented.DOCUMENT.with_name("plan.md")
BLOCK = re.compile(r"^```console\n\$ (bosket [^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MANIFEST = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def objects() -> Iterator[KubeObject]:
    """The documented cluster, with pods that their Jobs make anew, and that began when their jobs were made."""
    known = documented.objects()
    groups = {each.key: each for each in known if isinstance(each, PodGroup)}
    for each in known:
        if not isinstance(each, Pod):
            yield each
            continue
        meta = each.metadata
        group = groups[ObjectKey(meta.namespace, meta.annotations["pod-group-name"])].metadata
        created = group.creationTimestamp
        yield msgspec.structs.replace(
            each,
            metadata=msgspec.structs.replace(meta, ownerReferences=group.ownerReferences, creationTimestamp=created),
            status=msgspec.structs.replace(each.status, startTime=created if each.spec.nodeName else None),
        )


def blocks() -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in BLOCK.finditer(DOCUMENT.read_text())]


def output_of(command: str, folder: Path) -> str:
    """What the command prints in a folder with the cluster and the page's manifest."""
    manifest = MANIFEST.search(DOCUMENT.read_text())
    assert manifest is not None
    (folder / "train.yaml").write_text(manifest[1])
    said = io.StringIO()
    arguments = [*shlex.split(command)[1:], "--snapshot", recorded(folder, objects())]
    with contextlib.chdir(folder), patch.dict(os.environ, TERMINAL), contextlib.redirect_stdout(said):
        assert main(arguments) in (0, 2, 3, 4)
    return said.getvalue()


@pytest.mark.parametrize(("command", "shown"), blocks())
def test_what_is_shown_is_what_is_printed(command: str, shown: str, tmp_path: Path) -> None:
    assert output_of(command, tmp_path) == shown, "python -m tests.plan.test_documentation writes it anew"


@pytest.mark.parametrize("columns", ["80", "160"])
@pytest.mark.parametrize("command", [command for command, _ in blocks()])
def test_nothing_is_wider_than_the_terminal(command: str, columns: str, tmp_path: Path) -> None:
    with patch.dict(TERMINAL, COLUMNS=columns):
        assert all(len(line) <= int(columns) for line in output_of(command, tmp_path).splitlines())


def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = BLOCK.sub(
            lambda found: f"```console\n$ {found[1]}\n{output_of(found[1], Path(folder))}```", DOCUMENT.read_text()
        )
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    _write()
