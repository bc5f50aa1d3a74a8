"""A gang that the scheduler evicted says so: by whom, why, and what was lost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bosket.api import keys
from bosket.api.condition import find_condition
from bosket.api.core import Pod, PodSpec, PodStatus
from bosket.api.eviction_note import EvictionNote, eviction_note
from bosket.api.kai import PodGroup, PodGroupCondition, PodGroupSpec
from bosket.api.object import ObjectMeta
from bosket.api.time import format_time
from bosket.services.podgroup.status import Member, status_of

NOW = 1.75e9
NOTE = EvictionNote(
    at=format_time(NOW),
    action="reclaim",
    why="b stays within its quota and takes it back from a, which is over its own",
    by="ml/first",
    pods=2,
    lostGpuHours=3.2,
)


def running(*, ending: bool = False) -> Pod:
    leaves = format_time(NOW) if ending else None
    return Pod(
        metadata=ObjectMeta(name="p", deletionTimestamp=leaves),
        spec=PodSpec(nodeName="n"),
        status=PodStatus(phase="Running"),
    )


PENDING = Pod(metadata=ObjectMeta(name="p"), status=PodStatus(phase="Pending"))


class Gang:
    """A gang of two, as the controller sees it again and again."""

    def __init__(self) -> None:
        self.group = PodGroup(metadata=ObjectMeta(name="g"), spec=PodGroupSpec(minMember=2))

    def is_evicted(self, note: EvictionNote = NOTE) -> None:
        annotations = {keys.EVICTION_NOTE_ANNOTATION: note.encoded()}
        self.group = msgspec.structs.replace(self.group, metadata=ObjectMeta(name="g", annotations=annotations))

    def has(self, pods: Iterable[Pod], at: float = NOW) -> tuple[str, str]:
        """Phase, and status of the condition Evicted."""
        members = [Member(pod, {}, {}) for pod in pods]
        status = status_of(self.group, members, preemptible=True, now=at)
        self.group = msgspec.structs.replace(self.group, status=status)
        return status.phase, found.status if (found := self.condition) is not None else ""

    @property
    def condition(self) -> PodGroupCondition | None:
        return find_condition(self.group.status.conditions, "Evicted")


def test_a_gang_that_is_evicted_says_by_whom_why_and_what_was_lost() -> None:
    gang = Gang()
    gang.has([running(), running()])
    gang.is_evicted()
    assert gang.has([running(ending=True), running(ending=True)]) == ("Evicted", "True")
    assert gang.has([]) == ("Evicted", "True")
    assert gang.condition is not None
    assert gang.condition.reason == "Reclaimed"
    assert gang.condition.message == (
        "2 pods evicted at 2025-06-15T15:06:40Z by reclaim for ml/first; b stays within its quota and takes it back "
        "from a, which is over its own; 3.20 GPU hours of run time were lost"
    )


def test_it_stays_evicted_while_its_new_pods_wait_and_no_longer_once_they_have_nodes() -> None:
    gang = Gang()
    gang.is_evicted()
    assert gang.has([PENDING, PENDING], NOW + 1) == ("Evicted", "True")
    assert gang.has([PENDING, PENDING], NOW + 9000) == ("Evicted", "True")
    assert gang.has([running(), running()], NOW + 9001) == ("Running", "False")
    assert gang.condition is not None
    assert gang.condition.message.startswith("has its minimum of pods again; before: 2 pods evicted at ")


def test_a_gang_that_keeps_its_minimum_is_not_called_evicted() -> None:
    gang = Gang()
    gang.is_evicted()
    assert gang.has([running(), running(), running(ending=True)]) == ("Running", "False")
    assert gang.condition is not None
    assert gang.condition.reason == "MinimumKept"


def test_a_gang_that_kept_its_minimum_and_whose_pods_are_deleted_weeks_later_is_not_called_evicted() -> None:
    ended = msgspec.structs.replace(running(), status=PodStatus(phase="Succeeded"))
    gang = Gang()
    gang.is_evicted()
    gang.has([running(), running(), running(ending=True)])
    weeks = NOW + 14 * 86_400
    assert gang.has([ended, ended], weeks) == ("Succeeded", "False")
    assert gang.has([ended], weeks + 1) == ("Succeeded", "False")
    assert gang.has([], weeks + 2) == ("Unknown", "False")
    assert gang.condition is not None
    assert gang.condition.reason == "MinimumKept"


def test_a_note_that_is_seen_before_the_pods_leave_makes_no_difference() -> None:
    gang = Gang()
    gang.is_evicted()
    gang.has([running(), running()])
    assert gang.has([running(ending=True), running(ending=True)], NOW + 1) == ("Evicted", "True")


def test_pods_that_are_lost_otherwise_after_a_restart_are_not_put_down_to_the_eviction() -> None:
    gang = Gang()
    gang.is_evicted()
    gang.has([])
    gang.has([running(), running()], NOW + 10)
    assert gang.has([PENDING, running()], NOW + 20) == ("Pending", "False")
    assert gang.has([], NOW + 30) == ("Unknown", "False")


def test_a_second_eviction_is_told_as_well() -> None:
    gang = Gang()
    gang.is_evicted()
    gang.has([])
    gang.has([running(), running()], NOW + 10)
    gang.is_evicted(msgspec.structs.replace(NOTE, at=format_time(NOW + 500), action="preempt"))
    assert gang.has([], NOW + 500) == ("Evicted", "True")
    assert gang.condition is not None
    assert gang.condition.reason == "Preempted"


def test_a_gang_that_has_ended_is_not_called_evicted() -> None:
    ended = msgspec.structs.replace(running(), status=PodStatus(phase="Succeeded"))
    gang = Gang()
    gang.is_evicted()
    assert gang.has([ended, ended])[0] == "Succeeded"


def test_an_annotation_that_cannot_be_read_counts_for_nothing() -> None:
    gang = Gang()
    for value in ("", "x", "[1]", '{"at": 3}', "[" * 100_000):
        annotations = {keys.EVICTION_NOTE_ANNOTATION: value}
        gang.group = msgspec.structs.replace(gang.group, metadata=ObjectMeta(name="g", annotations=annotations))
        assert gang.has([]) == ("Unknown", "")
        assert eviction_note(value) is None


def test_a_message_is_one_short_line_whatever_the_annotation_says() -> None:
    note = EvictionNote(at="never", action="x" * 5, why="a\nb" * 1000)
    assert "\n" not in note.sentence
    assert len(note.sentence) <= 400
