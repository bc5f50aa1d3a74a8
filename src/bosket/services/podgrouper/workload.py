"""What a grouper receives and returns.

A grouper is a function `Workload -> Grouping` without I/O. What it may ask about the cluster is in `Cluster`, from
memory. If it needs another object, it asks the workload (`read`, `read_all`): a missing object is read by the caller,
which then calls the grouper again. Answers of programs (`answers_of`) work the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.services.podgrouper.kind_default import KindDefaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupVersionKind, Owner
from bosket.services.podgrouper.program import Answers, Programs

# Labels by which groupers look up pods; the service keeps an index of its informer for each.
#: On all pods of one of Kubeflow's training jobs: the job's name.
TRAINING_JOB_LABEL: Final = "training.kubeflow.org/job-name"
#: On all pods of a Knative service: the revision that they run.
KNATIVE_REVISION_LABEL: Final = "serving.knative.dev/revision"

#: All labels with an index.
POD_LABELS: Final = (TRAINING_JOB_LABEL, KNATIVE_REVISION_LABEL)


class Cluster(Protocol):
    """What grouping needs to know beyond the pod and its owners."""

    def priority_class_exists(self, name: str) -> bool: ...

    def pod_group(self, key: ObjectKey) -> PodGroup | None: ...

    def namespace_labels(self, name: str) -> Mapping[str, str]: ...

    def kind_defaults(self) -> KindDefaults: ...

    def pods_labelled(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        """Pods by one of the labels in `POD_LABELS`."""

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterable[PodGroup]:
        """Groups that have an object's uid in their names."""


class Wanted(NamedTuple):
    """Another object in the pod's namespace; or, without a name, all objects of its kind."""

    gvk: GroupVersionKind
    name: str = ""


class NotReadYet(Exception):
    """A grouper needs an object that has not been read."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(f"{wanted.gvk} {wanted.name}")
        self.wanted = wanted


class NotAnsweredYet(Exception):
    """A grouper needs answers of programs that have not been run."""

    def __init__(self, programs: Programs) -> None:
        super().__init__(f"{len(programs.of_workload) + len(programs.of_pod)} programs")
        self.programs = programs


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod, its owners (the direct one first), and the object that decides: the top owner, or the pod itself."""

    pod: Pod
    owners: tuple[Owner, ...]
    top: Owner
    cluster: Cluster
    options: Options
    #: What else was read so far.
    others: Mapping[Wanted, tuple[Owner, ...]] = field(default_factory=dict)
    #: What was answered about the top owner and the pod so far.
    answers: Mapping[Programs, Answers] = field(default_factory=dict)

    def read(self, gvk: GroupVersionKind, name: str) -> Owner:
        """Another object in the pod's namespace."""
        (found,) = self._others(Wanted(gvk, name))
        return found

    def read_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        """All objects of a kind in the cluster; none where the API server doesn't serve it."""
        return self._others(Wanted(gvk))

    def answers_of(self, programs: Programs) -> Answers:
        """What programs say about the top owner and the pod."""
        if programs not in self.answers:
            raise NotAnsweredYet(programs)
        return self.answers[programs]

    def _others(self, wanted: Wanted) -> tuple[Owner, ...]:
        if wanted not in self.others:
            raise NotReadYet(wanted)
        return self.others[wanted]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The group that a pod belongs to, and its sub-group; "" for a direct member."""

    pod_group: PodGroup
    subgroup: str = ""


Grouper = Callable[[Workload], Grouping]
