"""Clusters for questions: a list of objects as a `Cluster`, without a file in between."""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import explain
from bosket.scheduler.answers.explanation import Explanation
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.recorded import Recorded, read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.cluster import NOW, state_of


def recorded(*objects: KubeObject | Iterable[KubeObject], configuration: Configuration | None = None) -> Recorded:
    """A recording of these objects, as a snapshot file has it; lists of objects are flattened."""
    flat: list[KubeObject] = []
    for each in objects:
        flat += [each] if isinstance(each, KubeObject) else each
    return read(zipped(take(state_of(flat), StateOptions(), configuration or Configuration(), NOW)))


def cluster(*objects: KubeObject | Iterable[KubeObject], configuration: Configuration | None = None) -> Cluster:
    """These objects as a cluster."""
    return Cluster(recorded(*objects, configuration=configuration))


def explained(found: Cluster, name: str, *, namespace: str = "default", seconds: float = 60.0) -> Explanation:
    """Why the job waits, with time enough to try every change."""
    return explain(found, ObjectKey(namespace, name), seconds=seconds)
