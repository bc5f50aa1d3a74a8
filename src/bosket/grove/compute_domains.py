"""Keeping the ComputeDomains of sets, where NVIDIA's driver has brought their kind to the cluster."""

from __future__ import annotations

from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import COMPONENT_LABEL, PART_OF_LABEL
from bosket.grove.compute_domain import COMPONENT, COMPUTE_DOMAIN, FINALIZER, wanted_domains
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, NotFound


class ComputeDomains:
    """Makes and removes ComputeDomains; does nothing where the feature is off."""

    def __init__(self, client: Client, *, enabled: bool) -> None:
        self._client = client
        self._enabled = enabled

    async def keep(self, owner: PodCliqueSet) -> None:
        """Make what is missing, and remove what the set needs no more."""
        if not self._enabled:
            return
        wanted = wanted_domains(owner)
        there = await self._names(owner)
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

    async def _names(self, owner: PodCliqueSet) -> set[str]:
        labels = f"{PART_OF_LABEL}={owner.metadata.name},{COMPONENT_LABEL}={COMPONENT}"
        page = await self._client.list(COMPUTE_DOMAIN, owner.metadata.namespace, labels=labels)
        return {each["metadata"]["name"] for each in page.items}

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
