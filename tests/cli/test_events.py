"""`bosket events`: starts and evictions by job, from events and from what pod groups remember."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Event, ObjectReference
from bosket.api.eviction_note import EvictionNote
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectMeta
from bosket.api.time import format_time
from bosket.cli.events import EventReport, event_lines
from bosket.cli.main import main
from bosket.cli.view import ViewFlags
from bosket.scheduler.model.cause import Preempted
from bosket.testing.build import gang, job, node, pod_group, queue
from bosket.testing.cluster import NOW
from bosket.tools.history import history
from tests.cli.everyday import HOSTILE, as_terminal, controls, owned, printed, recorded


def scheduled(pod: str, on: str, at: float, namespace: str = "default") -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{pod}.1", namespace=namespace),
        involvedObject=ObjectReference(kind="Pod", name=pod, namespace=namespace),
        reason="Scheduled",
        message=f"Successfully assigned pod {namespace}/{pod} to node {on} at node-pool default",
        firstTimestamp=format_time(at),
    )


def evicted(pod: str, group: str, at: float, *, by: str) -> Event:
    """As the evictor writes it on the pod group."""
    preempted = Preempted("q", 100, 50).text(f"default/{pod}", f"default/{by}")  # type: ignore[arg-type]
    lost = f"Run time lost: 1.50 GPU hours of the pod, 3.00 of workload default/{group}"
    return Event(
        metadata=ObjectMeta(
            name=f"{pod}.2",
            namespace="default",
            annotations={
                "evictor-action-type": "preempt",
                "evictor-pod-group-name": by,
                "evictor-pod-group-namespace": "default",
            },
        ),
        involvedObject=ObjectReference(kind="PodGroup", name=group, namespace="default"),
        reason="Evict",
        message=f"{preempted}\n{lost}",
        firstTimestamp=format_time(at),
    )


def test_pods_of_a_job_that_start_together_are_one_start() -> None:
    group = pod_group("g", queue="team")
    events = [scheduled(f"g-{at}", f"n-{at}", NOW + at) for at in range(3)]
    (started,) = history(events, [group], gang("g", 3), NOW - 60)
    assert (started.kind, started.job, started.queue, started.pods) == ("started", "g", "team", 3)
    assert started.nodes == ("n-0", "n-1", "n-2")
    again = [*events, scheduled("g-0", "n-0", NOW + 600)]
    assert [each.pods for each in history(again, [group], gang("g", 3), NOW - 60)] == [3, 1], "a later start is another"


def test_an_eviction_tells_for_whom_by_which_rule_and_what_was_lost() -> None:
    groups = [pod_group("victim", queue="team"), *owned(job("pg-urgent"), "urgent")[:1]]
    events = [evicted(f"victim-{at}", "victim", NOW, by="pg-urgent") for at in range(2)]
    (gone,) = history(events, groups, [], NOW - 60)  # type: ignore[arg-type]
    assert (gone.kind, gone.job, gone.pods, gone.by, gone.action) == (
        "evicted", "victim", 2, "default/urgent", "preempt",
    )  # fmt: skip
    assert gone.why == "priority 100 goes before 50 in queue q"
    assert gone.lost_gpu_hours == 3.0


def test_a_pod_that_is_gone_is_called_after_its_workload() -> None:
    (started,) = history([scheduled("train-x7k2p", "n", NOW)], [], [], NOW - 60)
    assert (started.job, started.queue) == ("train", "")
    groups = owned(job("pg-train", queue="team"), "train")[:1]
    (started,) = history([scheduled("train-x7k2p", "n", NOW)], groups, [], NOW - 60)  # type: ignore[arg-type]
    assert (started.job, started.queue) == ("train", "team")


def test_what_is_older_than_events_is_what_pod_groups_remember() -> None:
    group = pod_group("g", started=NOW - 7200, evicted=NOW - 3600)
    assert [(each.kind, each.pods) for each in history([], [group], [], NOW - 86400)] == [
        ("started", 0),
        ("evicted", 0),
    ]
    assert [each.kind for each in history([], [group], [], NOW - 5000)] == ["evicted"], "since when, counts"
    events = [evicted("g-0", "g", NOW - 3598, by="other")]
    assert [(each.kind, each.pods) for each in history(events, [group], [], NOW - 86400)] == [
        ("started", 0),
        ("evicted", 1),
    ], "an event says more of the same eviction"


def test_what_the_scheduler_noted_on_the_pod_group_tells_the_cause_long_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = EvictionNote(
        at=format_time(NOW - 7200), action="reclaim", why="a takes it back from b", by="default/pg-urgent", pods=4,
        lostGpuHours=6.5,
    )  # fmt: skip
    victim = pod_group("victim", evicted=NOW - 7200)
    victim.metadata.annotations["bosket.dev/last-eviction"] = note.encoded()
    urgent = owned(job("pg-urgent"), "urgent")[0]
    assert isinstance(urgent, PodGroup)
    (gone,) = history([], [victim, urgent], [], NOW - 86400)
    assert (gone.pods, gone.by, gone.action, gone.why, gone.lost_gpu_hours) == (
        4, "default/urgent", "reclaim", "a takes it back from b", 6.5,
    )  # fmt: skip
    file = recorded(tmp_path, [queue("q"), node("n"), victim])
    (row,) = json.loads(printed(capsys, "jobs", "--snapshot", file, "--json"))["jobs"]
    assert (row["state"], row["reason"]) == ("evicted", "Evicted")
    assert "4 pods evicted at" in row["sentence"]
    assert "a takes it back from b" in row["sentence"]


@pytest.mark.parametrize("amount", ["1.2.3", ".", "...", "1.", ".5", "9" * 400, "٣"])
def test_an_amount_that_is_no_number_is_left_out(amount: str) -> None:
    event = evicted("g-0", "g", NOW, by="other")
    event = msgspec.structs.replace(event, message=f"Run time lost: {amount} of workload default/g")
    (gone,) = history([event], [], [], NOW - 60)
    assert gone.lost_gpu_hours is None


@given(
    reason=st.sampled_from(["Evict", "Scheduled"]),
    message=st.text(alphabet="pod: /was\n.19٣to node of workload"),
    time=st.sampled_from(["", "x", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", format_time(NOW)]),
    name=st.text(max_size=8),
)
def test_no_event_ends_the_command(reason: str, message: str, time: str, name: str) -> None:
    kind = "Pod" if reason == "Scheduled" else "PodGroup"
    about = ObjectReference(kind=kind, name=name, namespace=name)
    event = Event(
        metadata=ObjectMeta(name="e"), involvedObject=about, reason=reason, message=message, firstTimestamp=time
    )
    found = history([event], [], [], float("-inf"))
    assert len(found) == 1
    assert list(event_lines(EventReport(NOW - 60, NOW, found, is_complete=True), ViewFlags()))


@pytest.mark.parametrize("columns", [None, 80])
def test_escape_sequences_in_a_note_do_not_reach_the_terminal(
    columns: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = EvictionNote(at=format_time(NOW - 60), action="reclaim", why=f"because {HOSTILE}", by="default/other")
    victim = pod_group("victim", evicted=NOW - 60)
    victim.metadata.annotations["bosket.dev/last-eviction"] = note.encoded()
    file = recorded(tmp_path, [queue("q"), node("n"), victim])
    if columns is not None:
        as_terminal(monkeypatch, columns, colour=False)
    for command in ("events", "jobs", "top"):
        shown = printed(capsys, command, "--snapshot", file)
        assert "because" in shown
        assert not controls(shown), command


def test_other_events_and_earlier_ones_are_left_out() -> None:
    other = scheduled("g-0", "n", NOW)
    events = [
        scheduled("g-1", "n", NOW - 100),
        Event(metadata=other.metadata, involvedObject=other.involvedObject, reason="Unschedulable"),
    ]
    assert history(events, [], [], NOW - 60) == ()


def test_a_snapshot_shows_the_last_start_and_eviction_of_each_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [pod_group("a", started=NOW - 600), pod_group("b", started=NOW - 900, evicted=NOW - 300, queue="r")]
    file = recorded(tmp_path, [queue("q"), queue("r"), node("n"), *groups])
    report = json.loads(printed(capsys, "events", "--snapshot", file, "--json"))
    assert [(each["kind"], each["job"]) for each in report["events"]] == [
        ("started", "b"),
        ("started", "a"),
        ("evicted", "b"),
    ]
    assert report["isComplete"] is False

    def jobs(*options: str) -> list[str]:
        found = json.loads(printed(capsys, "events", "--snapshot", file, "--json", *options))
        return [each["job"] for each in found["events"]]

    assert jobs("--kind", "evicted") == ["b"]
    assert jobs("--queue", "q") == ["a"]
    assert jobs("default/b", "--since", "10m") == ["b"]
    assert jobs("--since", format_time(NOW - 400)) == ["b"]
    assert "No job started" in printed(capsys, "events", "--snapshot", file, "--since", "1m")


def test_a_since_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "--since", "yesterday"]) == 2
    assert "--since yesterday: neither a duration such as 30m, 12h or 2d, nor a time" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 160])
def test_lines_fit_the_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "evaluation-of-all-checkpoints-of-the-large-language-model-of-tuesday"
    file = recorded(tmp_path, [queue("q"), node("n"), pod_group(long, started=NOW - 60), pod_group("a", started=NOW)])
    as_terminal(monkeypatch, columns, colour=False)
    text = printed(capsys, "events", "--snapshot", file)
    assert max(map(len, text.splitlines())) <= columns
    assert f"default/{long}" in text
