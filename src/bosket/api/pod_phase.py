"""Where a pod is in its life, by its phase."""

from __future__ import annotations

from typing import Final

from bosket.api.core import Pod

ENDED: Final = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Pod) -> bool:
    """Whether the pod has run for the last time: it holds nothing any more, and is still there to be looked at."""
    return pod.status.phase in ENDED
