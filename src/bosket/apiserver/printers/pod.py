"""The columns of pods: one word for what a pod is doing, out of all that its status says."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.objects.kind import Column
from bosket.apiserver.objects.status_condition import find_condition
from bosket.apiserver.printers.cell import NONE, WIDE, at, cell, field
from bosket.apiserver.printers.table import AGE, NAME, age
from bosket.apiserver.store.entry import Doc


def _ready(doc: Doc) -> str:
    statuses = at(doc, "status.containerStatuses", ())
    ready = sum(1 for each in statuses if each.get("ready") and "running" in each.get("state", {}))
    sidecars = _sidecars(doc)
    ready += sum(
        1 for each in at(doc, "status.initContainerStatuses", ()) if each.get("ready") and each["name"] in sidecars
    )
    return f"{ready}/{len(at(doc, 'spec.containers', ())) + len(sidecars)}"


def _sidecars(doc: Doc) -> set[str]:
    return {each["name"] for each in at(doc, "spec.initContainers", ()) if each.get("restartPolicy") == "Always"}


def _status(doc: Doc) -> str:
    status = doc.get("status", {})
    reason: str = status.get("reason") or status.get("phase", "")
    scheduled = find_condition(status.get("conditions"), "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing = _initializing(doc)
    if initializing is not None:
        reason = initializing
    else:
        running = False
        for each in reversed(at(doc, "status.containerStatuses", ())):
            state = each.get("state", {})
            found = _state_reason(state)
            if found is not None:
                reason = found
            elif each.get("ready") and "running" in state:
                running = True
        if reason == "Completed" and running:
            ready = find_condition(status.get("conditions"), "Ready") or {}
            reason = "Running" if ready.get("status") == "True" else "NotReady"
    if "deletionTimestamp" in doc["metadata"] and status.get("phase") not in ("Succeeded", "Failed"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _state_reason(state: dict[str, Any]) -> str | None:
    waiting, terminated = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason"):
        return str(waiting["reason"])
    if terminated:
        if terminated.get("reason"):
            return str(terminated["reason"])
        return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated['exitCode']}"
    return None


def _initializing(doc: Doc) -> str | None:
    """What to say while init containers are not done; None afterwards."""
    total = len(at(doc, "spec.initContainers", ()))
    sidecars = _sidecars(doc)
    for index, each in enumerate(at(doc, "status.initContainerStatuses", ())):
        state = each.get("state", {})
        terminated = state.get("terminated")
        if terminated and terminated.get("exitCode") == 0:
            continue
        if each["name"] in sidecars and each.get("started"):
            continue
        if terminated:
            return f"Init:{_state_reason(state)}"
        reason = at(state, "waiting.reason", "")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
    return None


def _restarts(doc: Doc, now: float) -> str:
    sidecars = _sidecars(doc)
    statuses = [
        *at(doc, "status.containerStatuses", ()),
        *(each for each in at(doc, "status.initContainerStatuses", ()) if each["name"] in sidecars),
    ]
    count = sum(each.get("restartCount", 0) for each in statuses)
    finished = max((at(each, "lastState.terminated.finishedAt", "") for each in statuses), default="")
    return f"{count} ({age(finished, now)} ago)" if count and finished else str(count)


def _gates(doc: Doc) -> str:
    gates = at(doc, "spec.readinessGates", ())
    if not gates:
        return NONE
    conditions = at(doc, "status.conditions", [])
    passed = sum(
        1 for gate in gates if (find_condition(conditions, gate["conditionType"]) or {}).get("status") == "True"
    )
    return f"{passed}/{len(gates)}"


COLUMNS = {
    ("", "Pod"): (
        NAME,
        cell("Ready", _ready),
        cell("Status", _status),
        Column("Restarts", _restarts),
        AGE,
        field("IP", "status.podIP", priority=WIDE),
        field("Node", "spec.nodeName", priority=WIDE),
        field("Nominated Node", "status.nominatedNodeName", priority=WIDE),
        cell("Readiness Gates", _gates, priority=WIDE),
    )
}
