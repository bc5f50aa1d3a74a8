"""Finds recorded cases below given paths and gives a verdict on each.

Files are known by what is in them: KAI's own scheduling tests (`cases` in a JSON file), recorded cycles, fair-share
divisions and pod groupings (one a line in a JSONL file), PodCliqueSets of Grove's operator (one a JSON file).
Everything else is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance import differential, fairshare, grove, kai, podgrouper
from tests.conformance.verdict import Outcome, Verdict

Json = dict[str, Any]

#: Folders with answers of single runs, beside the cases that they belong to.
NOT_CASES = frozenset({"observed", "traces"})
#: The pod grouper's own words for outcomes.
GROUPING_OUTCOMES = {
    "passed": Outcome.PASSED,
    "tolerated": Outcome.PASSED,
    "failed": Outcome.FAILED,
    "unsupported": Outcome.NOT_RUN,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases to run: those whose id contains the text."""

    text: str = ""

    def has(self, case: str) -> bool:
        return self.text in case


def verdicts(paths: Iterable[Path], selection: Selection | None = None) -> Iterator[Verdict]:
    """Runs all cases in files at or below the paths, in order of the files' names."""
    wanted = selection or Selection()
    groupings: dict[Path, set[str]] = {}
    sets: list[Path] = []
    for file in _files(paths):
        read = _reader(file)
        if read is not None:
            yield from read(file, wanted)
        elif _is_grouping(file):
            groupings.setdefault(file.parent.parent, set()).add(file.stem)
        elif _is_set(file) and wanted.has(file.stem):
            sets.append(file)
    for folder, kinds in groupings.items():
        yield from _groupings(folder, kinds, wanted)
    yield from grove.verdicts(sets)


class _Named(msgspec.Struct):
    id: str


class _File(msgspec.Struct):
    cases: list[_Named] = []
    id: str = ""


def ids(paths: Iterable[Path]) -> frozenset[str]:
    """The ids of all cases at or below the paths, without running them."""
    found = set[str]()
    for file in _files(paths):
        if file.suffix == ".json":
            document = msgspec.json.decode(file.read_bytes(), type=_File)
            found |= {document.id} if document.id else {case.id for case in document.cases}
        else:
            found |= {msgspec.json.decode(line, type=_Named).id for line in file.read_bytes().splitlines()}
    return frozenset(found)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    seen = set[Path]()
    for path in paths:
        found = sorted(path.rglob("*.json*")) if path.is_dir() else [path]
        for file in found:
            if file.suffix in (".json", ".jsonl") and not NOT_CASES & set(file.parts) and file not in seen:
                seen.add(file)
                yield file


Reader = Callable[[Path, Selection], Iterator[Verdict]]


def _reader(file: Path) -> Reader | None:
    if file.suffix == ".json":
        document = msgspec.json.decode(file.read_bytes())
        return _kai if isinstance(document, dict) and {"schemaVersion", "cases"} <= document.keys() else None
    first = _first_line(file)
    if "snapshot" in first:
        return _cycles
    return _divisions if "queues" in first.get("input", {}) else None


def _is_set(file: Path) -> bool:
    """Whether the file is a case of Grove's operator: one a file, which is named like it."""
    return file.suffix == ".json" and grove.is_case(msgspec.json.decode(file.read_bytes()))


def _is_grouping(file: Path) -> bool:
    return file.suffix == ".jsonl" and "pod" in _first_line(file).get("input", {})


def _first_line(file: Path) -> Json:
    with file.open("rb") as lines:
        document: Json = msgspec.json.decode(next(lines, b"{}"))
    return document


def _kai(file: Path, selection: Selection) -> Iterator[Verdict]:
    for case in msgspec.json.decode(file.read_bytes())["cases"]:
        if selection.has(case["id"]):
            group = case["id"].rsplit("/", 2)[0]
            yield _judge(case, group, _passes(kai.differences))


def _cycles(file: Path, selection: Selection) -> Iterator[Verdict]:
    for case in _lines(file, selection):
        yield _judge(case, f"differential {case['family']}", differential.judge)


def _divisions(file: Path, selection: Selection) -> Iterator[Verdict]:
    for case in _lines(file, selection):
        yield _judge(case, f"fair share {case['group']}", _passes(fairshare.differences))


def _groupings(folder: Path, kinds: set[str], selection: Selection) -> Iterator[Verdict]:
    for each in asyncio.run(podgrouper.run(folder)):
        if each.kind in kinds and selection.has(each.case):
            outcome = GROUPING_OUTCOMES[each.verdict]
            differences = each.differences if outcome == Outcome.FAILED else ()
            yield Verdict(each.case, "pod grouping", outcome, differences)


def _lines(file: Path, selection: Selection) -> Iterator[Json]:
    for line in file.read_bytes().splitlines():
        case: Json = msgspec.json.decode(line)
        if selection.has(case["id"]):
            yield case


Judge = Callable[[Json], tuple[Outcome, list[str]]]


def _passes(differences: Callable[[Json], list[str]]) -> Judge:
    def judge(case: Json) -> tuple[Outcome, list[str]]:
        found = differences(case)
        return (Outcome.FAILED if found else Outcome.PASSED), found

    return judge


def _judge(case: Json, group: str, judge: Judge) -> Verdict:
    try:
        outcome, differences = judge(case)
    except Exception as error:  # a case that brings the scheduler down is a failed one; the others still count
        return Verdict(case["id"], group, Outcome.FAILED, (f"{type(error).__name__}: {error}",))
    return Verdict(case["id"], group, outcome, tuple(differences))
