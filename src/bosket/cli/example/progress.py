"""Waits until an example runs, and says in which groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.cli.example.submission import Submission
from bosket.cli.output import CommandError
from bosket.kube.client import Client
from bosket.kube.errors import NotFound

_LOOK_SECONDS: Final = 0.1


class Group(NamedTuple):
    """A PodGroup and its pods."""

    group: PodGroup
    pods: list[Pod]

    @property
    def minimum(self) -> int:
        """How many pods it takes; with sub-groups, all of theirs."""
        leaves = sum(each.minMember or 0 for each in self.group.spec.subGroups)
        return leaves or self.group.spec.minMember or 0


async def wait_until_running(
    client: Client, submission: Submission, seconds: float, tell: Callable[[str], None]
) -> list[Group]:
    """Until all pods run, and as many as their groups ask for: the groups, by name. Raises `CommandError`."""
    deadline = asyncio.get_running_loop().time() + seconds
    running: set[str] = set()
    while True:
        pods = await submission.pods()
        for pod in pods:
            if pod.status.phase in ("Running", "Succeeded") and pod.metadata.name not in running:
                running.add(pod.metadata.name)
                tell(f"pod/{pod.metadata.name} runs on {pod.spec.nodeName}")
        waiting = [pod.metadata.name for pod in pods if pod.metadata.name not in running]
        groups = await _groups_of(client, pods) if not waiting else []
        if groups and all(len(each.pods) >= each.minimum for each in groups):
            return groups
        if asyncio.get_running_loop().time() > deadline:
            what = f"pod {waiting[0]} doesn't run" if waiting else "not all pods are there"
            raise CommandError(f"{what} after {seconds:g} s; kubectl describe says why")
        await asyncio.sleep(_LOOK_SECONDS)


async def _groups_of(client: Client, pods: Sequence[Pod]) -> list[Group]:
    """None while a pod has no group."""
    members: dict[ObjectKey, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.annotations.get(POD_GROUP_ANNOTATION, "")
        members.setdefault(ObjectKey(pod.metadata.namespace, name), []).append(pod)
    try:
        return [Group(await client.get(PodGroup, key.name, key.namespace), members[key]) for key in sorted(members)]
    except (NotFound, ValueError):
        return []
