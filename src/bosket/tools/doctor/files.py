"""Reads a `Bundle` from files: what `kubectl get -o yaml` (or `-o json`) prints, manifests, and KAI's snapshot files.

Known are the kinds that occur in the files, and of a snapshot all that it records; checks that need another are left
out.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bosket.api.document import UnreadableDocument, read_json, read_yaml_documents
from bosket.api.object import KubeObject
from bosket.api.table import resource_for
from bosket.kube.codec import strip_nulls
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import RecordedError
from bosket.scheduler.recording.recorded import read as read_recording
from bosket.tools.doctor.bundle import Bundle, bundle_of
from bosket.tools.doctor.collect import SETTINGS

_SUFFIXES: Final = (".yaml", ".yml", ".json", ".zip")


class UnreadableFile(ValueError):
    """A file that holds no objects; the message names it."""


@dataclass
class _Gathered:
    objects: list[KubeObject] = field(default_factory=list)
    kinds: set[type[KubeObject]] = field(default_factory=set)
    malformed: list[str] = field(default_factory=list)
    foreign: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    settings: dict[type[KubeObject], list[dict[str, Any]]] = field(default_factory=dict)
    now: float | None = None


def read_files(paths: Iterable[Path]) -> Bundle:
    """All objects of these files, and of the files in these folders; raises `UnreadableFile`."""
    gathered = _Gathered()
    for path in paths:
        for file in _files(path):
            try:
                data = file.read_bytes()
            except OSError as error:
                raise UnreadableFile(f"{file}: {error.strerror or error}") from error
            _read(data, str(file), gathered)
    return bundle_of(
        _latest(gathered.objects),
        gathered.kinds,
        malformed=tuple(gathered.malformed),
        foreign={key: tuple(each) for key, each in gathered.foreign.items()},
        settings={kind: tuple(each) for kind, each in gathered.settings.items()},
        now=gathered.now,
    )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not found:
        raise UnreadableFile(f"{path}: there are no files in it that end in {', '.join(_SUFFIXES)}")
    return found


def _latest(objects: Iterable[KubeObject]) -> Iterable[KubeObject]:
    """Each object once: one that is in several files is as the last of them says."""
    return {(type(obj), obj.key): obj for obj in objects}.values()


def _read(data: bytes, source: str, into: _Gathered) -> None:
    if zipfile.is_zipfile(io.BytesIO(data)):
        _read_snapshot(data, source, into)
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{source}: neither text nor a zipped snapshot") from error
    try:
        documents = _documents(text)
    except UnreadableDocument as error:
        raise UnreadableFile(f"{source}: neither JSON nor YAML: {error}") from error
    for document in documents:
        if isinstance(document, dict) and "rawObjects" in document:
            _read_snapshot(data, source, into)
        else:
            _take(document, source, into)


def _documents(text: str) -> list[Any]:
    # JSON is YAML, too, but a hundred times slower to read as such.
    try:
        return [read_json(text.encode())]
    except UnreadableDocument:
        return read_yaml_documents(text)


def _read_snapshot(data: bytes, source: str, into: _Gathered) -> None:
    try:
        recorded = read_recording(data, source)
    except RecordedError as error:
        raise UnreadableFile(str(error)) from error
    for name, objects in recorded.objects.items():
        into.kinds.add(LISTS[name].kind)
        into.objects += objects
    into.malformed += recorded.unreadable
    into.now = recorded.now if recorded.now is not None else into.now


def _take(document: Any, source: str, into: _Gathered) -> None:
    if document is None:
        return
    if isinstance(document, list):
        for each in document:
            _take(each, source, into)
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise UnreadableFile(f"{source}: holds something that is no Kubernetes object: it has no kind")
    kind, api_version = document["kind"], str(document.get("apiVersion", ""))
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for each in document["items"]:
            # Lists of one kind leave out what their objects are.
            inherited = {"apiVersion": api_version, "kind": kind.removesuffix("List")} if kind != "List" else {}
            _take({**inherited, **each} if isinstance(each, dict) else each, source, into)
        if kind != "List" and (resource := resource_for(api_version, kind.removesuffix("List"))) is not None:
            into.kinds.add(resource.struct)
        return
    resource = resource_for(api_version, kind)
    if resource is None:
        into.foreign.setdefault((api_version.rpartition("/")[0], kind), []).append(document)
        return
    meta = document.get("metadata")
    names = (meta.get("namespace"), meta.get("name")) if isinstance(meta, dict) else ()
    name = "/".join(str(part) for part in names if part)
    try:
        obj = msgspec.convert(strip_nulls(document), resource.struct)
    except msgspec.ValidationError as error:
        into.malformed.append(f"{kind} {name}: {error} ({source})")
        return
    into.kinds.add(resource.struct)
    if resource.struct in SETTINGS:
        into.settings.setdefault(resource.struct, []).append(document)
    into.objects.append(msgspec.structs.replace(obj, apiVersion="", kind=""))
