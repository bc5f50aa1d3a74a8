"""Creates the objects of an example as their operators would: owners first, then what belongs to them, by uid.

An owner reference in an example has no uid, because that is known only when the owner is there. So each object waits
for its owners, which may also be made by a controller of the cluster, and is created with their uids. Kinds that the
cluster doesn't serve get the definition that is given for them, and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from bosket.api.apps import ReplicaSet, StatefulSet
from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.grove import PodClique
from bosket.api.object import KubeObject
from bosket.api.resource import AnyResource
from bosket.api.table import resource_for
from bosket.cli.example.document import Manifest
from bosket.cli.output import CommandError
from bosket.kube.client import Client
from bosket.kube.codec import untyped
from bosket.kube.errors import AlreadyExists, NotFound

_LOOK_SECONDS: Final = 0.1
_KNOWN_SECONDS: Final = 30.0

Kind = tuple[str, str]  #: apiVersion and kind


def definitions_by_kind(manifests: Sequence[Manifest]) -> dict[Kind, Manifest]:
    """Definitions by the kinds that they define."""
    found = {}
    for manifest in manifests:
        spec = manifest["spec"]
        for version in spec["versions"]:
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = manifest
    return found


class Submission:
    """Objects on their way into a namespace."""

    def __init__(self, client: Client, namespace: str, definitions: Mapping[Kind, Manifest]) -> None:
        self._client = client
        self._namespace = namespace
        self._definitions = definitions
        self._served: dict[Kind, AnyResource] = {}
        #: The uids of all that was created, or was there.
        self._uids: set[str] = set()

    async def define(self, manifests: Sequence[Manifest]) -> None:
        """Make sure that the cluster serves their kinds, before anybody has to deal with objects of them."""
        for manifest in manifests:
            await self._resource(manifest["apiVersion"], manifest["kind"])

    async def create(self, manifest: Manifest) -> bool:
        """Create the object when its owners are there; False when it was there already."""
        resource = await self._resource(manifest["apiVersion"], manifest["kind"])
        references = [await self._with_uid(each) for each in manifest["metadata"].get("ownerReferences", ())]
        metadata = {**manifest["metadata"], "ownerReferences": references}
        if resource.namespaced:
            metadata.setdefault("namespace", self._namespace)
        kind = untyped(resource)
        try:
            found = await self._client.create({**manifest, "metadata": metadata}, kind=kind)
            is_new = True
        except AlreadyExists:
            found = await self._client.get(kind, metadata["name"], metadata.get("namespace"))
            is_new = False
        self._uids.add(found["metadata"]["uid"])
        return is_new

    async def pods(self) -> list[Pod]:
        """The pods among what was created, and those that controllers made of it."""
        known = set(self._uids)
        everything: list[KubeObject] = []
        for kind in (Pod, Job, ReplicaSet, StatefulSet, PodClique):
            everything += (await self._client.list(kind, self._namespace)).items
        size = -1
        while size != len(known):  # owners of owners: each round knows one more level
            size = len(known)
            known |= {
                each.metadata.uid
                for each in everything
                if any(reference.uid in known for reference in each.metadata.ownerReferences)
            }
        own = [each for each in everything if isinstance(each, Pod) and each.metadata.uid in known]
        return sorted(own, key=lambda each: each.metadata.name)

    async def _resource(self, api_version: str, kind: str) -> AnyResource:
        known = resource_for(api_version, kind) or self._served.get((api_version, kind))
        if known is not None:
            return known
        await self._discover()
        if (api_version, kind) not in self._served:
            await self._define(api_version, kind)
        return self._served[api_version, kind]

    async def _discover(self) -> None:
        self._served = {
            (f"{each.group}/{each.version}" if each.group else each.version, each.kind): each
            for each in await self._client.discover()
        }

    async def _define(self, api_version: str, kind: str) -> None:
        definition = self._definitions.get((api_version, kind))
        if definition is None:
            raise CommandError(f"the cluster doesn't know the kind {kind} of {api_version}, and no definition is given")
        try:
            await self._client.create(definition)
        except AlreadyExists:
            raise CommandError(
                f"the cluster's definition {definition['metadata']['name']} has no version {api_version}; "
                "it is left as it is"
            ) from None
        deadline = asyncio.get_running_loop().time() + _KNOWN_SECONDS
        while (api_version, kind) not in self._served:
            if asyncio.get_running_loop().time() > deadline:
                raise CommandError(f"the cluster doesn't serve {kind} of {api_version} {_KNOWN_SECONDS:g} s later")
            await asyncio.sleep(_LOOK_SECONDS)
            await self._discover()

    async def _with_uid(self, reference: Manifest) -> Manifest:
        resource = await self._resource(reference["apiVersion"], reference["kind"])
        namespace = self._namespace if resource.namespaced else None
        deadline = asyncio.get_running_loop().time() + _KNOWN_SECONDS
        while True:
            try:
                owner = await self._client.get(untyped(resource), reference["name"], namespace)
            except NotFound:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return {"controller": True, **reference, "uid": owner["metadata"]["uid"]}
