"""A Job's `podFailurePolicy` applied to a failed pod: the first matching rule decides."""

from __future__ import annotations

from typing import NamedTuple

from bosket.api.batch import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from bosket.api.core import Pod


class Verdict(NamedTuple):
    """`Count` the failure, `Ignore` it, or `FailJob`; and in a sentence why."""

    action: str
    message: str = ""


def judge(job: Job, pod: Pod) -> Verdict:
    """What a failed pod means for its job; it counts where no rule speaks of it."""
    policy = job.spec.podFailurePolicy
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        reason = _match(rule, pod)
        if reason is not None:
            return Verdict(rule.action, f"{reason} matching {rule.action} rule at index {number}")
    return Verdict("Count")


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    if rule.onExitCodes is not None:
        return _match_exit_codes(rule.onExitCodes, pod)
    for pattern in rule.onPodConditions:
        for condition in pod.status.conditions:
            if condition.type == pattern.type and condition.status == (pattern.status or "True"):
                return f"Pod {pod.key} has condition {condition.type}"
    return None


def _match_exit_codes(wanted: PodFailurePolicyOnExitCodesRequirement, pod: Pod) -> str | None:
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        ended = status.state.terminated
        if ended is None or ended.exitCode == 0 or wanted.containerName not in (None, status.name):
            continue
        if (ended.exitCode in wanted.values) == (wanted.operator == "In"):
            return f"Container {status.name} for pod {pod.key} failed with exit code {ended.exitCode}"
    return None
