"""Replays changes that `bosket explain --json` offered: does the job start? Knows nothing of how they were found.

A change is applied to the JSON of the snapshot file by an own reading of RFC 6902; the file is then decided on like any
other. A job has started if so many of its pods are bound, or are to be bound where others leave, as its pod group asks.
Run it as `python -m benchmarks.explain_verifier SNAPSHOT EXPLANATION`.
"""

from __future__ import annotations

import copy
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from bosket.api.object import ObjectKey
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.recorded import read

Json = Any
#: Which list of a snapshot file holds a kind.
_LISTS = {
    "Node": "nodes",
    "Queue": "queues",
    "PodGroup": "podGroups",
    "Pod": "pods",
    "PodDisruptionBudget": "podDisruptionBudgets",
    "PersistentVolumeClaim": "persistentVolumeClaims",
    "PriorityClass": "priorityClasses",
    "Topology": "topologies",
    "ConfigMap": "configMaps",
    "ResourceClaim": "resourceClaims",
}


class CannotReplay(Exception):
    """A patch that can't be applied."""


def starts(recording: bytes, patches: Json, namespace: str, name: str) -> bool:
    """Whether the job starts in the next cycle of the recorded cluster, once the patches are made."""
    document = _document(recording)
    for patch in patches:
        _apply(document["rawObjects"], patch)
    recorded = read(json.dumps(document).encode())
    configuration, _ = known_part(recorded.configuration)
    snapshot = recorded.snapshot(recorded.now or 0.0)
    return _has_started(snapshot, decide(snapshot, configuration), namespace, name)


def _has_started(snapshot: Snapshot, decisions: Decisions, namespace: str, name: str) -> bool:
    job = next(each for key, each in snapshot.jobs.items() if tuple(key) == (namespace, name))
    going = {each.task.key for each in decisions.evictions}
    placed = ({each.task.key for each in decisions.binds} | {each.task.key for each in decisions.pipelined}) - going
    placed |= {task.key for task in job.tasks if task.node and task.key not in going}
    new = {task.key for task in job.tasks if not task.node} & placed
    return bool(new) and _is_enough(job.root, placed)


def _is_enough(part: PodSet | SubGroupSet, placed: set[ObjectKey]) -> bool:
    """Whether a part of a gang has its minimum: of pods, or of parts that have theirs."""
    if isinstance(part, PodSet):
        return len({task.key for task in part.tasks} & placed) >= part.min_available
    return sum(_is_enough(child, placed) for child in part.children) >= part.min_children


def _document(recording: bytes) -> Json:
    if recording[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(recording)) as archive:
            recording = archive.read(archive.namelist()[0])
    return json.loads(recording)


def _apply(lists: Json, patch: Json) -> None:
    reference = patch["object"]
    found = lists.get(_LISTS[reference["kind"]]) or []
    lists[_LISTS[reference["kind"]]] = found
    place = next((number for number, each in enumerate(found) if _is(each, reference)), None)
    for operation in patch["ops"]:
        if operation["path"] == "" and operation["op"] == "add":
            found.append(operation["value"])
        elif place is None:
            raise CannotReplay(f"{reference} isn't there")
        elif operation["path"] == "" and operation["op"] == "remove":
            del found[place]
        else:
            _operate(found[place], operation)


def _is(document: Json, reference: Json) -> bool:
    metadata = document["metadata"]
    return bool(
        metadata["name"] == reference["name"] and metadata.get("namespace", "") == reference.get("namespace", "")
    )


def _operate(document: Json, operation: Json) -> None:
    *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    at = document
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    key: Any = int(last) if isinstance(at, list) and last != "-" else last
    value = copy.deepcopy(operation.get("value"))
    if operation["op"] == "remove":
        del at[key]
    elif operation["op"] == "replace":
        at[key]  # it must be there
        at[key] = value
    elif operation["op"] == "add" and isinstance(at, list):
        at.insert(len(at) if key == "-" else key, value)
    elif operation["op"] == "add":
        at[key] = value
    else:
        raise CannotReplay(f"operation {operation['op']}")


def main() -> int:
    recording, explanation = Path(sys.argv[1]).read_bytes(), json.loads(Path(sys.argv[2]).read_bytes())
    failed = 0
    for change in explanation["changes"]:
        is_right = starts(recording, change["patch"], explanation["job"]["namespace"], explanation["job"]["name"])
        failed += not is_right
        print(f"{'starts' if is_right else 'DOES NOT START'}: {change['sentence']}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
