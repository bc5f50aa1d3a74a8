"""SetChildren: creates and updates the children of a set as the render functions say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import clique_name, replica_name, role_name, token_secret_name
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.ownership import controller_of
from bosket.grove.operator.claims import keep_claims
from bosket.grove.operator.cluster import Cluster, by_name
from bosket.grove.operator.problem import OperatorError, reported
from bosket.grove.render import access as render_access
from bosket.grove.render import autoscaler as render_autoscaler
from bosket.grove.render import clique as render_clique
from bosket.grove.render import service as render_service
from bosket.grove.render.claim import set_sharing
from bosket.grove.render.template import groups_of, standalone_templates
from bosket.kube.informer import Informer
from bosket.runtime.concurrent import for_each, in_turns
from bosket.runtime.events import EventRecorder

T = TypeVar("T", bound=KubeObject)

_SECRET_CONFLICT: Final = "ERR_SECRET_CONFLICT"  # noqa: S105 - no password


class SetChildren:
    """Keeps the children of sets, except gangs (`SetGangs`)."""

    def __init__(self, cluster: Cluster, events: EventRecorder) -> None:
        self._cluster = cluster
        self._events = events

    async def prepare(self, owner: PodCliqueSet) -> bool:
        """Creates what pods need to start; returns whether all of it exists (a token is made by another controller)."""
        steps: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: self._keep_access(owner),
            lambda: self._keep_services(owner),
            lambda: self._keep_autoscalers(owner),
            lambda: keep_claims(self._cluster, owner, owner, set_sharing(owner)),
        )
        has_token, *_ = await for_each(steps, lambda step: step())
        return bool(has_token)

    async def _keep_access(self, owner: PodCliqueSet) -> bool:
        cluster, name = self._cluster, owner.metadata.name
        await self._ensure(cluster.accounts, owner, name, lambda found: render_access.service_account(owner, found))
        await self._ensure(cluster.roles, owner, role_name(name), lambda found: render_access.role(owner, found))
        await self._ensure(
            cluster.role_bindings, owner, role_name(name), lambda found: render_access.role_binding(owner, found)
        )
        key = ObjectKey(owner.metadata.namespace, token_secret_name(name))
        with reported(self._events, owner, "SecretConflict", _SECRET_CONFLICT, "Pods can't start"):
            secret = await self._ensure(
                cluster.secrets, owner, key.name, lambda found: found or render_access.token_secret(owner)
            )
            controller = controller_of(secret)
            if controller is None or controller.uid != owner.metadata.uid:
                # It will never hold the set's token; nor is it ours to change.
                message = f"Secret {key} already exists but is not controlled by PodCliqueSet {owner.key}"
                raise OperatorError(_SECRET_CONFLICT, message)
        return render_access.has_token(secret)

    async def _keep_services(self, owner: PodCliqueSet) -> None:
        """One for each replica. Those of replicas that were scaled away stay, as Grove leaves them."""
        there = by_name(self._cluster.owned(self._cluster.services, owner))

        def is_as_wanted(replica: int) -> bool:
            found = there.get(replica_name(owner.metadata.name, replica))
            return found is not None and render_service.headless_service(owner, replica, found) == found

        changed = [replica async for replica in in_turns(range(owner.spec.replicas)) if not is_as_wanted(replica)]
        await for_each(changed, lambda replica: self._keep_service(owner, replica))

    async def _keep_service(self, owner: PodCliqueSet, replica: int) -> None:
        name = replica_name(owner.metadata.name, replica)
        await self._ensure(
            self._cluster.services,
            owner,
            name,
            lambda found: render_service.headless_service(owner, replica, found),
        )

    async def _keep_autoscalers(self, owner: PodCliqueSet) -> None:
        there = by_name(self._cluster.owned(self._cluster.autoscalers, owner))
        wanted = render_autoscaler.autoscalers(owner, there)
        for name, autoscaler in there.items():
            if name not in wanted:
                await self._cluster.delete(autoscaler)
        for name, autoscaler in wanted.items():
            before = there.get(name)
            if before is None:
                await self._cluster.create(autoscaler)
            elif not self._cluster.is_terminating(before):
                await self._cluster.write(before, autoscaler)

    async def keep_cliques(self, owner: PodCliqueSet) -> None:
        """Keeps the PodCliques that are in no scaling group."""
        there = by_name(self._cluster.owned(self._cluster.cliques, owner))
        wanted: dict[str, PodClique] = {}
        async for replica in in_turns(range(owner.spec.replicas)):
            for template in standalone_templates(owner):
                name = clique_name(owner.metadata.name, replica, template.name)
                wanted[name] = render_clique.standalone_clique(owner, replica, template, there.get(name))

        async def delete(name: str) -> None:
            if await self._delete(owner, there[name], "ERR_DELETE_PODCLIQUE"):
                self._events.event(owner, "Normal", "PodCliqueDeleteSuccessful", f"Deleted PodClique: {name}")

        await for_each(sorted(there.keys() - wanted.keys()), delete)
        changed = [name for name, each in wanted.items() if there.get(name) != each]
        await for_each(changed, lambda name: self._keep_clique(owner, there.get(name), wanted[name]))

    async def _keep_clique(self, owner: PodCliqueSet, before: PodClique | None, after: PodClique) -> None:
        if before is not None and (before == after or self._cluster.is_terminating(before)):
            return
        what = f"PodClique {after.key} creation or update failed"
        with reported(self._events, owner, "PodCliqueCreateOrUpdateFailed", "ERR_CREATE_OR_UPDATE_PODCLIQUE", what):
            is_kept = await self._keep(before, after)
        if is_kept:
            message = f"PodClique {after.key} created or updated successfully"
            self._events.event(owner, "Normal", "PodCliqueCreateOrUpdateSuccessful", message)

    async def keep_groups(self, owner: PodCliqueSet) -> None:
        there = by_name(self._cluster.owned(self._cluster.groups, owner))
        wanted: dict[str, PodCliqueScalingGroup] = {}
        async for replica in in_turns(range(owner.spec.replicas)):
            for group in groups_of(owner, replica):
                wanted[group.name] = render_clique.scaling_group(owner, replica, group, there.get(group.name))

        async def delete(name: str) -> None:
            if await self._delete(owner, there[name], "ERR_DELETE_PODCLIQUESCALINGGROUP"):
                message = f"Deleted PodCliqueScalingGroup: {name}"
                self._events.event(owner, "Normal", "PodCliqueScalingGroupDeleteSuccessful", message)

        await for_each(sorted(there.keys() - wanted.keys()), delete)
        changed = [name for name, each in wanted.items() if there.get(name) != each]
        await for_each(changed, lambda name: self._keep_group(owner, there.get(name), wanted[name]))

    async def _keep_group(
        self, owner: PodCliqueSet, before: PodCliqueScalingGroup | None, after: PodCliqueScalingGroup
    ) -> None:
        if before is not None and (before == after or self._cluster.is_terminating(before)):
            return
        what = f"Error creating or updating PodCliqueScalingGroup {after.key}"
        with reported(
            self._events,
            owner,
            "PodCliqueScalingGroupCreateOrUpdateFailed",
            "ERR_CREATE_PODCLIQUESCALINGGROUP",
            what,
        ):
            is_kept = await self._keep(before, after)
        if before is None and is_kept:
            message = f"Created PodCliqueScalingGroup {after.key}"
            self._events.event(owner, "Normal", "PodCliqueScalingGroupCreateSuccessful", message)

    async def _keep(self, before: T | None, after: T) -> bool:
        """Whether it is there now, as it should be."""
        if before is None:
            return await self._cluster.make(after) is not None
        await self._cluster.write(before, after)
        return True

    async def _delete(self, owner: PodCliqueSet, child: PodClique | PodCliqueScalingGroup, code: str) -> bool:
        kind = type(child).__name__
        with reported(self._events, owner, f"{kind}DeleteFailed", code, f"Error deleting {kind} {child.key}"):
            return await self._cluster.delete(child)

    async def _ensure(
        self, informer: Informer[T], owner: PodCliqueSet, name: str, render: Callable[[T | None], T]
    ) -> T:
        existing = informer.store.get(ObjectKey(owner.metadata.namespace, name))
        if existing is not None and self._cluster.is_terminating(existing):
            return existing
        return await self._cluster.ensure(existing, render)
