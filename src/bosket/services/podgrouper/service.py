"""PodGrouper: a reconciler on pods.

Each pod is grouped by itself (`find_grouping`), in memory as far as its owners are watched. All pods of a gang lead to
the same PodGroup: the first writes it, under the group's lock, and puts the answer into the store, so that the others
find nothing to do. A pod is patched once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bosket.api import keys
from bosket.api.apps import Deployment, ReplicaSet, StatefulSet
from bosket.api.batch import CronJob, Job
from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.table import resource_of
from bosket.kube.errors import AlreadyExists, Conflict, NotFound, is_namespace_going
from bosket.kube.informer import Change, Informer
from bosket.runtime.controller import Controller
from bosket.runtime.keyed_lock import KeyedLock
from bosket.runtime.service import Environment, Service
from bosket.runtime.workqueue import Backoff
from bosket.services.podgrouper.change import merge_patch_between
from bosket.services.podgrouper.cluster_view import ClusterView
from bosket.services.podgrouper.grouping import merge, pod_changes
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import POD, GroupingError, GroupVersionKind
from bosket.services.podgrouper.owner_lookup import OwnerLookup
from bosket.services.podgrouper.plan import find_grouping
from bosket.services.podgrouper.table import GrouperTable, load_table

_log = logging.getLogger(__name__)

NAME: Final = "podgrouper"
WARNING_REASON: Final = "PodGrouperWarning"

#: Kinds of owners that are watched; others are read on demand.
_OWNER_KINDS: Final[tuple[type[KubeObject], ...]] = (Job, CronJob, ReplicaSet, Deployment, StatefulSet)
_BACKOFF: Final = Backoff(base_seconds=1.0, limit_seconds=60.0)
#: A pod that can't be grouped as it is comes again when something that is watched changes, and after these times: what
#: it lacks may be on its way, as the name of the cluster that is being made for a RayJob.
_LOOK_AGAIN: Final = Backoff(base_seconds=1.0, limit_seconds=30.0)
#: Attempts to group a pod whose owner doesn't exist, before an event says so: about half a minute.
_QUIET_LOOKS: Final = 5
#: A deleted group is created again after this time, unless its pods are deleted, too, as with their owner.
_REMAKE_SECONDS: Final = 1.0
#: Annotations that a pod gets when it is bound.
_WRITTEN_AT_BIND: Final = frozenset(
    {keys.RECEIVED_RESOURCE_TYPE_ANNOTATION, keys.NUMA_PREDICTED_ANNOTATION, keys.NUMA_OBSERVED_ANNOTATION}
)
_BEFORE_THE_END: Final = ("", "Pending", "Running")
#: Owners above each other that are looked at; longer chains are taken for unwatched.
_LONGEST_CHAIN: Final = 5
_BY_OWNER: Final = "podgrouper/owner"
_BY_GROUP: Final = "podgrouper/group"


def service(env: Environment, options: Options | None = None) -> Service:
    """The pod grouper, with the groupers of all installed packages."""
    return PodGrouper(env, options or Options(), load_table())


class PodGrouper:
    """Keeps PodGroups and the pods' labels up to date until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options, table: GrouperTable) -> None:
        self._client = env.client
        self._events = env.events.for_component(NAME)
        self._options = options
        self._table = table
        self._cluster = ClusterView(env.informers, options)
        self._pods = env.informers.of(Pod)
        self._pods.add_index(_BY_OWNER, _owner_uids)
        self._pods.add_index(_BY_GROUP, _group_keys)
        self._owners: list[Informer[Any]] = [env.informers.of(kind) for kind in _OWNER_KINDS]
        watched: dict[GroupVersionKind, Informer[Any]] = dict(zip(map(_gvk, _OWNER_KINDS), self._owners, strict=True))
        watched[POD] = self._pods
        self._watched = watched
        self._lookup = OwnerLookup(env.client, env.clock, watched)
        self._programs = JqEvaluator(env.clock)
        self._refused: dict[ObjectKey, int] = {}  # consecutive failures by pod
        self._groups_in_hand: KeyedLock[ObjectKey] = KeyedLock()
        self._controller: Controller[ObjectKey] = Controller(
            NAME,
            self._reconcile,
            workers=options.max_concurrent_reconciles,
            clock=env.clock,
            metrics=env.metrics,
            backoff=_BACKOFF,
        )
        self._pods.subscribe(self._pod_changed)
        self._cluster.pod_groups.subscribe(self._group_changed)
        self._cluster.subscribe(lambda: self._enqueue(self._pods.store.values()))
        for informer in self._owners:
            informer.add_index(_BY_OWNER, _owner_uids)
            informer.subscribe(self._owner_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        for informer in (self._pods, *self._owners, *self._cluster.informers):
            await informer.wait_synced()
        try:
            await self._controller.run()
        finally:
            self._programs.close()

    # --- what brings a pod here

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change
        if new is None:
            return
        if old is None or _relevant(old) != _relevant(new) or (_began(old, new) and not self._are_watched(new)):
            self._controller.queue.add(new.key)

    def _are_watched(self, pod: Pod) -> bool:
        """Whether all owners of a pod are watched, so that a change of theirs brings the pod here by itself."""
        found: KubeObject = pod
        for _ in range(_LONGEST_CHAIN):
            if not found.metadata.ownerReferences:
                return True
            reference = found.metadata.ownerReferences[0]
            informer = self._watched.get(GroupVersionKind.of(reference.apiVersion, reference.kind))
            above = informer.store.get(ObjectKey(pod.metadata.namespace, reference.name)) if informer else None
            if above is None or len(found.metadata.ownerReferences) > 1:
                return False
            found = above
        return False

    def _owner_changed(self, change: Change[Any]) -> None:
        old, new = change
        if old is None or new is None or _says(old) == _says(new):
            return  # pods are enqueued by their own events when an owner is created or deleted
        self._enqueue(self._pods_below(new.metadata.uid))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.old is not None and change.new is None:
            for pod in self._pods.store.by_index(_BY_GROUP, str(change.old.key)):
                self._controller.queue.add_after(pod.key, _REMAKE_SECONDS)

    def _pods_below(self, uid: str) -> Iterator[Pod]:
        found = {uid}
        to_do = [uid]
        while to_do:
            uid = to_do.pop()
            yield from self._pods.store.by_index(_BY_OWNER, uid)
            below = {owned.metadata.uid for each in self._owners for owned in each.store.by_index(_BY_OWNER, uid)}
            to_do += below - found
            found |= below

    def _enqueue(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._controller.queue.add(pod.key)

    # --- what is done about it

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None:
            self._refused.pop(key, None)
            return None
        try:
            await self._group(pod)
        except Conflict:
            raise  # retried without an event
        except (GroupingError, NotFound) as error:
            self._refused[key] = self._refused.get(key, 0) + 1
            if isinstance(error, NotFound) and self._refused[key] <= _QUIET_LOOKS:
                # A deleted owner's pods are deleted a moment later.
                _log.debug("an owner is gone", extra={"pod": str(key), "error": str(error)})
            else:
                self._complain(pod, error)
            return _LOOK_AGAIN.delay(self._refused[key])
        except Exception as error:
            if is_namespace_going(error):
                raise  # so is the pod, and an event would be refused like the group
            self._events.event(pod, "Warning", WARNING_REASON, str(error))
            raise
        self._refused.pop(key, None)
        return None

    def _complain(self, pod: Pod, error: GroupingError | NotFound) -> None:
        _log.warning("pod can't be grouped", extra={"pod": str(pod.key), "error": str(error)})
        self._events.event(pod, "Warning", WARNING_REASON, str(error))
        if isinstance(error, GroupingError) and error.culprit is not None:
            self._events.event(error.culprit.object_reference, "Warning", WARNING_REASON, str(error))

    async def _group(self, pod: Pod) -> None:
        grouping = await find_grouping(
            pod, self._lookup, self._cluster, self._options, self._table, runner=self._programs
        )
        if grouping is None:
            return
        async with self._groups_in_hand.hold(grouping.pod_group.key):
            await self._keep_group(grouping.pod_group)
        changes = pod_changes(pod, grouping)
        if changes:
            await self._patch_pod(pod, changes)

    async def _keep_group(self, computed: PodGroup) -> None:
        existing = self._cluster.pod_group(computed.key)
        if existing is None:
            try:
                self._cluster.pod_groups.store.put(await self._client.create(computed))
            except AlreadyExists:
                # Our watch is behind, or another writer was faster.
                existing = await self._client.get(PodGroup, computed.metadata.name, computed.metadata.namespace)
            else:
                return
        patch = merge_patch_between(existing, merge(existing, computed, self._options))
        if patch:
            written = await self._client.patch(
                PodGroup, computed.metadata.name, patch, namespace=computed.metadata.namespace
            )
            self._cluster.pod_groups.store.put(written)

    async def _patch_pod(self, pod: Pod, changes: dict[str, Any]) -> None:
        # With the uid, so that a new pod of the same name is not taken for this one: it would look as if its user had
        # chosen a group.
        patch = {"metadata": {"uid": pod.metadata.uid, **changes}}
        try:
            written = await self._client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)
        except NotFound:
            return  # gone meanwhile
        self._pods.store.put(written)


def _relevant(pod: Pod) -> tuple[object, ...]:
    """What of a pod can change its group: not that it began to run (see `_began`)."""
    meta, phase = pod.metadata, pod.status.phase
    annotations: Mapping[str, str] = meta.annotations
    if meta.ownerReferences and not _WRITTEN_AT_BIND.isdisjoint(annotations):
        # The group of a bare pod gets all its annotations; that of others none of these.
        annotations = {name: value for name, value in annotations.items() if name not in _WRITTEN_AT_BIND}
    end = "" if phase in _BEFORE_THE_END else phase
    return (meta.uid, meta.labels, annotations, meta.ownerReferences, meta.deletionTimestamp, end)


def _began(old: Pod, new: Pod) -> bool:
    """Whether a pod's phase changed: an occasion to read owners that are not watched again."""
    return old.status.phase != new.status.phase


def _says(owner: KubeObject) -> tuple[object, ...]:
    """What of an owner can change a group."""
    return (owner.metadata.uid, owner.metadata.labels, owner.metadata.annotations, owner.metadata.ownerReferences)


def _owner_uids(obj: KubeObject) -> Iterator[str]:
    return (reference.uid for reference in obj.metadata.ownerReferences[:1])


def _group_keys(pod: Pod) -> Iterator[str]:
    name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
    if name:
        yield str(ObjectKey(pod.metadata.namespace, name))


def _gvk(kind: type[KubeObject]) -> GroupVersionKind:
    resource = resource_of(kind)
    return GroupVersionKind(resource.group, resource.version, resource.kind)
