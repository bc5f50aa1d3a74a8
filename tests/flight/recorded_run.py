"""A scheduler's state that is recorded: what tests of flight recordings begin with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bosket.api.object import KubeObject
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.recording.flight.frames import CycleKind
from bosket.scheduler.recording.flight.recorder import FlightRecorder
from bosket.scheduler.recording.flight.writer import Bounds, FlightWriter
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.handlers import Journal
from bosket.scheduler.state.options import StateOptions

CONFIGURATION = Configuration(actions=tuple(ACTIONS))


class RecordedRun:
    """A state, and cycles that are decided on it and recorded."""

    def __init__(self, folder: Path, *objects: KubeObject, bounds: Bounds | None = None) -> None:
        journal = Journal()
        self.state = ClusterState(journal=journal)
        self.writer = FlightWriter(folder, bounds or Bounds())
        self.recorder = FlightRecorder(self.writer, self.state, journal, StateOptions())
        for each in objects:
            self.state.put(each)

    def cycle(self, now: float, configuration: Configuration = CONFIGURATION, kind: CycleKind = "whole") -> Decisions:
        """One cycle; nothing is carried out."""
        snapshot = replace(self.state.snapshot(now), now=now)
        number = self.recorder.begin(snapshot, configuration, kind)
        decisions = decide(snapshot, configuration)
        self.recorder.end(number, decisions)
        return decisions

    def decide(self, now: float) -> Decisions:
        """The same without recording it."""
        return decide(replace(self.state.snapshot(now), now=now), CONFIGURATION)
