"""What the scheduler itself decided and the API server doesn't show yet, or never will.

A bind request, an eviction and an annotation count from the moment they are decided; those who write them say here when
they are refused. What the next cycles are bound to beyond that, claims and displacements, is remembered here as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import ObjectKey
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.snapshot.bind_requests import pod_of
from bosket.scheduler.snapshot.claims import Claim, Claims
from bosket.scheduler.snapshot.commitments import Commitments
from bosket.scheduler.snapshot.displacement import Displacements, Takers
from bosket.scheduler.snapshot.jobs import Jobs
from bosket.scheduler.snapshot.notes import Annotations
from bosket.scheduler.snapshot.tasks import Tasks
from bosket.scheduler.snapshot.touched import Touched


class OwnDecisions:
    """Called by the scheduler's writers, and by whoever takes over what another process had decided."""

    def __init__(self, tasks: Tasks, jobs: Jobs, displacements: Displacements, touched: Touched) -> None:
        self._tasks, self._jobs, self._touched = tasks, jobs, touched
        self._claims, self._displacements = Claims(), displacements

    # Binds

    def assume_bind_request(self, request: BindRequest) -> None:
        """Counts a request that was decided on and is about to be written."""
        self._tasks.requests.assume(request)
        self._tasks.renew(pod_of(request))

    def withdraw_bind_request(self, key: ObjectKey) -> None:
        """The request could not be written: its pod stands as before."""
        self._tasks.renew(self._tasks.requests.withdraw(key))

    def hold_back(self, pod: ObjectKey, uid: str, now: float) -> None:
        """The pod's binding failed: its job isn't decided on for a while."""
        if pod in self._tasks.pods:
            self._tasks.holds.add(pod, uid, now)
            self._touched.rest = True

    def held_pods(self, now: float) -> frozenset[ObjectKey]:
        """Pods whose binding failed a short while ago."""
        return self._tasks.holds.held(now)

    # Evictions

    def assume_eviction(self, pod: ObjectKey, uid: str, now: float) -> None:
        """Counts an eviction that was decided on and is about to be asked for: the pod is on its way out."""
        self._tasks.evictions.assume(pod, uid, now)
        self._tasks.renew(pod)

    def withdraw_eviction(self, pod: ObjectKey) -> None:
        """The pod isn't evicted after all, and stands as before."""
        if self._tasks.evictions.withdraw(pod):
            self._claims.victim_stays(pod)
            self._tasks.renew(pod)

    def refuse_eviction(self, pod: ObjectKey, uid: str, now: float, by: str) -> None:
        """The pod may not be evicted now: for a while others are chosen, for longer each time."""
        if pod in self._tasks.pods:
            self._tasks.evictions.refuse(pod, uid, now, by)
        self.withdraw_eviction(pod)
        self._touched.rest = True

    def guard_of(self, pod: ObjectKey) -> ObjectKey | None:
        """The disruption budget that guards the pod."""
        return self._tasks.evictions.budget_of(pod)

    # Annotations of pod groups

    def write_note(self, group: PodGroup, annotation: str, value: str | None) -> None:
        """Counts an annotation that is about to be written, or taken away."""
        self._jobs.notes.write(group, annotation, value)
        self._touched.jobs.add(group.key)

    def withdraw_note(self, group: ObjectKey, annotation: str) -> None:
        """The annotation could not be written."""
        if self._jobs.notes.forget(group, annotation):
            self._touched.jobs.add(group)

    def notes(self) -> Mapping[ObjectKey, tuple[str, Annotations]]:
        """Annotations that count and aren't observed yet: by group, with its uid."""
        return self._jobs.notes.all()

    # What binds the next cycles

    def remember(self, decisions: Decisions, now: float, resource_names: Sequence[str], *, rights_turn: bool) -> None:
        """Room that was made for jobs is theirs, and nobody takes it back; `rights_turn`: shares depend on the past."""
        self._claims.note(decisions, resource_names)
        self._displacements.note(decisions, now, rights_turn=rights_turn)

    def claims(self, now: float) -> tuple[Claim, ...]:
        """Room that was made for jobs, as far as they still want it; the same object while nothing changed."""
        return self._claims.standing(now, self._jobs.known, self._tasks.get)

    def takers(self, now: float) -> Takers:
        """Who took whose place a short while ago; the same object while nothing changed."""
        return self._displacements.takers(now)

    def commitments(self, now: float) -> Commitments:
        """What earlier cycles bind the next one to, for a recording."""
        takers = self._displacements.takers(now)
        return Commitments(
            evicted=self._tasks.evictions.going(),
            refused=tuple(sorted(self._tasks.evictions.refused(now).items())),
            claims=self._claims.known,
            takers=tuple((victim, tuple(sorted(takers[victim]))) for victim in sorted(takers)),
        )

    def commit(self, commitments: Commitments, now: float) -> None:
        """Takes over what a recording was bound to, as of then."""
        pods = self._tasks.pods
        for pod in commitments.evicted:
            if pod in pods:
                self.assume_eviction(pod, pods[pod].metadata.uid, now)
        for pod, by in commitments.refused:
            if pod in pods:
                self._tasks.evictions.refuse(pod, pods[pod].metadata.uid, now, by)
        for claim in commitments.claims:
            self._claims.put(claim)
        self._displacements.put({victim: frozenset(takers) for victim, takers in commitments.takers}, now)
