"""A plan as plain JSON: the contract of `bosket plan --json`."""

from __future__ import annotations

from typing import Any

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.outcome import SHARE_DECIMALS, SHARE_NAMES
from bosket.scheduler.answers.plan import Plan
from bosket.scheduler.answers.plan_sentence import plan_sentence
from bosket.scheduler.model.resource import QueueAmounts

Json = dict[str, Any]


def plan_document(plan: Plan) -> Json:
    """The plan as plain JSON: the contract of `bosket plan --json`."""
    named = plan.workloads

    def job(key: ObjectKey) -> Json:
        return {"job": str(key)} | ({"workload": named[key]} if key in named else {})

    def amounts(share: QueueAmounts | None) -> Json | None:
        if share is None:
            return None
        return {name: round(amount, SHARE_DECIMALS) for name, amount in zip(SHARE_NAMES, share, strict=True)}

    before, after = plan.usage
    return {
        "sentence": plan_sentence(plan),
        "starts": [
            {
                **job(each.job),
                "nodes": each.nodes,
                "gpus": each.gpus,
                "when": each.when,
                "cycle": each.cycle,
                "seconds": round(each.seconds, 1),
                "anyway": each.anyway,
            }
            for each in plan.starts
        ],
        "waits": [
            {**job(each.job), "verdict": each.verdict, "sentence": each.sentence, "anyway": each.anyway}
            for each in plan.waits
        ],
        "evicts": [
            {
                **job(each.job),
                "pods": [pod for pod in each.pods if pod not in each.moves],
                "for": each.for_whom or None,
                "action": each.action,
                "cycle": each.cycle,
                "seconds": round(each.seconds, 1),
                "lost_gpu_hours": round(each.lost_gpu_hours, 2),
                "anyway": each.anyway,
            }
            for each in plan.evicts
            if len(each.moves) < len(each.pods)
        ],
        "moves": [
            {
                **job(each.job),
                "pods": {pod: {"from": source, "to": target} for pod, (source, target) in each.moves.items()},
                "for": each.for_whom or None,
                "cycle": each.cycle,
                "seconds": round(each.seconds, 1),
                "anyway": each.anyway,
            }
            for each in plan.evicts
            if each.moves
        ],
        "fairShare": {
            queue: {"before": amounts(old), "after": amounts(new)} for queue, (old, new) in plan.fair_share.items()
        },
        "usage": {
            "gpus": [before.gpus, after.gpus],
            "gpus_used": [before.used, after.used],
            "fragmented": [round(before.fragmented, 3), round(after.fragmented, 3)],
        },
        "drained": [
            {
                "nodes": list(each.nodes),
                "lost": [str(pod.key) for pod in each.lost],
                "blocked": [{"pod": str(pod.key), "by": budget} for pod, budget in each.blocked],
            }
            for each in plan.drained
        ],
        "snapshotDigest": plan.digest,
        "cycles": plan.cycles,
        "decides": plan.decides,
        "exitCode": plan.exit_code,
    }
