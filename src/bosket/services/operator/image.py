"""The image of each service: one for all by default."""

from __future__ import annotations

from typing import Final

from bosket.api.kai.operand import Image

#: KAI has an image for each service. A Config that was written for KAI names them, and none of them runs `bosket`.
KAI_IMAGES: Final = frozenset(
    {
        "admission",
        "binder",
        "nodescaleadjuster",
        "numa-placement-exporter",
        "operator",
        "podgroupcontroller",
        "podgrouper",
        "queuecontroller",
        "resource-reservation",
        "resourcereservation",
        "scalingpod",
        "scheduler",
    }
)


def reference(section: Image | None, own: str) -> str:
    """The image that a section of the Config asks for; what it leaves out is as in `own` (repository/name:tag)."""
    if section is None or section.name in KAI_IMAGES:
        return own
    rest, _, name_and_tag = own.rpartition("/")
    name, _, tag = name_and_tag.partition(":")
    repository = section.repository if section.repository is not None else rest
    chosen = f"{section.name or name}:{section.tag or tag or 'latest'}"
    return f"{repository.rstrip('/')}/{chosen}" if repository else chosen


def pull_policy(section: Image | None) -> str:
    """When a node fetches the image."""
    return (section.pullPolicy if section is not None else None) or "IfNotPresent"
