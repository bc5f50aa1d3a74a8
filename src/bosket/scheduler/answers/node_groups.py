"""The nodes of a cluster, grouped by why they don't take a job's pods: now, or never."""

from __future__ import annotations

import numpy as np

from bosket.scheduler.answers.explanation import NodeGroup
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.class_view import POD_NUMBER, short_of
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.task import PodClass, TaskStatus

#: So many nodes of a group are named.
MOST_NAMED = 3
#: What is said of nodes that have room.
FREE = "room for a pod"


def node_groups(trial: Trial, session: Session) -> tuple[NodeGroup, ...]:
    """The nodes by why they don't take the first of the job's pods; candidates first, then the largest groups.

    `session`: opened on the trial's snapshot.
    """
    task = next((task for task in trial.job.tasks if task.status in (TaskStatus.PENDING, TaskStatus.GATED)), None)
    if task is None or not len(trial.snapshot.nodes):
        return ()
    empty = trial.emptied_snapshot
    empty_session = open_session(empty, trial.cluster.configuration)
    own = next(each for each in empty.jobs[trial.key].tasks if each.key == task.key)
    never = _objections(empty_session, own.pod_class)
    now = _objections(session, task.pod_class)
    names = trial.snapshot.nodes.nodes
    groups: dict[tuple[bool, str], list[str]] = {}
    for row, node in enumerate(names):
        is_candidate = not never[row]
        reason = now[row] or FREE if is_candidate else never[row]
        groups.setdefault((is_candidate, reason), []).append(node.metadata.name)
    ordered = sorted(groups.items(), key=lambda item: (not item[0][0], -len(item[1]), item[0][1]))
    return tuple(
        NodeGroup(_plain(reason), len(found), is_candidate, tuple(found[:MOST_NAMED]))
        for (is_candidate, reason), found in ordered
    )


def _objections(session: Session, pod_class: PodClass) -> list[str]:
    """By row of nodes: the first objection to a pod of the class; empty where there is none."""
    view, ledger = session.views.of(pod_class), session.nodes
    codes, book = view.objection_codes(), session.reason_book
    texts = {int(code): book.text(int(code)) for code in np.unique(codes) if code}
    names = session.snapshot.resource_names
    free = ledger.idle + ledger.releasing
    free[GPU] = ledger.free_gpus() + ledger.releasing[GPU]
    wanted = pod_class.demand_by(session.snapshot.nodes.devices.smallest)
    found = [texts.get(int(code), "") for code in codes]
    for resource in (GPU, *(each for each, _ in pod_class.needs if each != GPU)):
        amount = float(wanted[resource])
        if amount:
            for row in np.flatnonzero(free[resource] + 1e-9 < amount):
                found[row] = found[row] or short_of(names[resource])
    for row in np.flatnonzero(free[PODS] < 1):
        found[row] = found[row] or POD_NUMBER
    return found


def candidate_nodes(trial: Trial) -> set[str]:
    """Names of the nodes that could take the first of the job's pods if nobody were there."""
    empty = trial.emptied_snapshot
    session = open_session(empty, trial.cluster.configuration)
    job: Job = empty.jobs[trial.key]
    task = next((task for task in job.tasks if task.status in (TaskStatus.PENDING, TaskStatus.GATED)), None)
    if task is None:
        return set()
    objections = _objections(session, task.pod_class)
    return {node.metadata.name for node, why in zip(empty.nodes.nodes, objections, strict=True) if not why}


def _plain(reason: str) -> str:
    return " ".join(reason.removeprefix("node(s) ").split()).rstrip(".")
