"""Tells a Job's pods which group they belong to, as they arrive: the pod grouper then need not write to each of them.

The group is called after the Job, whose name and uid a pod has from the beginning; whether it exists yet doesn't
matter. What belongs to a Job that is itself a part of something larger (a JobSet's) is for the pod grouper to say: it
reads all owners, and puts right what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.gang import usual_group_name
from bosket.api.keys import JOBSET_REPLICATED_JOB_LABEL, POD_GROUP_ANNOTATION, SKIP_PODGROUPER_ANNOTATION
from bosket.runtime.webhook.verdict import Refusal

_JOB: Final = ("batch/v1", "Job")


class Membership:
    """Sets the annotation that names the group, where the pod has none and belongs to a Job."""

    name = "membership"

    def validate(self, _: Pod, /) -> tuple[Refusal, ...]:
        return ()

    def mutate(self, pod: Pod, /) -> Pod:
        meta = pod.metadata
        owners = meta.ownerReferences
        if (
            len(owners) != 1
            or (owners[0].apiVersion, owners[0].kind) != _JOB
            or JOBSET_REPLICATED_JOB_LABEL in meta.labels
        ):
            return pod
        if meta.annotations.get(SKIP_PODGROUPER_ANNOTATION) == "true" or POD_GROUP_ANNOTATION in meta.annotations:
            return pod
        name = usual_group_name(owners[0].name, owners[0].uid)
        annotations = {**meta.annotations, POD_GROUP_ANNOTATION: name}
        return replace(pod, metadata=replace(meta, annotations=annotations))


def is_of_a_job(metadata: Mapping[str, Any]) -> bool:
    """Whether a pod, as it is on the wire, belongs to a Job."""
    owners: list[dict[str, Any]] = metadata.get("ownerReferences") or []
    return len(owners) == 1 and (owners[0].get("apiVersion"), owners[0].get("kind")) == _JOB
