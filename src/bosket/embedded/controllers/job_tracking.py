"""The finalizer that keeps a Job's pods until they are counted, and which pods were counted.

A pod that has ended is counted in three writes, as Kubernetes does it: its uid goes into the job's
`uncountedTerminatedPods`, the pod loses the finalizer, the uid leaves the list and a counter grows. A controller that
stops between any two of them finds everything it needs to go on, and counts nobody twice: a pod with the finalizer that
isn't in the list is new, one in the list without the finalizer only lacks the counter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from bosket.api.batch import Job, UncountedTerminatedPods
from bosket.api.core import Pod

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
#: Longer lists would make the status too big; who finds no place is counted next time.
_MOST_UNCOUNTED: Final = 500


def is_tracked(pod: Pod) -> bool:
    """Whether the pod stays until its end is counted."""
    return FINALIZER in pod.metadata.finalizers


def untracked(pod: Pod) -> Pod:
    """The pod without the finalizer."""
    finalizers = tuple(each for each in pod.metadata.finalizers if each != FINALIZER)
    return replace(pod, metadata=replace(pod.metadata, finalizers=finalizers))


@dataclass(frozen=True, slots=True)
class Count:
    """What a job's status says of pods that have ended, once `settled` is in it; pods come on top with `add`."""

    succeeded: int
    failed: int
    uncounted: UncountedTerminatedPods

    @classmethod
    def settled(cls, job: Job, pods: Iterable[Pod]) -> Count:
        """The job's counters with those uncounted pods in them that have lost the finalizer, or are gone."""
        held = {pod.metadata.uid for pod in pods if is_tracked(pod)}
        listed = job.status.uncountedTerminatedPods or UncountedTerminatedPods()
        succeeded = tuple(uid for uid in listed.succeeded if uid in held)
        failed = tuple(uid for uid in listed.failed if uid in held)
        return cls(
            succeeded=job.status.succeeded + len(listed.succeeded) - len(succeeded),
            failed=job.status.failed + len(listed.failed) - len(failed),
            uncounted=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
        )

    @property
    def all_succeeded(self) -> int:
        """With those that aren't in the counter yet."""
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def all_failed(self) -> int:
        """With those that aren't in the counter yet."""
        return self.failed + len(self.uncounted.failed)

    def lists(self, pod: Pod) -> bool:
        return pod.metadata.uid in self.uncounted.succeeded or pod.metadata.uid in self.uncounted.failed

    def add(self, succeeded: list[Pod], failed: list[Pod]) -> Count:
        """These have ended since, and are listed as far as the list has room."""
        room = _MOST_UNCOUNTED - len(self.uncounted.succeeded) - len(self.uncounted.failed)
        listed_succeeded = _uids(succeeded[: max(0, room)])
        listed_failed = _uids(failed[: max(0, room - len(listed_succeeded))])
        uncounted = UncountedTerminatedPods(
            succeeded=(*self.uncounted.succeeded, *listed_succeeded), failed=(*self.uncounted.failed, *listed_failed)
        )
        return Count(self.succeeded, self.failed, uncounted)


def _uids(pods: list[Pod]) -> tuple[str, ...]:
    return tuple(pod.metadata.uid for pod in pods)
