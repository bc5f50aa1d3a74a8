"""Flight recordings: what was recorded is decided again in the same way, within bounds, without secrets."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import EnvVar, Pod
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.time import parse_time
from bosket.scheduler.answers import flight_replay
from bosket.scheduler.answers.flight_replay import Replay
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.run_times import EndedJob, JobKind
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.flight.frames import SUFFIX
from bosket.scheduler.recording.flight.reader import FlightRecording, Moment, RecordingError
from bosket.scheduler.recording.flight.writer import Bounds
from bosket.scheduler.state import handlers
from bosket.scheduler.state.handlers import MOST_NOTED, Journal
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW
from tests.flight.recorded_run import CONFIGURATION, RecordedRun
from tests.scheduler.test_snapshots_stay import events

SCENE: tuple[KubeObject, ...] = (node("n1", gpus=2), queue("q"), pod_group("g", min_member=2), *gang("g", 2))


def replayed(folder: Path) -> tuple[Replay, list[bool]]:
    replay = Replay()
    return replay, [each.is_same for each in replay.run(FlightRecording(folder), 0.0, math.inf)]


def moments(folder: Path) -> Iterator[Moment]:
    return (each for each in FlightRecording(folder).cycles() if isinstance(each, Moment))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 60))
def test_any_cycles_come_out_the_same_again(seed: int, count: int) -> None:
    with TemporaryDirectory() as folder:
        run = RecordedRun(Path(folder), bounds=Bounds(most_bytes=1 << 18))
        cycles = 0
        for number, event in enumerate(events(seed, count)):
            event(run.state)
            if number % 3 == 0:
                run.cycle(NOW + number)
                cycles += 1
        run.recorder.close()
        replay, same = replayed(Path(folder))
        assert same == [True] * cycles
        assert replay.left_out == 0


def test_a_cycle_that_comes_out_differently_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    run.cycle(NOW)
    run.cycle(NOW + 1)
    run.recorder.close()
    assert replayed(tmp_path)[1] == [True, True]

    def decide_nothing(*_: object, **__: object) -> Decisions:
        return Decisions()

    monkeypatch.setattr(flight_replay, "decide", decide_nothing)
    assert replayed(tmp_path)[1] == [False, False]


def test_jobs_that_a_cycle_left_out_are_left_out_again(tmp_path: Path) -> None:
    more = [each for name in "abc" for each in (pod_group(name), *gang(name, 1))]
    run = RecordedRun(tmp_path, *SCENE, *more)

    def cycle(now: float, tried: slice) -> tuple[str, ...]:
        whole = run.state.snapshot(now)
        part = replace(whole, unsettled=whole.unsettled[tried])
        run.recorder.begin(part, CONFIGURATION, "place", whole=whole)
        return names(part)

    expected = [cycle(NOW, slice(0, 1)), cycle(NOW + 1, slice(0, 3)), cycle(NOW + 2, slice(0, 4))]
    run.recorder.close()
    assert [names(each.snapshot()) for each in moments(tmp_path)] == expected
    assert [len(each) for each in expected] == [1, 3, 4]


def names(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(job.key.name for job in snapshot.unsettled)


def test_another_configuration_is_recorded_when_it_comes_into_force(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    other = Configuration(actions=("allocate",))
    for number, configuration in enumerate((CONFIGURATION, other, other)):
        run.cycle(NOW + number, configuration)
    run.recorder.close()
    assert [each.recorded.configuration.actions for each in moments(tmp_path)] == [
        CONFIGURATION.actions,
        other.actions,
        other.actions,
    ]


def test_a_cycle_in_which_nothing_changed_costs_next_to_nothing(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE, *(node(f"m{number}") for number in range(200)))
    run.cycle(NOW)
    run.recorder.close()
    assert frames_of_one_more_cycle(run) < 400


def frames_of_one_more_cycle(run: RecordedRun, *changed: KubeObject) -> int:
    """The bytes that a cycle adds; the first one begins the file."""
    run.cycle(NOW)
    run.recorder.writer.flush()
    before = run.writer.written_bytes
    for each in changed:
        run.state.put(each)
    run.cycle(NOW + 1)
    run.recorder.close()
    return run.writer.written_bytes - before


def test_a_cycle_in_which_one_pod_changed_takes_less_than_two_kilobytes(tmp_path: Path) -> None:
    pods = [pod(f"p{number}").gpu(1).running_on(f"m{number}").build() for number in range(200)]
    run = RecordedRun(tmp_path, *SCENE, *(node(f"m{number}") for number in range(200)), *pods)
    assert 0 < frames_of_one_more_cycle(run, pod("p0").gpu(1).ended_on("m0").build()) < 2048


def test_a_heartbeat_is_not_recorded(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    (beating,) = run.state.objects(type(SCENE[0]))
    metadata = msgspec.structs.replace(beating.metadata, resourceVersion="9999")
    frames_of_one_more_cycle(run, msgspec.structs.replace(beating, metadata=metadata))
    assert [each.cycle.put for each in moments(tmp_path)] == [{}, {}]


def test_no_value_of_an_environment_variable_is_in_a_recording(tmp_path: Path) -> None:
    secret = pod("secret").of_group("g").with_container(env=(EnvVar(name="TOKEN", value="hunter2"),)).build()
    run = RecordedRun(tmp_path, *SCENE, secret)
    run.cycle(NOW)
    run.state.put(msgspec.structs.replace(secret, metadata=msgspec.structs.replace(secret.metadata, uid="another")))
    run.cycle(NOW + 1)
    run.recorder.close()
    for each in moments(tmp_path):
        assert "hunter2" not in msgspec.json.encode(each.recorded.objects["pods"]).decode()
        assert any(one.metadata.name == "secret" for one in each.recorded.objects["pods"])


def test_a_recording_stays_within_its_bounds_and_loses_its_oldest_part(tmp_path: Path) -> None:
    dice, bounds = Random(1), Bounds(most_bytes=1 << 20)
    run = RecordedRun(tmp_path, *SCENE, bounds=bounds)
    sizes = []
    for number in range(800):
        noise = "".join(dice.choices("abcdefghij", k=4_000))
        run.state.put(pod("noise").label("noise", noise).build())
        run.cycle(NOW + number)
        if number % 10 == 0:
            run.writer.flush()
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    run.recorder.close()
    assert max(sizes) <= bounds.most_bytes
    kept = [each.cycle.time for each in moments(tmp_path)]
    assert kept[0] > NOW
    assert kept[-1] == NOW + 799
    assert kept == sorted(kept)
    assert all(replayed(tmp_path)[1])


def test_what_is_too_old_is_deleted_when_the_next_file_begins(tmp_path: Path) -> None:
    first = RecordedRun(tmp_path, *SCENE)
    first.cycle(NOW)
    first.recorder.close()
    later = RecordedRun(tmp_path, *SCENE, bounds=Bounds(most_seconds=-1.0))
    later.cycle(NOW + 5)
    later.recorder.close()
    assert [each.cycle.time for each in moments(tmp_path)] == [NOW + 5]


def test_a_moment_is_found_by_its_time(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    run.cycle(NOW)
    run.state.drop(SCENE[0])
    run.cycle(NOW + 10)
    run.recorder.close()
    recording = FlightRecording(tmp_path)
    assert len(recording.at(NOW + 9.9).recorded.objects["nodes"]) == 1
    assert len(recording.at(NOW + 10).recorded.objects["nodes"]) == 0
    assert recording.at(math.inf).cycle.number == 2
    with pytest.raises(RecordingError, match=r"nothing is recorded at .* or before; it begins at"):
        recording.at(NOW - 1)


def test_the_recordings_of_several_processes_are_one(tmp_path: Path) -> None:
    for number in range(3):
        run = RecordedRun(tmp_path, *SCENE)
        run.cycle(NOW + number)
        run.recorder.close()
    assert [each.cycle.time for each in moments(tmp_path)] == [NOW, NOW + 1, NOW + 2]
    assert len({each.run for each in moments(tmp_path)}) == 3


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    for number in range(3):
        run.cycle(NOW + number)
        run.writer.flush()
        assert len(list(moments(tmp_path))) == number + 1
    run.recorder.close()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_a_damaged_file_is_told_and_the_others_are_read(seed: int) -> None:
    dice = Random(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(2):
            run = RecordedRun(folder, *SCENE)
            run.cycle(NOW + number)
            run.recorder.close()
        broken = FlightRecording(folder).files()[dice.randrange(2)]
        data = bytearray(broken.read_bytes())
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        broken.write_bytes(bytes(data))
        told: list[str] = []
        found = [each for each in FlightRecording(folder, told.append).cycles() if isinstance(each, Moment)]
        # A length that became larger makes the last frame look as if it were still being written.
        assert len(found) >= 1
        assert all(each.startswith(f"{broken}: ") for each in told)


def test_a_file_that_ends_in_the_middle_is_read_up_to_there(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    for number in range(3):
        run.cycle(NOW + number)
        run.writer.flush()
    run.recorder.close()
    (path,) = FlightRecording(tmp_path).files()
    data = path.read_bytes()
    counts = []
    for length in (*range(0, len(data), 7), len(data)):
        path.write_bytes(data[:length])
        counts.append(len(list(moments(tmp_path))))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_a_disk_that_fails_stops_the_recording_and_not_the_scheduler(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recording"
    folder.write_text("a file where the folder should be")
    run = RecordedRun(folder, *SCENE)
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            assert run.cycle(NOW + number).binds
            run.writer.flush()
    run.recorder.close()
    assert len([each for each in caplog.records if "cycles aren't recorded" in each.message]) == 1


def test_after_a_failure_the_recording_goes_on_with_everything(tmp_path: Path) -> None:
    folder, now = tmp_path / "recording", 0.0
    run = RecordedRun(folder, *SCENE)
    run.writer._monotonic = lambda: now
    run.cycle(NOW)
    run.writer.flush()
    shutil.rmtree(folder)
    folder.write_text("")
    run.recorder.writer.needs_keyframe = True
    run.cycle(NOW + 1)
    run.writer.flush()
    folder.unlink()
    run.cycle(NOW + 2)
    run.writer.flush()
    now = 1000.0
    run.state.put(pod("late").build())
    run.cycle(NOW + 3)
    run.writer.flush()
    run.recorder.close()
    (only,) = moments(folder)
    assert only.cycle.time == NOW + 3
    assert any(isinstance(each, Pod) and each.metadata.name == "late" for each in only.recorded.objects["pods"])


def test_a_folder_without_a_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no flight recording is in it"):
        FlightRecording(tmp_path)
    with pytest.raises(RecordingError, match="there is no such folder"):
        FlightRecording(tmp_path / "nowhere")
    (tmp_path / f"x{SUFFIX}").write_bytes(b"something else")
    told: list[str] = []
    assert list(FlightRecording(tmp_path, told.append).cycles()) == []
    assert told == [f"{tmp_path / f'x{SUFFIX}'}: it isn't a flight recording; what comes after is left out"]


def test_times_are_those_of_the_cycles(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    run.cycle(parse_time("2026-01-02T03:04:05Z"))
    run.recorder.close()
    (path,) = FlightRecording(tmp_path).files()
    assert path.name.startswith("20260102T030405")


def test_a_cycle_that_cannot_be_recorded_is_logged_and_the_next_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    run.cycle(NOW)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(run.state, "find", fail)
        run.state.put(pod("late").build())
        assert run.cycle(NOW + 1).binds
    run.cycle(NOW + 2)
    run.recorder.close()
    assert "a cycle can't be recorded" in caplog.text
    assert [each.cycle.time for each in moments(tmp_path)] == [NOW, NOW + 2]
    assert len(list(moments(tmp_path))[-1].recorded.objects["pods"]) == 3


def test_run_times_that_were_learned_are_recorded(tmp_path: Path) -> None:
    def ended(seconds: float) -> EndedJob:
        return EndedJob(JobKind("q", "Job", "train", "", 1, is_declared=False), seconds)

    run = RecordedRun(tmp_path, *SCENE)
    run.state.run_times.put((ended(1.0), ended(2.0)))
    run.cycle(NOW)
    run.cycle(NOW + 1)
    run.state.run_times.put((ended(3.0),))
    run.cycle(NOW + 2)
    run.recorder.close()
    amounts = [[each.amount for each in moment.recorded.run_times] for moment in moments(tmp_path)]
    assert amounts == [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0]]


def test_a_journal_that_nobody_reads_stays_small_and_says_that_it_is_not_whole() -> None:
    journal = Journal()
    for number in range(2 * MOST_NOTED + 10):
        journal.note(Pod, ObjectKey("ns", str(number)))
    assert journal.take() is None
    assert journal.take() == ()
    journal.note(Pod, ObjectKey("ns", "a"))
    assert journal.take() == ((Pod, ObjectKey("ns", "a")),)


def test_what_was_too_much_to_be_noted_is_recorded_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RecordedRun(tmp_path, *SCENE)
    run.cycle(NOW)
    monkeypatch.setattr(handlers, "MOST_NOTED", 5)
    for number in range(20):
        run.state.put(pod(f"p{number}").build())
    run.cycle(NOW + 1)
    run.recorder.close()
    assert [len(each.recorded.objects["pods"]) for each in moments(tmp_path)] == [2, 22]


def test_while_the_disk_fails_nothing_is_prepared_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "recording"
    folder.write_text("a file where the folder should be")
    run = RecordedRun(folder, *SCENE)
    run.cycle(NOW)
    run.writer.flush()
    handed_over: list[object] = []
    monkeypatch.setattr(run.writer, "put", handed_over.append)
    run.cycle(NOW + 1)
    assert handed_over == []
