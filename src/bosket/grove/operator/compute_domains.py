"""ComputeDomains: keeps NVIDIA's ComputeDomains of sets, where their kind exists in the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import COMPONENT_LABEL, PART_OF_LABEL
from bosket.api.object import ObjectKey
from bosket.grove.operator.problem import reported
from bosket.grove.render.compute_domain import COMPONENT, COMPUTE_DOMAIN, FINALIZER, wanted_domains
from bosket.kube.errors import AlreadyExists, NotFound
from bosket.kube.informer import Change
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment


class MissingKind(Exception):
    """The feature is on, and the cluster doesn't serve the kind."""


class ComputeDomains:
    """Creates and deletes ComputeDomains; does nothing with the feature off."""

    def __init__(self, env: Environment, events: EventRecorder, *, enabled: bool) -> None:
        self._client = env.client
        self._events = events
        self._enabled = enabled
        self._informer = (
            env.informers.of(COMPUTE_DOMAIN, labels=f"{COMPONENT_LABEL}={COMPONENT}", optional=True)
            if enabled
            else None
        )

    async def check_served(self) -> None:
        """Raises `MissingKind`: sets that ask for domains would wait for ever, and nobody would know why."""
        if not self._enabled:
            return
        try:
            await self._client.raw("GET", f"/apis/{COMPUTE_DOMAIN.api_version}")
        except NotFound as error:
            raise MissingKind(
                f"network.autoMNNVLEnabled is on, and the cluster doesn't serve {COMPUTE_DOMAIN.group_resource}: "
                "install NVIDIA's DRA driver, or switch it off"
            ) from error

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
        there = await self._find(owner)
        for name, domain in there.items():
            # One that somebody deleted waits for us, and is made anew when it is gone.
            if name not in wanted or "deletionTimestamp" in domain["metadata"]:
                await self._remove(owner, name)
        for name, domain in wanted.items():
            if name not in there:
                await self._make(owner, name, domain)

    async def release(self, owner: PodCliqueSet) -> None:
        """The set goes: so do its domains, which would otherwise wait for it."""
        if self._enabled:
            for name in await self._find(owner):
                await self._remove(owner, name)

    async def _find(self, owner: PodCliqueSet) -> dict[str, dict[str, Any]]:
        """The set's domains by name."""
        labels = f"{PART_OF_LABEL}={owner.metadata.name},{COMPONENT_LABEL}={COMPONENT}"
        page = await self._client.list(COMPUTE_DOMAIN, owner.metadata.namespace, labels=labels)
        return {each["metadata"]["name"]: each for each in page.items}

    async def _make(self, owner: PodCliqueSet, name: str, domain: dict[str, Any]) -> None:
        what = f"ComputeDomain {owner.metadata.namespace}/{name}"
        failed = f"{what} creation failed"
        with reported(self._events, owner, "ComputeDomainCreateFailed", "ERR_SYNC_COMPUTEDOMAIN", failed):
            try:
                await self._client.create(domain, owner.metadata.namespace, kind=COMPUTE_DOMAIN)
            except AlreadyExists:
                return
        self._events.event(owner, "Normal", "ComputeDomainCreateSuccessful", f"{what} created successfully")

    async def _remove(self, owner: PodCliqueSet, name: str) -> None:
        namespace = owner.metadata.namespace
        failed = f"Failed to delete ComputeDomain {name}"
        with reported(self._events, owner, "ComputeDomainDeleteFailed", "ERR_DELETE_COMPUTEDOMAIN", failed):
            try:
                found = await self._client.get(COMPUTE_DOMAIN, name, namespace)
                kept = [each for each in found["metadata"].get("finalizers", []) if each != FINALIZER]
                await self._client.patch(
                    COMPUTE_DOMAIN, name, {"metadata": {"finalizers": kept or None}}, namespace=namespace
                )
                await self._client.delete(COMPUTE_DOMAIN, name, namespace)
            except NotFound:
                pass  # with its last finalizer it went by itself, if it was to go
        self._events.event(owner, "Normal", "ComputeDomainDeleteSuccessful", f"Deleted ComputeDomain {name}")
