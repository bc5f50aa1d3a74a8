"""`plan`: what would happen if, as one call: for the command and for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bosket.scheduler.answers.change import ObjectPatch
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.answers.edits import add_nodes, delete, drain, set_queue
from bosket.scheduler.answers.plan import Plan, make_plan
from bosket.tools.expansion.item import ExpansionError
from bosket.tools.expansion.manifests import Manifest, read_manifests
from bosket.tools.expansion.submission import Submission, submit

#: Until what follows from most changes has happened.
CYCLES = 10


@dataclass(frozen=True, slots=True)
class Changes:
    """What is asked about; texts are as on the command line of `bosket plan`."""

    files: tuple[Path, ...] = ()  #: of workloads that aren't submitted yet
    workloads: tuple[Mapping[str, Any], ...] = ()  #: the same, as objects
    settings: tuple[str, ...] = ()  #: of queues: `team-a.gpu.quota=8`
    drained: tuple[str, ...] = ()  #: nodes, or labels with their values
    added: tuple[str, ...] = ()  #: numbers of nodes: `4`, `4:like=node-7`
    deleted: tuple[str, ...] = ()  #: `Queue/team-a`, `Job/train`
    patches: tuple[ObjectPatch, ...] = ()

    def __bool__(self) -> bool:
        return any((self.files, self.workloads, self.settings, self.drained, self.added, self.deleted, self.patches))


async def plan_changes(
    cluster: Cluster, changes: Changes, *, namespace: str = "default", cycles: int = CYCLES
) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and sentences about what of the workloads is left out.

    Drains come last: what is drained may be what was added or changed. Raises `ChangeError`, `EditError` or
    `ExpansionError`, each a sentence for the person who asked.
    """
    draft = Draft(cluster)
    draft.apply(changes.patches)
    for text in changes.settings:
        set_queue(draft, text)
    for text in changes.deleted:
        delete(draft, text, namespace)
    for text in changes.added:
        add_nodes(draft, text)
    drained = [drain(draft, text) for text in changes.drained]
    submission = await _submitted(draft, changes, namespace)
    made = make_plan(
        cluster, draft, subjects=submission.jobs, workloads=submission.workloads, drained=drained, cycles=cycles
    )
    return made, tuple(submission.notes)


def plan(cluster: Cluster, changes: Changes, *, namespace: str = "default", cycles: int = CYCLES) -> Plan:
    """What would happen to the cluster. Raises what `plan_changes` raises; not for callers within an event loop."""
    return asyncio.run(plan_changes(cluster, changes, namespace=namespace, cycles=cycles))[0]


async def _submitted(draft: Draft, changes: Changes, namespace: str) -> Submission:
    if not (changes.files or changes.workloads):
        return Submission()
    made = await submit(draft, _manifests(changes), namespace)
    if not made.jobs and not draft.changed:
        raise ExpansionError("nothing is planned: the files hold no pods for this scheduler")
    return made


def _manifests(changes: Changes) -> Iterable[Manifest]:
    given = [Manifest(dict(each), f"workloads[{number}]") for number, each in enumerate(changes.workloads)]
    return [*read_manifests(changes.files), *given]
