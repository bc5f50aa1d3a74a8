"""A plan for people: one sentence with numbers, then what differs, before and after, as tables."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from bosket.cli.columns import Column, Row, lines
from bosket.cli.quantity_text import amount
from bosket.scheduler.answers.plan_sentence import plan_sentence

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.api.object import ObjectKey
    from bosket.scheduler.answers.plan import Evicted, Plan

#: So many nodes are named of a job, and so many lines are shown of a table, on a terminal.
_NODES: Final = 3
_ROWS: Final = 40
_STYLES: Final = {
    "starts": "green", "starts again": "green", "waits": "yellow", "never starts": "red", "evicted": "red",
    "moves": "cyan", "lost": "red", "stays": "yellow",
}  # fmt: skip


def plan_lines(plan: Plan, width: int | None) -> Iterator[Text | str]:
    """The lines; `width` as in `columns.lines`."""
    from rich.text import Text

    said = plan_sentence(plan)
    for line in textwrap.wrap(said, width, break_long_words=False, break_on_hyphens=False) if width else [said]:
        yield Text(line, "bold")
    # A row that only repeats the sentence is none.
    rows = [row for row in _jobs(plan) if not (row.sentence and said.endswith(f": {row.sentence}"))]
    if rows:
        yield ""
        shown = rows if width is None else rows[:_ROWS]
        columns = [Column("JOB"), Column("BECOMES"), Column("PODS", is_number=True), Column("NODES", leaves=1)]
        yield from lines(columns, shown, width)
        if len(rows) > len(shown):
            yield f"… and {len(rows) - len(shown)} more (--json has all)"
    queues = list(_queues(plan))
    if queues:
        yield ""
        yield from lines(
            [Column("QUEUE"), Column("FAIR SHARE OF GPUS BEFORE", is_number=True), Column("AFTER", is_number=True)],
            queues, width,
        )  # fmt: skip
    yield ""
    yield from _usage(plan, width)
    if anyway := [each for each in plan.starts if each.anyway]:
        pods = sum(len(each.pods) for each in anyway)
        yield f"{len(anyway)} jobs with {pods} pods start anyway, and {sum(e.anyway for e in plan.waits)} wait anyway."
    yield Text(f"--expect {plan.digest}", "dim")


def _jobs(plan: Plan) -> Iterator[Row]:
    """Those that fare otherwise than without the changes, and all that the plan is about."""
    subjects = set(plan.subjects)
    lost = {each.job for each in plan.evicts}
    merged: dict[tuple[str, str, str], tuple[Counter[str], str]] = {}

    def add(job: ObjectKey, becomes: str, nodes: Iterable[str], sentence: str = "") -> None:
        key = (plan.workloads.get(job, str(job)), becomes, sentence)
        found, _ = merged.setdefault(key, (Counter(), sentence))
        found.update(nodes)

    for wait in plan.waits:
        if wait.job in subjects or not wait.anyway:
            add(wait.job, "never starts" if wait.verdict == "never" else "waits", [""] * wait.pods, wait.sentence)
    for start in plan.starts:
        if start.job in subjects or not start.anyway:
            add(start.job, "starts again" if start.job in lost else "starts", start.nodes.values())
    for each in plan.evicts:
        if each.anyway:
            continue
        why = _why(plan, each)
        moved = each.moves
        if moved:
            add(each.job, "moves", (target for _, target in moved.values()), why)
        if stay := [pod for pod in each.pods if pod not in moved]:
            add(each.job, "evicted", [""] * len(stay), why)
    for drained in plan.drained:
        for pod in drained.lost:
            add(pod.key, "lost", [""], "no controller makes it anew")
        for pod, budget in drained.blocked:
            add(pod.key, "stays", [pod.spec.nodeName], f"its disruption budget {budget} allows no eviction")
    for (name, becomes, sentence), (nodes, _) in merged.items():
        yield Row([name, _styled(becomes), str(nodes.total()), _nodes(nodes)], sentence)


def _why(plan: Plan, each: Evicted) -> str:
    names: Mapping[str, str] = {str(job): name for job, name in plan.workloads.items()}
    why = f"for {names.get(each.for_whom, each.for_whom)}" if each.for_whom else "on its own account"
    return f"{why}, {each.lost_gpu_hours:.1f} GPU hours of work are lost" if each.lost_gpu_hours >= 0.05 else why


def _styled(becomes: str) -> Text:
    from rich.text import Text

    return Text(becomes, _STYLES.get(becomes, ""))


def _nodes(nodes: Counter[str]) -> str:
    names = sorted(filter(None, nodes))
    more = f" and {len(names) - _NODES} more" if len(names) > _NODES else ""
    return ", ".join(names[:_NODES]) + more


def _queues(plan: Plan) -> Iterator[Row]:
    """Queues whose fair share of GPUs changes, or that come or go."""
    for queue, (before, after) in plan.fair_share.items():
        old, new = before[0] if before else 0.0, after[0] if after else 0.0
        if abs(old - new) < 0.05:
            continue
        yield Row([queue, amount(old), amount(new)])


def _usage(plan: Plan, width: int | None) -> Iterator[Text | str]:
    before, after = plan.usage
    rows = [
        Row(["GPUs", amount(before.gpus), amount(after.gpus)]),
        Row(["  used", amount(before.used), amount(after.used)]),
        Row(["  fragmented", f"{before.fragmented:.1f}", f"{after.fragmented:.1f}"]),
    ]
    followed = "" if plan.cycles == 1 else f" {plan.cycles} CYCLES"
    yield from lines(
        [Column("CLUSTER"), Column("BEFORE", is_number=True), Column(f"AFTER{followed}", is_number=True)], rows, width
    )
