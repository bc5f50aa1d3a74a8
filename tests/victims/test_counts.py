"""What is ruled out by counts before it is simulated would have come to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given, settings

from bosket.api.object import KubeObject
from bosket.scheduler.decide import decide
from bosket.scheduler.solver.accumulation import Accumulation
from bosket.scheduler.solver.room import Prospect
from bosket.scheduler.solver.search import Search
from bosket.testing.cluster import NOW, snapshot_of
from tests.victims.cluster_strategy import EVERYTHING, clusters


def outcome(objects: Sequence[KubeObject]) -> list[tuple[str, str, str]]:
    decisions = decide(snapshot_of(objects, now=NOW), EVERYTHING)
    return [(type(each).__name__, str(each.task.key), each.node) for each in decisions.operations]


@given(clusters())
@settings(max_examples=60)
def test_simulating_what_counts_rule_out_changes_no_decision(objects: Sequence[KubeObject]) -> None:
    decided = outcome(objects)
    with (
        patch.object(Search, "_may_fit", lambda *_: True),
        patch.object(Accumulation, "may_suffice", lambda *_: True),
        patch.object(Accumulation, "may_suffice_in_domains", lambda *_: True),
        patch.object(Prospect, "is_lost", lambda _: False),
    ):
        assert outcome(objects) == decided
