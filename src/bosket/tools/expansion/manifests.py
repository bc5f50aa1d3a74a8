"""Files of workloads: YAML or JSON, of one document or several, lists of objects, directories, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bosket.api.document import UnreadableDocument, read_yaml_documents
from bosket.tools.expansion.item import Document, ExpansionError

STANDARD_INPUT: Final = Path("-")
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
#: Of one file: larger ones no API server would take.
_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it was written."""

    document: Document
    where: str  #: file and document, for messages


def read_manifests(paths: Iterable[Path]) -> list[Manifest]:
    """The objects of all files, in order; of a directory those of its YAML and JSON files by name. Raises
    `ExpansionError`."""
    found: list[Manifest] = []
    for path in paths:
        if path == STANDARD_INPUT:
            found += _parse(sys.stdin.buffer.read(_MOST_BYTES + 1), "standard input")
            continue
        files = _files_in(path) if path.is_dir() else [path]
        for file in files:
            try:
                with file.open("rb") as stream:
                    data = stream.read(_MOST_BYTES + 1)
            except OSError as error:
                raise ExpansionError(f"{file}: can't read it: {error.strerror or error}") from error
            found += _parse(data, str(file))
    return found


def _files_in(directory: Path) -> list[Path]:
    files = sorted(each for each in directory.iterdir() if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise ExpansionError(f"{directory}: the directory has no .yaml, .yml or .json file")
    return files


def _parse(data: bytes, source: str) -> Iterator[Manifest]:
    if len(data) > _MOST_BYTES:
        raise ExpansionError(f"{source}: it has more than {_MOST_BYTES >> 20} MiB")
    try:
        documents = read_yaml_documents(data)
    except UnreadableDocument as error:
        raise ExpansionError(f"{source}: {error}") from error
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _objects(document, f"{source}, document {number}" if len(documents) > 1 else source)


def _objects(document: Any, where: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise ExpansionError(f"{where}: is no object with apiVersion, kind and metadata")
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        for number, item in enumerate(items):
            yield from _objects(item, f"{where}, items[{number}]")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise ExpansionError(f"{where}: {field} is missing, or no text")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ExpansionError(f"{where}: metadata is missing, or no object")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        prefix = metadata.get("generateName")
        if not isinstance(prefix, str) or not prefix:
            raise ExpansionError(f"{where}: metadata.name is missing, or no text")
        document = {**document, "metadata": {**metadata, "name": f"{prefix}plan"}}
    yield Manifest(document, where)
