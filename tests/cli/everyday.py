"""A cluster for the everyday commands, as a snapshot file, and a terminal of any width to look at it with."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from bosket.api.core import Node
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, OwnerReference
from bosket.cli.main import main
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import cordoned, job, node, queue
from bosket.testing.cluster import NOW, state_of

LONG = "evaluation-of-all-checkpoints-of-the-large-language-model"

#: Sets the title of a terminal, clears it, and goes back to the line's beginning.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r."


def owned(made: list[KubeObject], workload: str) -> list[KubeObject]:
    """The same job, its pod group owned by a batch Job of this name."""
    group, *pods = made
    assert isinstance(group, PodGroup)
    owner = OwnerReference(apiVersion="batch/v1", kind="Job", name=workload, uid="u", controller=True)
    metadata = msgspec.structs.replace(group.metadata, ownerReferences=(owner,))
    return [msgspec.structs.replace(group, metadata=metadata), *pods]


def in_rack(node: Node, rack: str) -> Node:
    """The node with the label that embedded clusters have."""
    labels = {**node.metadata.labels, "bosket.dev/rack": rack}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


def company() -> list[KubeObject]:
    """Two teams on three nodes in two racks: `nlp` holds more than its quota, `vision` waits for its own."""
    hour = 3600.0
    return [
        queue("company", quota=-1),
        queue("nlp", parent="company", quota=8),
        queue("vision", parent="company", quota=8, limit=12),
        node("a-1", gpus=8, rack="a"),
        node("a-2", gpus=8, rack="a"),
        node("b-1", gpus=4, rack="b"),
        cordoned(node("b-2", gpus=4, rack="b")),
        *owned(job("pg-pretrain", 2, gpus=8, on="a-1", queue="nlp", created=NOW - 30 * hour), "pretrain")[:2],
        *job("tune", 1, gpus=6, on="a-2", queue="nlp", created=NOW - 2 * hour),
        *job("detector", 1, gpus=2, on="b-1", queue="vision", created=NOW - hour, namespace="vision"),
        *job("segment", 2, gpus=4, queue="vision", created=NOW - 600, namespace="vision"),
        *job("depth", 4, gpus=8, queue="vision", created=NOW - 90, namespace="vision"),
        *job(LONG, 1, gpus=8, queue="nlp", created=NOW - 45),
    ]


def recorded(folder: Path, objects: Iterable[KubeObject] | None = None) -> str:
    """The path of a snapshot file with these objects, by default `company`."""
    file = folder / "snapshot.zip"
    state = state_of(company() if objects is None else objects)
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    return str(file)


def as_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *, colour: bool = True) -> None:
    """Standard output passes for a terminal of that width."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints."""
    capsys.readouterr()
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def controls(text: str) -> set[str]:
    """The control characters in a text, line feeds apart."""
    return {each for each in text if unicodedata.category(each) == "Cc"} - {"\n"}
