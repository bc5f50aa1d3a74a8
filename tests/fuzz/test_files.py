"""Files that make no sense, given to every command that takes one: the answer is a sentence about the file, never an
error inside Bosket."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from bosket.cli.doctor import NothingChecked
from bosket.cli.main import main
from bosket.scheduler.recording import recorded
from bosket.testing.build import gang, node, pod_group, queue, topology
from tests.fuzz.fuzzed import budget_seconds, chance
from tests.scheduler.transcript import recording_of

RECORDING = json.dumps(
    recording_of([node("n0"), queue("q"), topology("t", "zone"), pod_group("g", min_member=2), *gang("g", 2)])
).encode()
FAIRSHARE = b'{"totalResource":{"gpu":8},"queues":[{"uid":"a","priority":1,"resourceShare":{"gpu":{"deserved":2}}}]}'
SCENARIO = b"Cycles: 3\nNodes:\n- GPUs: 8\n  Count: 1\nQueues:\n- Name: a\nJobs:\n  a:\n  - GPUs: 1\n    NumPods: 1\n"
SCHEDULER = b'actions: "allocate, reclaim"\ntiers:\n- plugins:\n  - name: predicates\n  - name: proportion\n'
GROVE = b"apiVersion: config.grove.io/v1alpha1\nkind: OperatorConfiguration\nlogLevel: info\n"
VALUES = b"global:\n  registry: registry.example.com\n  tolerations: []\n"
MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems: []\n"
KUBECONFIG = b"""apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
"""

#: What takes a file, and a file that it takes. Where one that can be read would start something, the rest of the
#: command line makes no sense, so that it ends there.
COMMANDS: dict[str, tuple[Sequence[str], bytes]] = {
    "replay": (("replay", "FILE", "--json"), RECORDING),
    "replay --usage": (("replay", "RECORDING", "--json", "--usage", "FILE"), b'{"q":{"gpu":0.5}}'),
    "topology": (("topology", "FILE"), RECORDING),
    "doctor": (("doctor", "FILE"), RECORDING),
    "doctor manifest": (("doctor", "FILE"), MANIFEST),
    "migrate": (("migrate", "FILE"), MANIFEST),
    "simulate fairshare": (("simulate", "fairshare", "FILE"), FAIRSHARE),
    "simulate time": (("simulate", "time", "FILE"), SCENARIO),
    "run --scheduler-config": (
        ("run", "scheduler", "--scheduler-config", "FILE", "--kubeconfig", "NOWHERE"),
        SCHEDULER,
    ),
    "run --config": (("run", "grove", "--config", "FILE", "--kubeconfig", "NOWHERE"), GROVE),
    "up --scheduler-config": (("up", "--scheduler-config", "FILE", "--listen", "nowhere"), SCHEDULER),
    "manifests": (("manifests", "--skip-crds", "--values", "FILE"), VALUES),
    "example": (("example", "FILE", "--kubeconfig", "NOWHERE"), MANIFEST),
    "crds": (("crds", "--install", "--kubeconfig", "FILE"), KUBECONFIG),
    "run --kubeconfig": (("run", "binder", "--kubeconfig", "FILE", "--context", "nobody"), KUBECONFIG),
    "snapshot": (("snapshot", "--kubeconfig", "FILE", "-o", "OUTPUT"), KUBECONFIG),
    "profile": (("profile", "--kubeconfig", "FILE", "-o", "OUTPUT"), KUBECONFIG),
}

QUICK = ("replay", "doctor manifest", "simulate fairshare", "simulate time", "manifests", "crds")


def zipped(content: bytes, name: str = "snapshot.json", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def encrypted(content: bytes) -> bytes:
    """With the flag that says so in both headers; what is in it doesn't matter."""
    data = bytearray(zipped(content))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(magic) + offset
        data[place : place + 2] = struct.pack("<H", 1)
    return bytes(data)


def of_method(content: bytes, method: int) -> bytes:
    """A zip file that says it was compressed by another method."""
    data = bytearray(zipped(content))
    for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = data.index(magic) + offset
        data[place : place + 2] = struct.pack("<H", method)
    return bytes(data)


LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 40))
NASTY: dict[str, bytes] = {
    "nothing": b"",
    "a null byte": b"\x00",
    "no UTF-8": b"\xff\xfe\xfd",
    "half a rune in JSON": b'{"rawObjects": {"pods": [{"metadata": {"name": "\xff"}}]}}',
    "a lone surrogate": b'{"rawObjects": {"pods": [{"metadata": {"name": "\\ud800"}}]}, "queues": [{"uid": "\\udf"}]}',
    "UTF-16": '{"rawObjects": {}}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"rawObjects": {}}',
    "deep lists": b"[" * 100_000,
    "deep lists that end": b"[" * 50_000 + b"]" * 50_000,
    "deep maps": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep in a recording": b'{"rawObjects": {"pods": [' + b'{"spec":' * 3000 + b"1" + b"}" * 3000 + b"]}}",
    "deep in a configuration": b'{"rawObjects": {}, "config": {"tiers":' + b"[" * 5000 + b"]" * 5000 + b"}}",
    "deep by indentation": b"".join(b" " * n + b"a:\n" for n in range(500)),
    "deep by dashes": b"- " * 20_000 + b"x",
    "aliases of aliases": LAUGHS,
    "an alias in itself": b"a: &a [*a]\n",
    "a date that is none": b"a: 2024-99-99\n",
    "a number of thousands of digits": b"a: " + b"9" * 5000,
    "thousands of digits": b'{"rawObjects": {"bindRequests": [{"metadata": {"name": "a", "resourceVersion": "'
    + b"9" * 5000
    + b'"}}]}, "cycles": '
    + b"9" * 5000
    + b"}",
    "not a number": b'{"totalResource": {"gpu": NaN}, "q": {"gpu": 1e999}}',
    "a key that is a list": b"? [a]\n: b\n",
    "an unknown tag": b"a: !!python/object:os.system x\n",
    "binary that is none": b"a: !!binary '*'\n",
    "a set, a pair": b"a: !!set {x}\nb: !!omap [y: 1]\n",
    "several documents": b"a: 1\n---\nb: 2\n---\n[c]\n",
    "a list": b"[1, 2]",
    "a text": b'"x"',
    "true": b"true",
    "null": b"null",
    "lists of nothing": b'{"rawObjects": {"pods": [null, 1, "x", [], {}]}, "queues": [null], "jobs": [1]}',
    "maps of nothing": b'{"rawObjects": null, "config": null, "schedulerParams": null, "bosket": null}',
    "types that are wrong": b'{"rawObjects": 1, "config": [], "bosket": "x", "queues": {}, "totalResource": []}',
    "a time of nowhere": b'{"rawObjects": {}, "bosket": {"time": "9999999-01-01T00:00:00Z"}}',
    "a time before all": b'{"rawObjects": {}, "bosket": {"time": "0001-01-01T00:00:00Z"}}',
    "durations of ages": b'{"rawObjects": {}, "schedulerParams": {"stuckInReleasingThreshold": 9223372036854775807}}',
    "an empty zip": zipped(b""),
    "a zip of something else": zipped(RECORDING, "other.json"),
    "a zip of a zip": zipped(zipped(RECORDING)),
    "a zip in a zip's beginning": zipped(RECORDING)[:60],
    "a zip without its end": zipped(RECORDING)[:-30],
    "a zip's end alone": zipped(RECORDING)[-60:],
    "an encrypted zip": encrypted(RECORDING),
    "a zip by LZMA": zipped(RECORDING, method=zipfile.ZIP_LZMA),
    "a zip that says LZMA": of_method(RECORDING, 14),
    "a zip that says bzip2": of_method(RECORDING, 12),
    "a zip by a method that nobody has": of_method(RECORDING, 99),
    "a zip in gzip": gzip.compress(RECORDING),
    "a zip of deep JSON": zipped(b"[" * 100_000),
}


