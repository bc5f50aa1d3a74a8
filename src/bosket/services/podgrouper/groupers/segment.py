"""What PyTorchJobs and LeaderWorkerSets have in common: workers in segments, each of which is kept close together."""

from __future__ import annotations

from typing import Final

from bosket.api import keys
from bosket.api.kai import TopologyConstraint
from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.groupers.default import close_together
from bosket.services.podgrouper.workload import Workload

MOST_SEGMENTS: Final = 10_000


def segment_topology(workload: Workload, template: Part | None) -> TopologyConstraint | None:
    """How close the workers of a segment must be: by the pod's annotations, else by those of the worker template."""

    def annotation(key: str) -> str:
        return workload.pod.metadata.annotations.get(key) or _of_template(template, key)

    return close_together(
        annotation(keys.TOPOLOGY_ANNOTATION) or workload.top.annotations.get(keys.TOPOLOGY_ANNOTATION, ""),
        annotation(keys.SEGMENT_TOPOLOGY_REQUIRED_ANNOTATION),
        annotation(keys.SEGMENT_TOPOLOGY_PREFERRED_ANNOTATION),
    )


def _of_template(template: Part | None, key: str) -> str:
    return (template.text("metadata", "annotations", key) if template is not None else None) or ""
