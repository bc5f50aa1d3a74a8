"""Flags of KAI's scheduler that Bosket's lacks, and why. Those that it has are in `bosket.services.operator.shard`."""

from __future__ import annotations

from typing import Final

#: Set by the operator from Config and shard; whoever gives them by hand is overruled.
GENERATED: Final = frozenset(
    {
        "leader-elect",
        "listen-address",
        "log-json",
        "metrics-namespace",
        "namespace",
        "nodepool-label-key",
        "partition-label-value",
        "queue-label-key",
        "resource-reservation-app-label",
        "scheduler-conf",
        "scheduler-name",
    }
)
#: Have no effect, and why.
WITHOUT_EFFECT: Final = {
    "pyroscope-block-profiler-rate": "profiles are of CPU and memory; Python has none of blocking",
    "pyroscope-mutex-profiler-rate": "profiles are of CPU and memory; Python has none of mutexes",
    "num-of-status-recording-workers": "status is written by as many requests as there are changes",
    "update-pod-eviction-condition": "pods that are evicted always have the condition DisruptionTarget",
    "v": "logs are set by --log-level",
    "version": "the version is always logged",
}
#: Have a meaning in KAI that Bosket's scheduler doesn't offer.
MISSING: Final = {
    "mig-worker-node-label-key": "nodes with MIG are found by their resources",
}
