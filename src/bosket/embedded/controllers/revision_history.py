"""The versions of a StatefulSet's or DaemonSet's template, kept as ControllerRevisions.

A pod carries the name of the revision it was made from. `kubectl rollout history` and `undo` read the revisions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from bosket.api.apps import ControllerRevision, DaemonSet, StatefulSet
from bosket.api.core import Pod, PodTemplateSpec
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_of, controller_reference
from bosket.kube.errors import AlreadyExists, NotFound
from bosket.runtime.service import Environment

#: The set whose template is kept.
Owner = StatefulSet | DaemonSet

#: The label of a pod that names the revision it was made from.
REVISION_LABEL: Final = "controller-revision-hash"
_HASH: Final = "controller.kubernetes.io/hash"
_DEFAULT_LIMIT: Final = 10


class RevisionHistory:
    """Finds, makes and forgets revisions."""

    def __init__(self, environment: Environment) -> None:
        self.informer = environment.informers.of(ControllerRevision)
        self.informer.add_index(BY_CONTROLLER, controller_index)
        self._client = environment.client

    def of(self, owner: Owner) -> list[ControllerRevision]:
        """All revisions, the latest last."""
        revisions = self.informer.store.by_index(BY_CONTROLLER, owner.metadata.uid)
        return sorted(revisions, key=lambda each: (each.revision, each.metadata.name))

    async def present(self, owner: Owner) -> ControllerRevision:
        """The revision of the template as it is, made if need be, with the highest number of all."""
        revisions = self.of(owner)
        latest = revisions[-1].revision if revisions else 0
        data = _data(owner.spec.template)
        known = next((each for each in revisions if each.data == data), None)
        if known is None:
            return await self._create(owner, data, latest + 1)
        if known.revision == latest:
            return known
        written = await self._client.modify(known, replace(known, revision=latest + 1))
        self.informer.store.put(written)
        return written

    async def truncate(self, owner: Owner, in_use: Iterable[str]) -> None:
        """Forget the oldest revisions beyond the limit that no pod was made from."""
        used = set(in_use)
        idle = [each for each in self.of(owner) if each.metadata.name not in used]
        limit = _DEFAULT_LIMIT if owner.spec.revisionHistoryLimit is None else owner.spec.revisionHistoryLimit
        for each in idle[: max(0, len(idle) - limit)]:
            try:
                await self._client.delete(
                    ControllerRevision, each.metadata.name, each.metadata.namespace, uid=each.metadata.uid
                )
            except NotFound:
                continue

    async def _create(self, owner: Owner, data: dict[str, Any], number: int) -> ControllerRevision:
        salt = owner.status.collisionCount
        while True:
            mark = hash_of(data, salt)
            revision = ControllerRevision(
                metadata=ObjectMeta(
                    name=f"{owner.metadata.name}-{mark}",
                    namespace=owner.metadata.namespace,
                    labels={**owner.spec.template.metadata.labels, _HASH: mark},
                    ownerReferences=(controller_reference(owner),),
                ),
                data=data,
                revision=number,
            )
            try:
                created = await self._client.create(revision, owner.metadata.namespace)
            except AlreadyExists:
                created = await self._client.get(ControllerRevision, revision.metadata.name, owner.metadata.namespace)
                if created.data != data or owner.metadata.uid not in controller_index(created):
                    salt = (salt or 0) + 1  # another template, or another set's: take another name
                    continue
            self.informer.store.put(created)
            return created


def revision_of(pod: Pod) -> str:
    """The revision that the pod was made from, as its label says."""
    return pod.metadata.labels.get(REVISION_LABEL, "")


def sets_by_revision(kind: str) -> Callable[[ControllerRevision], tuple[ObjectKey, ...]]:
    """From a revision to the set of this kind that it belongs to."""

    def set_of(revision: ControllerRevision) -> tuple[ObjectKey, ...]:
        owner = controller_of(revision)
        if owner is None or owner.kind != kind:
            return ()
        return (ObjectKey(revision.metadata.namespace, owner.name),)

    return set_of


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """The template that the revision keeps."""
    template = {name: value for name, value in revision.data["spec"]["template"].items() if name != "$patch"}
    return msgspec.convert(template, PodTemplateSpec)


def _data(template: PodTemplateSpec) -> dict[str, Any]:
    """As Kubernetes keeps it, a patch that puts the template back; plain JSON, so that it equals what is read."""
    plain = msgspec.json.decode(msgspec.json.encode(template))
    return {"spec": {"template": {**plain, "$patch": "replace"}}}


#: No vowels and nothing that looks like one: a hash never spells a word.
_HASH_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH: Final = 10


def hash_of(value: Any, salt: int | None = None) -> str:
    """Equal values have equal hashes, in every process; another `salt` gives another hash."""
    digest = hashlib.sha256(msgspec.json.encode([value, salt], order="sorted")).digest()
    number = int.from_bytes(digest[:8])
    letters = []
    for _ in range(_HASH_LENGTH):
        number, rest = divmod(number, len(_HASH_ALPHABET))
        letters.append(_HASH_ALPHABET[rest])
    return "".join(letters)
