"""What couldn't be read: kinds that nobody serves or that the asker may not list, objects that don't fit their kind."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.kai import RESOURCES
from bosket.api.table import resource_of
from bosket.tools.doctor.bundle import Obstacle
from bosket.tools.doctor.finding import Finding, Severity
from bosket.tools.doctor.installation import Installation

_OURS = frozenset(resource.struct for resource in RESOURCES)


def check(installation: Installation) -> Iterator[Finding]:
    """One finding for each kind, and each object, that couldn't be read."""
    for kind, unread in installation.bundle.unread.items():
        resource = resource_of(kind)
        if unread.obstacle is Obstacle.NOT_SERVED:
            # Where definitions could be read, `definition` says which of them is missing.
            if kind in _OURS and not installation.bundle.knows(CustomResourceDefinition):
                yield Finding(
                    "kind-not-served",
                    Severity.ERROR,
                    f"CustomResourceDefinition {resource.group_resource}",
                    "",
                    f"the cluster doesn't know {resource.kind} ({resource.api_version}), and no service works without",
                    "install the definitions",
                    "bosket crds --install",
                )
            continue
        forbidden = unread.obstacle is Obstacle.FORBIDDEN
        yield Finding(
            "kind-forbidden" if forbidden else "kind-unreadable",
            Severity.WARNING,
            resource.group_resource,
            "",
            f"{unread.obstacle}, so nothing that depends on it was checked: {unread.message}",
            "ask for the right to list it" if forbidden else "look at the API server",
            f"kubectl auth can-i list {resource.group_resource} --all-namespaces" if forbidden else "",
        )
    for problem in installation.bundle.malformed:
        name, _, reason = problem.partition(": ")
        yield Finding(
            "object-malformed",
            Severity.ERROR,
            name,
            "",
            f"it doesn't fit its kind, and every service leaves it out: {reason}",
            "correct the field, or delete the object",
        )