def answer(
    name: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """What a command says about a file. It ends, within a few seconds, and calls nothing a bug."""
    arguments, _ = COMMANDS[name]
    (folder / "file").write_bytes(content)
    (folder / "recording").write_bytes(RECORDING)
    monkeypatch.chdir(folder)
    places = {"FILE": "file", "RECORDING": "recording", "NOWHERE": "nowhere", "OUTPUT": "output"}
    started = time.process_time()
    code = main([places.get(each, each) for each in arguments])
    said = capsys.readouterr()
    assert code in (0, 1, 2, NothingChecked.exit_code)
    assert "error inside Bosket" not in said.err, said.err
    assert code == 0 or said.err.startswith("bosket: "), said.err
    assert all(len(line) < 2000 for line in said.err.splitlines())
    assert time.process_time() - started < 10
    return said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_make_no_sense_get_a_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those that start a process' worth of things to read one file are given some of them: others read the same way.
    every = 1 if command in QUICK or "BOSKET_FUZZ_SECONDS" in os.environ else 6
    for kind, content in list(NASTY.items())[sorted(COMMANDS).index(command) % every :: every]:
        try:
            answer(command, content, tmp_path, capsys, monkeypatch)
        except AssertionError as error:
            raise AssertionError(f"{command}: {kind}: {error}") from error


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_nearly_right_get_a_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and words of a file that the command takes, changed at random."""
    dice, (_, right) = chance() if "BOSKET_FUZZ_SECONDS" in os.environ else Random(command), COMMANDS[command]
    until, tries = time.monotonic() + budget_seconds(0), 0
    while tries < 6 or time.monotonic() < until:
        tries += 1
        content = spoiled(dice, right)
        try:
            answer(command, content, tmp_path, capsys, monkeypatch)
        except AssertionError as error:
            raise AssertionError(f"{command}: {content!r}: {error}") from error


def spoiled(dice: Random, right: bytes) -> bytes:
    """The file with a few changes."""
    content = bytearray(right)
    words = (
        b"null",
        b"-1",
        b"1e999",
        b"[]",
        b"{}",
        b'""',
        b"true",
        b"9" * 400,
        b"\xff",
        b"]",
        b"}",
        b":",
        b"- ",
        b"\n",
    )
    changes: Sequence[Callable[[int], None]] = (
        lambda place: content.__setitem__(place, dice.randrange(256)),
        lambda place: content.__delitem__(slice(place, place + dice.randrange(1, 9))),
        lambda place: content.__setitem__(slice(place, place), dice.choice(words)),
        lambda place: content.__setitem__(slice(place, place), right[: dice.randrange(40)]),
        lambda place: content.__delitem__(slice(place, None)),
    )
    for _ in range(dice.choice((1, 1, 2, 5))):
        if content:
            dice.choice(changes)(dice.randrange(len(content)))
    return bytes(content)


def test_a_zip_bomb_is_refused_by_its_size_and_before_it_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "MOST_BYTES", 10**6)
    bomb = zipped(b" " * 5_000_000)
    assert len(bomb) < 10_000
    assert "has 5 MB, at most 1 are read" in answer("replay", bomb, tmp_path, capsys, monkeypatch)
    # One that says it is small gives no more than it says.
    lying = bytearray(bomb)
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = lying.index(magic) + offset
        lying[place : place + 4] = struct.pack("<I", 100)
    assert "not a readable zip file" in answer("replay", bytes(lying), tmp_path, capsys, monkeypatch)
    assert "has 5 MB" in answer("doctor", bomb, tmp_path, capsys, monkeypatch)
    assert "has 2 MB" in answer("replay", b" " * 2_000_000, tmp_path, capsys, monkeypatch)


def test_a_recording_of_very_many_small_parts_is_refused_before_they_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "MOST_PARTS", {b"{": 100, b",": 1000})
    for part, mark in ((b"{},", "100 of '{'"), (b"1,", "1,000 of ','")):
        bomb = b'{"rawObjects": {"pods": [' + part * 2000 + b"{}]}}"
        assert f"it has more than {mark}" in answer("replay", zipped(bomb), tmp_path, capsys, monkeypatch)


def test_what_is_wrong_with_a_zip_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, text in (
        (encrypted(RECORDING), "snapshot.json in the zip file is encrypted"),
        (of_method(RECORDING, 99), "not a readable zip file: That compression method is not supported"),
        (zipped(NASTY["deep in a recording"]), "it is nested too deeply"),
    ):
        assert text in answer("replay", content, tmp_path, capsys, monkeypatch)
