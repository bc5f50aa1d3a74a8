"""The board for those who own queues: who has what, who is owed what, who takes from whom.

Scheduler and queue controller both label queues; `queue_metadata_name` is the label that means the same in both.
"""

from __future__ import annotations

from typing import Final

from bosket.install.boards.panel import Board, Panel, Query, Row, Unit, Variable

_QUEUE: Final = "queue_metadata_name"
_LEGEND: Final = "{{queue_metadata_name}}"


def _of_queues(metric: str) -> str:
    return f'max by ({_QUEUE}) ({metric}{{{_QUEUE}=~"$queue"}})'


def _owed(metric: str) -> str:
    """Quotas that are limited: -1 is without end."""
    return f"({_of_queues(metric)} >= 0)"


def _lines(title: str, unit: Unit, query: str, text: str = "", *, stacked: bool = False) -> Panel:
    return Panel(title, unit, (Query(query, _LEGEND),), text, stacked=stacked)


#: Of its fair share, by queue.
_PART_IN_USE: Final = f"({_of_queues('kai_queue_allocated_gpus')} / ({_of_queues('kai_queue_fair_share_gpu')} > 0))"

_GPUS = Row(
    "GPUs",
    (
        _lines(
            "In use",
            "short",
            _of_queues("kai_queue_allocated_gpus"),
            "By a queue and all below it: choose queues of one level to add them up.",
            stacked=True,
        ),
        _lines(
            "Fair share",
            "short",
            _of_queues("kai_queue_fair_share_gpu"),
            "What a queue may count on now: its quota, and its part of what others leave.",
        ),
        _lines(
            "In use above (or below) the fair share",
            "short",
            f"{_of_queues('kai_queue_allocated_gpus')} - {_of_queues('kai_queue_fair_share_gpu')}",
            "Above 0: others may take it back. Below 0: nothing waits there, or nobody can be evicted for it.",
        ),
        _lines("Quota", "short", _owed("kai_queue_deserved_gpus"), "Queues without end aren't shown."),
        _lines(
            "Part of the quota in use",
            "percentunit",
            f"{_of_queues('kai_queue_allocated_gpus')} / ({_owed('kai_queue_deserved_gpus')} > 0)",
        ),
        Panel(
            "Evenness",
            "percentunit",
            (
                Query(
                    f"(sum({_PART_IN_USE}) ^ 2) / (count({_PART_IN_USE}) * sum({_PART_IN_USE} ^ 2))",
                    "Jain's index",
                ),
            ),
            "1: all queues have the same part of their fair share in use. 1/n: one of n queues has it all.",
        ),
    ),
)


def _pair(title: str, unit: Unit, used: str, share: str, text: str = "") -> Panel:
    queries = (Query(used, f"{_LEGEND} in use"), Query(share, f"{_LEGEND} fair share"))
    return Panel(title, unit, queries, text)


_OTHERS = Row(
    "CPU and memory",
    (
        _pair(
            "CPU cores",
            "short",
            _of_queues("kai_queue_allocated_cpu_cores"),
            _of_queues("kai_queue_fair_share_cpu_cores"),
        ),
        _pair(
            "Memory",
            "bytes",
            _of_queues("kai_queue_allocated_memory_bytes"),
            f"{_of_queues('kai_queue_fair_share_memory_gb')} * 1e9",
        ),
        Panel(
            "Quotas",
            "short",
            (
                Query(_owed("kai_queue_quota_cpu_cores"), f"{_LEGEND} cores"),
                Query(f"{_owed('kai_queue_quota_memory_bytes')} / 1e9", f"{_LEGEND} GB"),
            ),
        ),
    ),
)

_TIME = Row(
    "Over time",
    (
        Panel(
            "Use in the past",
            "percentunit",
            tuple(
                Query(_of_queues(f"kai_queue_{resource}_usage"), f"{_LEGEND} {resource}")
                for resource in ("gpu", "cpu", "memory")
            ),
            "1: the whole cluster during the whole window. Lowers the fair share, where that is configured.",
        ),
        Panel(
            "Who loses pods",
            "ops",
            (
                Query(
                    "topk(10, sum by (exported_namespace, namespace, podgroup, action)"
                    " (rate(kai_pod_group_evicted_pods_total[$__rate_interval])))",
                    "{{exported_namespace}}{{namespace}}/{{podgroup}} {{action}}",
                ),
            ),
            "The ten pod groups that lose the most. Where targets have a namespace, theirs is the exported one.",
        ),
        _lines("Queues", "short", _of_queues("kai_queue_info"), "1 for each that there is."),
    ),
)

FAIRNESS = Board(
    uid="bosket-fairness",
    title="Bosket: fairness",
    text="Who has what, who is owed what, who takes from whom.",
    rows=(_GPUS, _OTHERS, _TIME),
    variables=(Variable("queue", "kai_queue_info", _QUEUE),),
)
