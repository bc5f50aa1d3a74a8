"""Files of examples: YAML documents of objects, of which one may stand for several. Pure.

In a document `{0..2}` stands for the numbers 0, 1 and 2, as in a shell: there are as many copies of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bosket.api.document import UnreadableDocument, read_yaml

Manifest = dict[str, Any]

_RANGE: Final = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}", re.ASCII)
_SEPARATOR: Final = re.compile(r"^---\s*$", re.MULTILINE)
_MOST_COPIES: Final = 1000


class InvalidExample(ValueError):
    """A file that can't be an example; the message names file and document."""


def read_example(path: Path) -> list[Manifest]:
    """The objects of a file, in its order; raises `InvalidExample`, or `OSError`."""
    manifests = []
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidExample(f"{path}: not UTF-8") from error
    for number, text in enumerate(_SEPARATOR.split(content), start=1):
        where = f"{path}, document {number}"
        for copy in _copies(text, where):
            try:
                manifest = read_yaml(copy)
            except UnreadableDocument as error:
                raise InvalidExample(f"{where}: {error}") from error
            if manifest is not None:
                manifests.append(_checked(manifest, where))
    return manifests


def _copies(text: str, where: str) -> Iterator[str]:
    ranges = set(_RANGE.findall(text))
    if not ranges:
        yield text
        return
    if len(ranges) > 1:
        raise InvalidExample(f"{where}: has several ranges of numbers; all of a document must be the same")
    ((first, last),) = ranges
    numbers = range(int(first), int(last) + 1)
    if not 0 < len(numbers) <= _MOST_COPIES:
        raise InvalidExample(f"{where}: {{{first}..{last}}} must be 1 to {_MOST_COPIES} numbers, the smallest first")
    for number in numbers:
        yield _RANGE.sub(str(number), text)


def _checked(manifest: Any, where: str) -> Manifest:
    if not isinstance(manifest, dict):
        raise InvalidExample(f"{where}: is no object with apiVersion, kind and metadata")
    metadata = manifest.get("metadata")
    for field, value in (
        ("apiVersion", manifest.get("apiVersion")),
        ("kind", manifest.get("kind")),
        ("metadata.name", metadata.get("name") if isinstance(metadata, dict) else None),
    ):
        if not isinstance(value, str) or not value:
            raise InvalidExample(f"{where}: {field} is missing, or no text")
    return manifest
