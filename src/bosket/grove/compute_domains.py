"""Keeping the ComputeDomains of sets, where NVIDIA's driver has brought their kind to the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import COMPONENT_LABEL, PART_OF_LABEL
from bosket.api.object import ObjectKey
from bosket.grove.compute_domain import COMPONENT, COMPUTE_DOMAIN, FINALIZER, wanted_domains
from bosket.kube.errors import AlreadyExists, NotFound
from bosket.kube.informer import Change
from bosket.runtime.service import Environment


class ComputeDomains:
    """Makes and removes ComputeDomains; does nothing where the feature is off."""

    def __init__(self, env: Environment, *, enabled: bool) -> None:
        self._client = env.client
        self._enabled = enabled
        self._informer = (
            env.informers.of(COMPUTE_DOMAIN, labels=f"{COMPONENT_LABEL}={COMPONENT}", optional=True)
            if enabled
            else None
        )

    def on_change(self, look_at: Callable[[ObjectKey], None]) -> None:
        """Call `look_at` with the set of a domain that goes, or is gone."""

        def changed(change: Change[dict[str, Any]]) -> None:
            if change.old is not None and (change.new is None or "deletionTimestamp" in change.new["metadata"]):
                meta = change.old["metadata"]
                look_at(ObjectKey(meta["namespace"], meta["labels"].get(PART_OF_LABEL, "")))

        if self._informer is not None:
            self._informer.subscribe(changed)

    async def keep(self, owner: PodCliqueSet) -> None:
        """Make what is missing, and remove what the set needs no more."""
        if not self._enabled:
            return
        wanted = wanted_domains(owner)
        there = await self._names(owner)
        for name in await self._names(owner, going=True):
            await self._remove(owner, name)  # somebody deleted it, and it waits for us; it is made anew after that
        for name, domain in wanted.items():
            if name not in there:
                try:
                    await self._client.create(domain, owner.metadata.namespace, kind=COMPUTE_DOMAIN)
                except AlreadyExists:
                    continue
        for name in there - wanted.keys():
            await self._remove(owner, name)

    async def release(self, owner: PodCliqueSet) -> None:
        """The set goes: so do its domains, which would otherwise wait for it."""
        if self._enabled:
            for name in await self._names(owner):
                await self._remove(owner, name)

    async def _names(self, owner: PodCliqueSet, *, going: bool = False) -> set[str]:
        labels = f"{PART_OF_LABEL}={owner.metadata.name},{COMPONENT_LABEL}={COMPONENT}"
        page = await self._client.list(COMPUTE_DOMAIN, owner.metadata.namespace, labels=labels)
        found = page.items if not going else [each for each in page.items if "deletionTimestamp" in each["metadata"]]
        return {each["metadata"]["name"] for each in found}

    async def _remove(self, owner: PodCliqueSet, name: str) -> None:
        namespace = owner.metadata.namespace
        try:
            found = await self._client.get(COMPUTE_DOMAIN, name, namespace)
            kept = [each for each in found["metadata"].get("finalizers", []) if each != FINALIZER]
            await self._client.patch(
                COMPUTE_DOMAIN, name, {"metadata": {"finalizers": kept or None}}, namespace=namespace
            )
            await self._client.delete(COMPUTE_DOMAIN, name, namespace)
        except NotFound:
            return
