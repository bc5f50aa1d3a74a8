"""The embedded cluster's default scheduler: places pods that name `default-scheduler`, with no queues.

It is Bosket's own scheduler (`bosket.scheduler`, the same `decide`), shown another view of the cluster: gangs are the
PodGroups and CompositePodGroups of scheduling.k8s.io, or single pods, and all of them live in one queue without limits.

    gang        pure: PodGroups and CompositePodGroups as one internal pod group with sub-groups
    view        keeps the internal objects up to date, as informers that the scheduler reads
    guard       refuses bind requests that another scheduler was faster than
    service     runs the scheduler on that view, from the first pod on; says in PodGroups what came of them

Internal objects exist in this process alone. Binds are ordinary BindRequests: the binder carries them out, and both
schedulers count them, so that neither gives away what the other has given; of two that do so in the same moment, one
is refused and decides anew.
"""

from bosket.embedded.default_scheduler.guard import BindGuard
from bosket.embedded.default_scheduler.service import DefaultScheduler

__all__ = ["BindGuard", "DefaultScheduler"]
