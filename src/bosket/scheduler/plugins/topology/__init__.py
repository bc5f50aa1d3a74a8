"""Plugin topology: keeps the pods of a gang or sub-group in one domain of a topology, or as near as possible.

For each group with a constraint, domains that could hold all its pods are tried one after the other: the narrowest
level first, of each level the fullest domain first. KAI's estimates are followed there; where they find no place, a
plan for the whole job may find one (`plan`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bosket.scheduler.framework.extension import NodeSubsets
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.reason import TopologyUnsatisfied, TopologyUnusable
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.topology.choice import Choice
from bosket.scheduler.plugins.topology.constraint import Constraints
from bosket.scheduler.plugins.topology.plan import Plans


class Topology:
    """The plugin."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        constraints = Constraints(session)
        session.extensions.node_subsets.add(_Domains(session, constraints))
        session.extensions.placement_plans.add(Plans(session, constraints))


class _Domains:
    def __init__(self, session: Session, constraints: Constraints) -> None:
        self._session, self._constraints = session, constraints

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | TopologyUnusable | TopologyUnsatisfied | None:
        if group.topology is None:
            return None
        found = self._constraints.resolve(job, group)
        if isinstance(found, TopologyUnusable):
            return found if self._constraints.may_have_room(group.topology, tasks, on) else found.with_code()
        return Choice(self._session, job, group, *found).find(tasks, on)
