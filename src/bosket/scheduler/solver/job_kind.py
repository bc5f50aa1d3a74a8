"""JobKinds: the kind of a job: how nodes and plugins treat its pending tasks, whatever the amounts.

Affinity terms and spread constraints between pods of the job alone are compared by shape: `app: a` and `app: b` mean
the same for two jobs that each select themselves, so one failed job stands for the other. Not so where other jobs
select the job's pods, where classes of one job select each other, or where some of the job's pods were placed in this
cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.pod_affinity import AffinityTerm, AffinityTerms, MatchKeys, PodSelector
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, NO_AFFINITY_TERMS, PodClass

ClassKind = tuple[object, ...]


class JobKinds:
    """The kinds of the jobs of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shapes: dict[Hashable, int] = {}  # of AffinityTerms; negative numbers, as these have others
        self._related: dict[PodSelector, set[ObjectKey]] | None = None  # jobs by what they select or are selected by
        self._placed: set[PodSelector] | None = None  # what pods with a place select, or are selected by

    def of(self, job: JobState) -> Hashable:
        """A key of how the job's pending tasks are treated, apart from their requests."""
        waiting, kinds = waiting_at_first(job), []
        with_affinity = {
            pod_class for classes in waiting for pod_class in classes if pod_class.affinity_terms is not None
        }
        by_shape = len(with_affinity) == 1 and len(job.left_over()) == sum(classes.total() for classes in waiting)
        for classes in waiting:
            counts: Counter[ClassKind] = Counter()
            for pod_class, count in classes.items():
                counts[self._kind(job.job, pod_class) if by_shape else pod_class.kind] += count
            kinds.append(tuple(sorted(counts.items())))
        return job.job.topologies(), tuple(sorted(kinds))

    def _kind(self, job: Job, pod_class: PodClass) -> ClassKind:
        kind, affinity_terms = pod_class.kind, pod_class.affinity_terms
        if affinity_terms is None:
            return kind
        matched = {
            each
            for each in (*pod_class.match_keys.lasting, *pod_class.match_keys.staying)
            if isinstance(each, PodSelector)
        }
        selectors = affinity_terms.selectors
        if matched - selectors or not all(self._is_own(each, job) for each in selectors):
            return kind
        shape = _shape(affinity_terms, pod_class.match_keys)
        number = self._shapes.setdefault(shape, NO_AFFINITY_TERMS - 1 - len(self._shapes))
        fixed_index, devices, host_ports, _, _, *rest = kind
        return (fixed_index, devices, host_ports, number, (), *rest)

    def _is_own(self, selector: PodSelector, job: Job) -> bool:
        """Whether a selector selects only pods of the job itself, and no other pod has a term with this selector."""
        if self._related is None or self._placed is None:
            snapshot = self._session.snapshot
            self._related = _related_jobs(snapshot.unsettled)
            self._placed = {
                match_key.selector if isinstance(match_key, AffinityTerm) else match_key
                for match_key, counts in snapshot.match_counts.items()
                if counts and isinstance(match_key, AffinityTerm | PodSelector)
            }
        return selector not in self._placed and self._related.get(selector, set()) <= {job.key}


def _related_jobs(jobs: Iterable[Job]) -> dict[PodSelector, set[ObjectKey]]:
    found: dict[PodSelector, set[ObjectKey]] = {}
    for job in jobs:
        for pod_class in {task.pod_class for task in job.tasks}:
            match_keys = (*pod_class.match_keys.lasting, *pod_class.match_keys.staying)
            selectors = {match_key for match_key in match_keys if isinstance(match_key, PodSelector)}
            if pod_class.affinity_terms is not None:
                selectors |= pod_class.affinity_terms.selectors
            for selector in selectors:
                found.setdefault(selector, set()).add(job.key)
    return found


def _shape(affinity_terms: AffinityTerms, match_keys: MatchKeys) -> Hashable:
    """The affinity terms with selectors replaced by the order of their first occurrence."""
    numbers: dict[PodSelector, int] = {}

    def number(selector: PodSelector) -> tuple[int, bool, bool]:
        found = numbers.setdefault(selector, len(numbers))
        return found, selector in match_keys.lasting, selector in match_keys.staying

    terms = tuple((each.role, number(each.selector), each.topology_key, each.weight) for each in affinity_terms.terms)
    spread = tuple(
        (
            number(each.selector), each.selects_all, each.topology_key, each.max_skew, each.min_domains,
            each.honors_affinity, each.honors_taints,
        )
        for each in affinity_terms.spread
    )  # fmt: skip
    together = number(affinity_terms.affinity_selector) if affinity_terms.affinity_selector is not None else None
    return terms, spread, together


def waiting_at_first(job: JobState) -> list[Counter[PodClass]]:
    """The classes of tasks that were pending when the cycle began, by pod set."""
    found = [
        Counter({pod_set.only_class: len(pod_set.tasks)})
        if pod_set.only_class is not None and len(pod_set.pending) == len(pod_set.tasks)
        else Counter(task.pod_class for task in pod_set.tasks if task.status not in ACTIVE_ALLOCATED)
        for pod_set in job.job.pod_sets
    ]
    return [classes for classes in found if classes]
