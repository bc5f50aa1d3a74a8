"""The same cluster is decided on in the same way, to the byte: again, in another process, from shuffled lists."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bosket.api.kai import SubGroup
from bosket.api.object import KubeObject
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of
from tests.conformance.cases import conformance_folder
from tests.scheduler.random_cluster import RandomCluster, clusters
from tests.scheduler.transcript import (
    Json,
    decide_recording,
    recording_of,
    snapshot_and_configuration,
    transcript,
)

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
HASH_SEEDS = ("0", "1", "2")


def levelled_queues() -> list[KubeObject]:
    """Equal queues of equal age on three levels, each with more work than its part of the cluster."""
    objects: list[KubeObject] = [node(f"n{number}", gpus=4) for number in range(6)]
    objects += [queue(f"d{number}", quota=8) for number in range(3)]
    objects += [queue(f"t{number}", parent=f"d{number % 3}", quota=4) for number in range(6)]
    objects += [queue(f"q{number}", parent=f"t{number % 6}", quota=1) for number in range(12)]
    for number in range(16):
        name = f"g{number}"
        objects += [pod_group(name, min_member=1, queue=f"q{number % 12}", created=NOW), *gang(name, 1 + number % 3)]
    return objects


def subgroups_and_extras() -> list[KubeObject]:
    """Gangs of sub-groups that grow, of pods that ask for many things, on nodes that are alike."""
    extended = {f"example.com/{name}": "4" for name in ("fpga", "dpu", "tpu")}
    objects: list[KubeObject] = [node(f"n{number}", extended=extended) for number in range(4)]
    objects.append(queue("q"))
    for number in range(6):
        name = f"g{number}"
        subgroups = (
            SubGroup(name="all", minSubGroup=1),
            SubGroup(name="left", parent="all", minMember=2),
            SubGroup(name="right", parent="all", minMember=1),
            SubGroup(name="alone", minMember=1),
        )
        objects.append(pod_group(name, subgroups=subgroups, min_subgroup=number % 2 + 1, created=NOW))
        for member, resource in enumerate((*extended, *extended)):
            builder = pod(f"{name}-{member}").cpu("1").gpu(member % 3).asks(resource, "1")
            objects.append(builder.of_group(name, ("left", "right", "alone")[member % 3]).build())
    return objects


def releasing_pods() -> list[KubeObject]:
    """Some gangs fit now, some only when others are gone, some not at all."""
    objects: list[KubeObject] = [node(f"n{number}", gpus=8) for number in range(5)]
    objects += [queue(f"q{number}", quota=4, limit=12) for number in range(3)]
    for number in range(5):
        leaving = pod(f"leaving{number}").gpu(5).running_on(f"n{number}")
        objects.append(leaving.being_deleted_at(NOW).build())
    for number in range(9):
        name = f"g{number}"
        group = pod_group(name, min_member=1 + number % 4, queue=f"q{number % 3}", created=NOW)
        objects += [group, *gang(name, 5, gpus=1 + number % 3)]
    return objects


def recorded_cases() -> list[Any]:
    """The first of some families of recorded cycles, where this machine has them."""
    folder = conformance_folder("differential")
    files = sorted((folder / "cases").glob("*.jsonl"))[2::3] if folder else []
    return [pytest.param(lambda file=file: _first_of(file), id=f"recorded {file.stem}") for file in files]


def _first_of(file: Path) -> Json:
    with file.open("rb") as lines:
        snapshot: Json = msgspec.json.decode(next(lines))["snapshot"]
    return snapshot


def evictions() -> Json:
    """A random cluster in which all actions find something to do."""
    return {"config": {"actions": ", ".join(ACTIONS)}, **recording_of(RandomCluster(191, 5, 5, 6).objects())}


CASES = [
    pytest.param(lambda: recording_of(levelled_queues()), id="levelled queues"),
    pytest.param(lambda: recording_of(subgroups_and_extras()), id="sub-groups and extras"),
    pytest.param(lambda: recording_of(releasing_pods()), id="releasing pods"),
    pytest.param(evictions, id="evictions"),
    *recorded_cases(),
]


def shuffled(recording: Json, dice: Random) -> Json:
    """The same objects in other orders, and the same maps with other orders of keys."""

    def turn(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: turn(value[key]) for key in dice.sample(sorted(value), len(value))}

    lists = {
        name: [turn(each) for each in dice.sample(items, len(items))] for name, items in recording["rawObjects"].items()
    }
    return {**recording, "rawObjects": turn(lists)}


@pytest.mark.parametrize("make", CASES[:4])
def test_there_is_something_to_decide(make: Callable[[], Json]) -> None:
    snapshot, configuration = snapshot_and_configuration(make())
    decisions = decide(snapshot, configuration)
    assert len(decisions.operations) > 10
    assert any(waiting.reasons for waiting in decisions.waiting)


def test_some_of_it_is_eviction() -> None:
    snapshot, configuration = snapshot_and_configuration(evictions())
    assert decide(snapshot, configuration).evictions


@pytest.mark.shared("conformance/differential", cases=3)
def test_recorded_cycles_are_among_them() -> None:
    assert len(recorded_cases()) >= 3


@pytest.mark.parametrize("make", CASES)
def test_one_snapshot_decided_a_hundred_times(make: Callable[[], Json]) -> None:
    snapshot, configuration = snapshot_and_configuration(make())
    assert len({transcript(snapshot, decide(snapshot, configuration)) for _ in range(100)}) == 1


@pytest.mark.parametrize("make", CASES)
def test_shuffled_lists_are_decided_alike(make: Callable[[], Json]) -> None:
    recording = make()
    expected = decide_recording(recording)
    assert {decide_recording(shuffled(recording, Random(seed))) for seed in range(10)} == {expected}


def test_other_processes_with_other_hashes_decide_alike(tmp_path: Path) -> None:
    recordings: list[Json] = [case.values[0]() for case in CASES]
    expected = [decide_recording(each).decode() for each in recordings]
    started = []
    for number, seed in enumerate(HASH_SEEDS):
        file = tmp_path / f"{number}.json"
        file.write_bytes(msgspec.json.encode([shuffled(each, Random(number)) for each in recordings]))
        command = [sys.executable, "-m", "tests.scheduler.transcript", str(file)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        started.append(
            subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, encoding="utf-8")
        )
    for process in started:
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert printed.splitlines() == expected


@given(clusters(), st.integers(0, 2**32))
# Pods whose requests are vectors of other lengths, because more resources were known when they were seen.
@example(RandomCluster(seed=151111, nodes=5, queues=1, jobs=3, releasing=True, sharing=True, close=True), 0)
@settings(max_examples=60)
def test_the_order_in_which_objects_are_seen_changes_nothing(cluster: RandomCluster, seed: int) -> None:
    def outcome(objects: list[KubeObject]) -> bytes:
        snapshot = snapshot_of(objects)
        return transcript(snapshot, decide(snapshot, Configuration(actions=tuple(ACTIONS))))

    objects = cluster.objects()
    assert outcome(Random(seed).sample(objects, len(objects))) == outcome(objects)
