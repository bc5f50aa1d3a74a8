"""What each service must be allowed to do: the least without which it can't do its work.

By the names of the service accounts that KAI's chart gives them. `collect` asks the API server about those that exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.diagnosis.bundle import AccessNeed

_READ: Final = ("list", "watch")
_KAI: Final = "scheduling.run.ai"

#: Service account → verbs, group, resource.
_NEEDS: Final[dict[str, tuple[tuple[tuple[str, ...], str, str], ...]]] = {
    "scheduler": (
        (_READ, "", "pods"),
        (_READ, "", "nodes"),
        (_READ, _KAI, "queues"),
        (_READ, _KAI, "podgroups"),
        ((*_READ, "create", "delete"), _KAI, "bindrequests"),
        (("create",), "", "pods/eviction"),
        (("patch",), "", "pods/status"),
        (("patch",), _KAI, "podgroups/status"),
    ),
    "binder": (
        ((*_READ, "patch"), "", "pods"),
        (("create",), "", "pods/binding"),
        (_READ, _KAI, "bindrequests"),
        (("patch",), _KAI, "bindrequests/status"),
    ),
    "pod-grouper": (
        ((*_READ, "patch"), "", "pods"),
        ((*_READ, "create", "patch"), _KAI, "podgroups"),
    ),
    "podgroup-controller": (
        (_READ, "", "pods"),
        (_READ, _KAI, "podgroups"),
        (("patch",), _KAI, "podgroups/status"),
    ),
    "queue-controller": (
        (_READ, _KAI, "queues"),
        (_READ, _KAI, "podgroups"),
        (("patch",), _KAI, "queues/status"),
    ),
}


def needs_of(service_account: str) -> Iterator[AccessNeed]:
    """What is asked about for this service account; nothing for one that isn't a service's."""
    for verbs, group, resource in _NEEDS.get(service_account, ()):
        for verb in verbs:
            yield AccessNeed(service_account, verb, group, resource)
