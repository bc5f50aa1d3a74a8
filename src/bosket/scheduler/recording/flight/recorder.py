"""FlightRecorder: what the scheduling loop calls before and after each cycle.

It takes references to what changed since the cycle before, and hands them to the writer. Nothing is encoded here.
"""

from __future__ import annotations

import logging
from typing import Final

from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import configuration_document
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.recording.flight.frames import Cycle, CycleKind, Own, Settings
from bosket.scheduler.recording.flight.writer import Change, Decided, FlightWriter
from bosket.scheduler.recording.writer import parameters_of, take
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.handlers import Journal
from bosket.scheduler.state.options import StateOptions

_log = logging.getLogger(__name__)

#: The number of a cycle that isn't recorded.
NOT_RECORDED: Final = 0


class FlightRecorder:
    """Records the cycles of one scheduler."""

    def __init__(self, writer: FlightWriter, state: ClusterState, journal: Journal, options: StateOptions) -> None:
        """`journal`: where the `state` notes what changes."""
        self.writer, self._state, self._journal, self._options = writer, state, journal, options
        self._number = 0
        self._configuration: Configuration | None = None
        self._usage: Usage | None = None
        self._learned = 0  # run times that are in the recording
        self._bound_by: tuple[object, ...] = ()  # what the commitments in the recording were made of
        self._going: tuple[ObjectKey, ...] = ()

    def begin(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        kind: CycleKind,
        *,
        whole: Snapshot | None = None,
        proposals: Proposals | None = None,
        quarantined: tuple[str, ...] = (),
    ) -> int:
        """A cycle begins on the snapshot, which the state has just given; the cycle's number.

        `whole`: the snapshot of which this one is a part, where jobs are left out. Never raises: what can't be recorded
        is logged, and the recording begins anew with the next cycle.
        """
        if self.writer.is_paused:
            self._journal.take()
            self.writer.needs_keyframe = True
            return NOT_RECORDED
        self._number += 1
        try:
            own, settings, changes = self._changes(snapshot, configuration)
            tried, left_out = _jobs_tried(snapshot, whole)
            cycle = Cycle(
                self._number, snapshot.now, kind, "", own=own, settings=settings, tried=tried, left_out=left_out,
                proposals=[each for of_action in proposals.values() for each in of_action] if proposals else None,
                quarantined=list(quarantined),
            )  # fmt: skip
            self.writer.put((cycle, changes))
        except Exception:
            _log.exception("a cycle can't be recorded")
            self.writer.needs_keyframe = True
        return self._number

    def _changes(
        self, snapshot: Snapshot, configuration: Configuration
    ) -> tuple[Own | None, Settings | None, list[Change]]:
        """What differs from the cycle before; nothing where everything is written anew."""
        before, self._configuration = self._configuration, configuration
        changed = self._journal.take()
        if self.writer.needs_keyframe or changed is None:
            self.writer.needs_keyframe = False
            self.writer.put(take(self._state, self._options, configuration, snapshot.now))
            self._note_own(snapshot)
            return None, None, []
        settings = None
        if configuration is not before:
            parameters = parameters_of(self._options, configuration.settings)
            settings = Settings(configuration_document(configuration), parameters)
        changes = [Change(kind, key, self._state.find(kind, key)) for kind, key in changed]
        return self._changed_own(snapshot, configuration), settings, changes

    def end(self, number: int, decisions: Decisions | None, cpu_seconds: float = 0.0, error: str = "") -> None:
        """What came of the cycle."""
        if number == NOT_RECORDED:
            return
        self.writer.put(Decided(number, decisions, cpu_seconds, error))

    def close(self) -> None:
        """Ends the recording; the next cycle would begin it again."""
        self.writer.close()

    def _changed_own(self, snapshot: Snapshot, configuration: Configuration) -> Own | None:
        """What of the scheduler's own knowledge differs from the cycle before."""
        before, going, usage, learned = self._bound_by, self._going, self._usage, self._learned
        self._note_own(snapshot)
        is_same = len(before) == len(self._bound_by) and all(map(_is, before, self._bound_by)) and going == self._going
        own = Own(
            held=None if is_same else tuple(sorted(self._state.own.pods_backing_off(snapshot.now))),
            commitments=None if is_same else self._state.own.commitments(snapshot.now),
            usage=None if self._usage is usage else self._usage,
            run_times=self._state.run_times.since(learned),
            pod_mix=snapshot.pod_mix if _depends_on_mix(configuration) else None,
        )
        return None if own == _NOTHING else own

    def _note_own(self, snapshot: Snapshot) -> None:
        # Tables of a snapshot are the very same objects while nothing in them changed.
        self._bound_by = (
            snapshot.nominations,
            snapshot.reservations,
            snapshot.preempted_by,
            snapshot.passed_over,
            snapshot.disruptions,
            snapshot.backing_off,
        )
        self._going, self._usage = self._state.own.evictions_under_way(), self._state.usage
        self._learned = self._state.run_times.learned


_NOTHING: Final = Own()


def _is(one: object, other: object) -> bool:
    return one is other


def _jobs_tried(part: Snapshot, whole: Snapshot | None) -> tuple[list[ObjectKey] | None, list[ObjectKey] | None]:
    """The jobs that a cycle on a part of a snapshot tries, or those that it leaves out if they are fewer."""
    if whole is None or len(part.unsettled) == len(whole.unsettled):
        return None, None
    tried = [job.key for job in part.unsettled]
    if len(tried) * 2 <= len(whole.unsettled):
        return tried, None
    kept = set(tried)
    return None, [job.key for job in whole.unsettled if job.key not in kept]


def _depends_on_mix(configuration: Configuration) -> bool:
    """Whether pods are placed by which other pods the cluster sees."""
    return any(
        choice.name == "nodeplacement" and choice.arguments.get("gpu") == "fragmentation"
        for choice in configuration.plugins
    )
