"""Conditions of Config and SchedulingShard: KAI's, with the operands that aren't ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bosket.api.condition import turned_at
from bosket.api.object import Condition
from bosket.services.operator.manifest import Manifest

DEPENDENCIES: Final = "DependenciesFulfilled"
PROMETHEUS_ANSWERS: Final = "prometheus_connected"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reconciliation found out."""

    #: What can't be followed, and what the server refused.
    problems: Sequence[str] = ()
    #: Objects that aren't there, and workloads that aren't available.
    absent: Sequence[str] = ()
    unavailable: Sequence[str] = ()
    #: What must be installed by others.
    missing: Sequence[str] = ()
    #: Whether a Prometheus that is elsewhere answers; None where there is none.
    prometheus_answers: bool | None = None
    #: What was left out, and is worth a word though nothing is wrong.
    notes: Sequence[str] = field(default=())
    #: To be raised once the conditions are written: the reconciliation is tried again, after a back-off.
    failure: Exception | None = None


def conditions(findings: Findings, before: Iterable[Condition], generation: int, now: float) -> tuple[Condition, ...]:
    """The conditions after a reconciliation; one whose status stays keeps the time of its last change."""
    problems, notes = "\n".join(findings.problems), "\n".join(findings.notes)
    deployed = not findings.problems and not findings.absent
    available = deployed and not findings.unavailable
    ready = available and not findings.missing
    wrong = problems or "\n".join(findings.absent)
    fulfilled = "dependencies_fulfilled" if findings.prometheus_answers is None else PROMETHEUS_ANSWERS
    lacking = "prometheus_connection_failed" if findings.prometheus_answers is False else "dependencies_missing"
    fields = [
        _condition(
            "Reconciling",
            bool(problems),
            "reconciling" if problems else "reconciled",
            problems or "Reconciliation completed successfully",
        ),
        _condition("Deployed", deployed, "deployed", wrong or "\n".join(filter(None, ("Resources deployed", notes)))),
        _condition("Available", available, "available", wrong or "\n".join(findings.unavailable) or "System available"),
        _condition(
            DEPENDENCIES,
            not findings.missing,
            lacking if findings.missing else fulfilled,
            "\n".join(findings.missing) or "Dependencies are fulfilled",
        ),
        _condition(
            "Ready",
            ready,
            "ready" if ready else "not_ready",
            "System is ready" if ready else "\n".join(filter(None, (wrong, *findings.unavailable, *findings.missing))),
        ),
    ]
    known = {each.type: each for each in before}
    return tuple(_dated(each, known.get(each["type"]), generation, now) for each in fields)


def unavailable(manifest: Manifest, live: dict[str, Any]) -> str | None:
    """What is in the way of a workload; None if nothing is, or if the object is none."""
    status = live.get("status") or {}
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    current = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    if kind == "Deployment":
        replicas = manifest["spec"]["replicas"]
        held = any(each["type"] == "Available" and each["status"] == "True" for each in status.get("conditions", ()))
        fine = current and status.get("updatedReplicas", 0) == replicas and held
        counts = f"{status.get('availableReplicas', 0)} of {replicas} replicas"
    elif kind == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        fine = current and status.get("numberAvailable", 0) == wanted
        counts = f"{status.get('numberAvailable', 0)} of {wanted} pods"
    else:
        return None
    return None if fine else f"{kind} [{name}] is not available: {counts}"


def _condition(type_: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": message}


def _dated(fields: dict[str, Any], before: Condition | None, generation: int, now: float) -> Condition:
    since = turned_at(before, fields["status"], now)
    return Condition(**fields, lastTransitionTime=since, observedGeneration=generation)
