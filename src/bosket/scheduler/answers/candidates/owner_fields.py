"""Changes of fields that a job's owner sets: priority, queue, preemptibility, preemption delay."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from bosket.api.scheduling_k8s import PriorityClass
from bosket.scheduler.answers.candidate import Candidate
from bosket.scheduler.answers.patching import Patching
from bosket.scheduler.answers.trial import Trial

#: So many other queues are tried.
MOST_QUEUES = 4


def of_owner_fields(trial: Trial) -> Iterator[Candidate]:
    """Candidates for the job's owner."""
    job, group = trial.job, trial.job.group
    if not job.preemptible:
        patch = Patching(group).set("spec", "preemptibility", value="preemptible").patch
        yield Candidate.single("user", "preemptible", "let others preempt it (preemptibility: preemptible)", *patch)
    yield from _priorities(trial)
    if job.preemption_delay_seconds:
        patch = Patching(group).set("spec", "preemptionDelay", value="0s").patch
        sentence = f"don't wait {group.spec.preemptionDelay} before others are evicted for it (preemptionDelay: 0s)"
        yield Candidate.single("user", "preemption-delay", sentence, *patch)
    yield from _queues(trial)


def _priorities(trial: Trial) -> Iterator[Candidate]:
    job, known = trial.job, trial.cluster.objects(PriorityClass)
    by_value = {each.value: each for each in known if isinstance(each, PriorityClass) and each.value > job.priority}
    steps = [by_value[value] for value in sorted(by_value)]
    if steps:
        yield Candidate(
            "user",
            "priority",
            lambda size: (
                Patching(job.group).set("spec", "priorityClassName", value=steps[size - 1].metadata.name).patch
            ),
            lambda size: (
                f"raise its priority from {job.priority} to {steps[size - 1].value} "
                f"(priorityClassName: {steps[size - 1].metadata.name})"
            ),
            most=len(steps),
            is_number=True,
        )


def _queues(trial: Trial) -> Iterator[Candidate]:
    job, tree = trial.job, trial.snapshot.queues
    leaves = [queue for row, queue in enumerate(tree.queues) if not tree.children[row] and queue.name != job.queue]
    mine = tree.rows.get(job.queue)
    if mine is None:
        names = [queue.name for queue in leaves]
        close = difflib.get_close_matches(job.queue, names, MOST_QUEUES, 0.0) if job.queue else []
        ordered = list(dict.fromkeys([*close, *names]))
    else:
        parent = tree.queues[mine].parent
        ordered = [each.name for each in sorted(leaves, key=lambda each: each.parent != parent)]
    for name in ordered[:MOST_QUEUES]:
        patch = Patching(job.group).set("spec", "queue", value=name).patch
        yield Candidate.single("user", "other-queue", f"submit it to queue {name}", *patch)
