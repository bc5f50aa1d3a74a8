"""What a round leaves of resource claims: devices given to pods that were bound, and given back by those that went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction
from bosket.scheduler.model.task import Task

Json = dict[str, Any]
Claims = Mapping[ObjectKey, Json]  #: the status of each


def claims_after(decisions: Decisions, claims: Claims) -> dict[ObjectKey, Json]:
    """A pod that waits for others to go has no claim to their devices in the next round: it is decided on anew."""
    after = dict(claims)
    for each in decisions.operations:
        devices = each.task.devices
        if devices is None:
            continue
        if isinstance(each, Eviction):
            for ref in devices.refs:
                after[ref.key] = _released(after.get(ref.key, {}), each.task)
        elif isinstance(each, Bind):
            keys = {ref.name: ref.key for ref in devices.refs}
            for given in each.claims:
                key = keys[given.name]
                after[key] = _reserved(after.get(key, {}), each.task, msgspec.to_builtins(given.allocation))
    return after


def _released(status: Json, task: Task) -> Json:
    reserved = [each for each in status.get("reservedFor", ()) if each["uid"] != task.uid]
    return {**status, "reservedFor": reserved} if reserved else {}


def _reserved(status: Json, task: Task, allocation: Json) -> Json:
    consumer = {"resource": "pods", "name": task.key.name, "uid": task.uid}
    others = [each for each in status.get("reservedFor", ()) if each["uid"] != task.uid]
    return {"allocation": status.get("allocation") or allocation, "reservedFor": [*others, consumer]}
