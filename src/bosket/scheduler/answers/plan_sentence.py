"""What a plan comes to, in one sentence with numbers: the first line of `bosket plan`, and a field of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bosket.api.object import ObjectKey

if TYPE_CHECKING:
    from bosket.scheduler.answers.plan import Plan, Start, Wait


#: The first of these that is true of one of its jobs is said of a workload.
_WHEN: Final = {
    "later": "later", "after-evictions": "after evictions", "after-deletions": "when what is deleted has ended",
    "now": "at once",
}  # fmt: skip
#: So many workloads are named.
_NAMED: Final = 3


def plan_sentence(plan: Plan) -> str:
    """About the workloads that aren't submitted yet; without such, about what the changes change."""
    return _about_workloads(plan) if plan.subjects else _about_changes(plan)


def _about_workloads(plan: Plan) -> str:
    by_workload: dict[str, list[ObjectKey]] = {}
    for job in plan.subjects:
        by_workload.setdefault(plan.workloads.get(job, str(job)), []).append(job)
    starts = {each.job: each for each in plan.starts}
    waits = {each.job: each for each in plan.waits}
    if len(by_workload) == 1:
        ((name, jobs),) = by_workload.items()
        nobody_starts = all(job in waits for job in jobs)
        return f"{name} {_becomes(plan, jobs, starts, waits)}{'' if nobody_starts else _evictions(plan)}"
    parts = []
    waiting = [name for name, jobs in by_workload.items() if any(job in waits for job in jobs)]
    started = [name for name, jobs in by_workload.items() if name not in waiting and all(job in starts for job in jobs)]
    if started:
        parts.append(f"{len(started)} of {len(by_workload)} workloads {_verb(started)}")
    for verdict, text in (("never", "never starts as it is"), ("not-now", "waits")):
        names = [
            name for name in waiting if any(waits[job].verdict == verdict for job in by_workload[name] if job in waits)
        ]
        if names:
            parts += [f"{name} {text}" for name in names[:_NAMED]]
            if len(names) > _NAMED:
                parts.append(f"so do {len(names) - _NAMED} more")
    return "; ".join(parts or ["nothing starts"]) + _evictions(plan)


def _verb(names: list[str]) -> str:
    return "starts" if len(names) == 1 else "start"


def _becomes(
    plan: Plan, jobs: list[ObjectKey], starts: Mapping[ObjectKey, Start], waits: Mapping[ObjectKey, Wait]
) -> str:
    waiting = [waits[job] for job in jobs if job in waits]
    started = [starts[job] for job in jobs if job in starts]
    if waiting and len(waiting) == len(jobs):
        first = waiting[0]
        how = {
            "never": "never starts as it is",
            "not-now": "waits",
            "waiting-for-termination": "waits until others have ended",
        }[first.verdict]
        return f"{how}: {first.sentence}"
    if waiting:
        return f"starts with {len(started)} of {len(jobs)} pod groups; the others wait: {waiting[0].sentence}"
    if not started:
        return f"has no place after {_count(plan.cycles, 'cycle')}"
    nodes = {node for each in started for node in each.nodes.values()}
    pods = sum(len(each.pods) for each in started)
    gpus = sum(each.gpus for each in started)
    whens = {each.when for each in started}
    when = next(text for each, text in _WHEN.items() if each in whens)
    if "later" in whens:
        when = f"after {_duration(max(each.seconds for each in started))}"
    with_gpus = f" with {gpus:g} GPU{'' if gpus == 1 else 's'}" if gpus else ""
    return f"starts {when}: {_count(pods, 'pod')}{with_gpus} on {_count(len(nodes), 'node')}"


def _evictions(plan: Plan) -> str:
    evicted = [each for each in plan.evicts if not each.anyway]
    if not evicted:
        return "; nobody is evicted"
    pods, jobs = sum(len(each.pods) for each in evicted), {each.job for each in evicted}
    moved = sum(len(each.moves) for each in evicted)
    text = f"; {_count(pods, 'pod')} of {_count(len(jobs), 'job')} {'is' if pods == 1 else 'are'} evicted"
    return f"{text}, {moved} of them to start elsewhere" if moved else text


def _about_changes(plan: Plan) -> str:
    evicted = [each for each in plan.evicts if not each.anyway]
    lost = {each.job for each in evicted}
    started = [each for each in plan.starts if not each.anyway]
    again = [each for each in started if each.job in lost]
    more = len(started) - len(again)
    waiting = [each for each in plan.waits if not each.anyway]
    parts = []
    if evicted:
        pods = sum(len(each.pods) for each in evicted)
        parts.append(f"{_count(pods, 'pod')} of {_count(len(lost), 'job')} {'is' if pods == 1 else 'are'} evicted")
    if again:
        parts.append(f"{_count(len(again), 'job')} of these {'starts' if len(again) == 1 else 'start'} elsewhere")
    if more:
        parts.append(f"{_count(more, 'more job')} {'starts' if more == 1 else 'start'}")
    if waiting:
        parts.append(f"{_count(len(waiting), 'more job')} {'waits' if len(waiting) == 1 else 'wait'}")
    return "; ".join(parts) if parts else "no job starts, waits or is evicted that wouldn't anyway"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
