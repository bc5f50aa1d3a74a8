"""Fair-share divisions that KAI's proportion plugin was asked for, against ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from bosket.scheduler.plugins.proportion.division import QueueDemand, divide_tree

RESOURCES = ("gpu", "cpu", "memory")
TOLERANCE = 1e-4


def differences(case: dict[str, Any]) -> list[str]:
    """Where our division differs from the recorded one; none when they agree."""
    given = case["input"]
    queues = sorted(given["queues"], key=lambda queue: queue["name"])
    rows = {queue["name"]: row for row, queue in enumerate(queues)}
    children: list[list[int]] = [[] for _ in queues]
    roots: list[int] = []
    for row, queue in enumerate(queues):
        (children[rows[queue["parent"]]] if queue["parent"] else roots).append(row)
    rank = np.argsort(np.argsort([queue["created"] for queue in queues], kind="stable"), kind="stable")
    found = []
    for resource in RESOURCES:
        shares = divide_tree(
            given["total"][resource], _demand(queues, resource, roots, children, rank), roots, children, given["k"]
        )
        for name, row in rows.items():
            expected = case["expected"][name][resource]
            if abs(shares[row] - expected) > TOLERANCE:
                found.append(f"{resource} of {name}: {shares[row]:g} instead of {expected:g}")
    return found


def _demand(
    queues: list[dict[str, Any]], resource: str, roots: list[int], children: list[list[int]], rank: np.ndarray
) -> QueueDemand:
    def column(field: str) -> np.ndarray:
        return np.array([queue[resource].get(field, 0.0) for queue in queues], dtype=float)

    request = column("request")

    def sum_up(row: int) -> float:
        if children[row]:
            request[row] = sum(sum_up(child) for child in children[row])
        return float(request[row])

    for root in roots:
        sum_up(root)
    priority = np.array([queue["priority"] for queue in queues])
    return QueueDemand(column("quota"), column("limit"), column("weight"), request, column("usage"), priority, rank)
