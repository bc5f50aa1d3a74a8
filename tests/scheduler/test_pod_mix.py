"""Which pods the cluster sees is learned from those that come, the latest counting most, and kept with a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.pod_mix import MOST_SHAPES, NO_MIX, PodMix
from bosket.scheduler.recording.recorded import load
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.scheduler.state.pod_mixes import HALF_LIFE_SECONDS, MOST_COUNTED
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, state_of


def came(builder: PodBuilder, age: float = 0.0) -> Pod:
    """A pod that was created so many seconds ago."""
    import msgspec

    built = builder.of_group("g").build()
    created = format_time(NOW - age)
    return msgspec.structs.replace(built, metadata=msgspec.structs.replace(built.metadata, creationTimestamp=created))


def parts(mix: PodMix) -> dict[str, float]:
    return {str(shape): part for shape, part in zip(mix.shapes, mix.parts, strict=True)}


def seen(*pods: Pod) -> ClusterState:
    return state_of([queue("q"), node("n"), pod_group("g"), *pods])


def test_pods_that_run_and_pods_that_wait_count_alike() -> None:
    state = seen(came(pod("a").gpu(1).running_on("n")), came(pod("b").gpu(2)), came(pod("c").gpu(2)))
    assert parts(state.snapshot(NOW).pod_mix) == pytest.approx({"2 GPU": 2 / 3, "1 GPU": 1 / 3})


def test_a_pod_counts_half_of_one_that_came_a_half_life_later() -> None:
    state = seen(came(pod("old").gpu(1), HALF_LIFE_SECONDS), came(pod("new").gpu(2)))
    assert parts(state.snapshot(NOW).pod_mix) == pytest.approx({"2 GPU": 2 / 3, "1 GPU": 1 / 3})


def test_the_order_in_which_pods_are_seen_changes_nothing() -> None:
    pods = [came(pod(f"p{number}").gpu(number % 3 + 1), 86_400.0 * number / 7) for number in range(30)]
    assert seen(*pods).snapshot(NOW).pod_mix == seen(*reversed(pods)).snapshot(NOW).pod_mix


def test_pods_that_are_gone_are_remembered() -> None:
    state = seen(came(pod("a").gpu(1)), came(pod("b").gpu(2)))
    state.snapshot(NOW)
    drop_named(state, Pod, "a")
    state.put(came(pod("c").gpu(2)))
    assert parts(state.snapshot(NOW).pod_mix) == pytest.approx({"2 GPU": 2 / 3, "1 GPU": 1 / 3})


def test_a_pod_counts_once_however_often_it_changes() -> None:
    state = seen(came(pod("a").gpu(1)), came(pod("b").gpu(2)))
    state.put(came(pod("a").gpu(1).running_on("n")))
    assert parts(state.snapshot(NOW).pod_mix) == pytest.approx({"1 GPU": 0.5, "2 GPU": 0.5})


def test_pods_without_gpus_are_in_no_mix() -> None:
    assert seen(came(pod("a").cpu("4"))).snapshot(NOW).pod_mix == NO_MIX


def test_a_mix_stays_the_same_object_while_no_pod_comes() -> None:
    state = seen(came(pod("a").gpu(1)))
    mix = state.snapshot(NOW).pod_mix
    state.put(pod_group("g"))
    later = state.snapshot(NOW + 1e6)
    assert later.pod_mix is mix


def test_times_that_make_no_sense_do_no_harm() -> None:
    pods = (came(pod("never").gpu(1), NOW), came(pod("future").gpu(2), -1e11), came(pod("now").gpu(2)))
    mix = parts(seen(*pods).snapshot(NOW).pod_mix)
    assert mix["2 GPU"] == pytest.approx(1.0)


def test_only_the_most_frequent_shapes_are_kept() -> None:
    many = [came(pod(f"p{number}").gpu(1).cpu(f"{number + 1}m")) for number in range(MOST_COUNTED + 10)]
    often = [came(pod(f"o{number}").gpu(3)) for number in range(2)]
    mix = seen(*many, *often).snapshot(NOW).pod_mix
    assert len(mix.shapes) == MOST_SHAPES
    assert str(mix.shapes[0]) == "3 GPU"
    assert sum(mix.parts) == pytest.approx(1.0)


def test_a_snapshot_file_has_the_mix_with_pods_that_are_gone(tmp_path: Path) -> None:
    state = seen(
        came(pod("a").gpu(1).only_on("model", "x").tolerates("kept")), came(pod("b").shares_gpu(0.3)),
        came(pod("c").gpu_memory(2000, devices=2)),
    )  # fmt: skip
    state.snapshot(NOW)
    drop_named(state, Pod, "a")
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    again = load(file).snapshot(NOW)
    assert again.pod_mix == state.snapshot(NOW).pod_mix
    assert len(again.pod_mix.shapes) == 3
    assert ObjectKey("default", "a") not in again.jobs
