"""A cycle explained: its steps in order, each with counts, for the debug log.

`decide` keeps what each step did as data (`Decisions.steps`); the counting and the wording happen here, and only where
somebody reads them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.decisions import CANDIDATES, Bind, CycleStep, Decisions, Eviction, Operation, Pipeline
from bosket.scheduler.model.reason import GangShort, JobReason, NodesRefused
from bosket.scheduler.model.snapshot import Snapshot

#: So many kinds of refusals are named of each step, the most frequent first.
MOST_REFUSALS = 5


def log_steps(
    log: logging.Logger, what: str, snapshot: Snapshot, configuration: Configuration, decisions: Decisions
) -> None:
    """Logs the steps of a cycle at debug level, a line each. `what`: which cycle it was."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for number, step in enumerate(explained(snapshot, configuration, decisions), start=1):
        log.debug("%s, step %d: %s", what, number, step)


def explained(snapshot: Snapshot, configuration: Configuration, decisions: Decisions) -> Iterator[str]:
    """The steps of a cycle as sentences, in order."""
    yield (
        f"snapshot: {len(snapshot.nodes)} nodes, {len(snapshot.queues.queues)} queues, {len(snapshot.jobs)} jobs, "
        f"{len(snapshot.unsettled)} of them to look at"
    )
    yield f"open: {len(configuration.plugins)} plugins"
    for step in decisions.steps:
        yield _candidates(step) if step.name == CANDIDATES else _action(step, decisions)
    yield (
        f"close: {len(decisions.placed)} jobs have all their places, {len(decisions.waiting)} wait, "
        f"{len(decisions.lasting_binds)} pods to bind, {len(decisions.lasting_evictions)} to evict"
    )


def _candidates(step: CycleStep) -> str:
    may = step.jobs - len(step.refusals)
    return f"{step.name}: {may} of {step.jobs} jobs may be scheduled{_refused(step.refusals)}"


def _action(step: CycleStep, decisions: Decisions) -> str:
    parts = [f"{step.name}: {step.jobs} jobs looked at"]
    if tried := decisions.searches.tried[step.name]:
        simulated = sum(
            count
            for (action, _, state), count in decisions.searches.scenarios.items()
            if action == step.name and state == "simulated"
        )
        parts.append(f"victims searched for on behalf of {tried} ({simulated} scenarios simulated)")
    parts.append(_decided(step.operations))
    return ", ".join(parts) + _refused(step.refusals)


def _decided(operations: Iterable[Operation]) -> str:
    pods = Counter(map(type, operations))
    if not pods:
        return "nothing decided"
    jobs = {each.job.key for each in operations if not isinstance(each, Eviction)}
    kinds = ((Bind, "to bind"), (Pipeline, "to wait for what is being released"), (Eviction, "to evict"))
    return f"{len(jobs)} jobs placed (pods: {', '.join(f'{pods[kind]} {text}' for kind, text in kinds if pods[kind])})"


def _refused(reasons: tuple[JobReason, ...]) -> str:
    if not reasons:
        return ""
    counts = Counter(map(refusal, reasons)).most_common()
    named = [f"{count} by {text}" for text, count in counts[:MOST_REFUSALS]]
    if more := sum(count for _, count in counts[MOST_REFUSALS:]):
        named.append(f"{more} by others")
    return f"; refused: {', '.join(named)}"


def refusal(reason: JobReason) -> str:
    """What refused a job, in a few words that many jobs have in common: without names and amounts."""
    if isinstance(reason, GangShort):
        if not isinstance(reason.because, NodesRefused):
            return "a check of the pod"
        # The objection of the most nodes; of several by so many nodes the first by name.
        by_nodes = sorted(reason.because.by_reason.items(), key=lambda each: (-each[1], each[0]))
        return f"nodes ({by_nodes[0][0]})" if by_nodes else "a cluster without nodes"
    return reason.code or type(reason).__name__
