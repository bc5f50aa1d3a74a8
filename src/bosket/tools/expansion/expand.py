"""Objects of files into pods, level by level, as their controllers would make them.

What a file itself has below an object counts: an object whose children are there, by their owner references, isn't
expanded. Owner references in files need no uid. Other objects than workloads (queues, nodes, priority classes) come out
as they are.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec

from bosket.api.core import Pod
from bosket.api.grove import ClusterTopologyBinding
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject
from bosket.api.resource_k8s import ResourceClaimTemplate
from bosket.api.table import resource_for
from bosket.api.time import format_time
from bosket.kube.codec import strip_nulls
from bosket.scheduler.recording.object_lists import LISTS
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner
from bosket.tools.expansion.grove import as_document, pod_clique_set
from bosket.tools.expansion.item import MOST_PODS, Document, ExpansionError, Item
from bosket.tools.expansion.manifests import Manifest
from bosket.tools.expansion.rules import GROUPED, POD_CLIQUE_SET, RULES, WITHOUT_PODS

#: Kinds that decisions depend on and that are submitted as they are.
_PLAIN: Final = frozenset(each.kind for each in LISTS.values()) - {Pod}
#: Levels of owners; deeper ones are a circle of rules.
_DEEPEST: Final = 12
#: Pods and what is between them and the workloads, such as Jobs and replica sets.
_MOST_OBJECTS: Final = 2 * MOST_PODS

#: An object's identity within its kind: group, kind, namespace, name.
Identity = tuple[str, str, str, str]


@dataclass(slots=True)
class Expansion:
    """What files come to."""

    pods: list[Document] = field(default_factory=list)
    pod_groups: list[PodGroup] = field(default_factory=list)  #: made by others than the pod grouper
    objects: list[KubeObject] = field(default_factory=list)  #: that decisions depend on, pods apart
    claim_templates: list[ResourceClaimTemplate] = field(default_factory=list)
    owners: dict[Identity, Owner] = field(default_factory=dict)  #: all objects that pods may belong to
    notes: list[str] = field(default_factory=list)  #: sentences about what is left out


def expand(manifests: Iterable[Manifest], namespace: str, now: float) -> Expansion:
    """Expands all objects. `namespace` is that of objects which name none. Raises `ExpansionError`."""
    return _Expander(namespace, now).run(list(manifests))


class _Expander:
    def __init__(self, namespace: str, now: float) -> None:
        self._namespace, self._created = namespace, format_time(now)
        self._made = Expansion()
        self._items: dict[Identity, Item] = {}
        self._number = 0

    def run(self, manifests: list[Manifest]) -> Expansion:
        given = []
        for each in manifests:
            item = self._item(copy.deepcopy(each.document), each.where)
            if item is not None:
                given.append(item)
        parents: set[Identity] = set()
        for item in given:
            parents |= self._resolve(item)
        bindings = tuple(self._bindings(given))
        for item in given:
            self._place(item, bindings, has_children=_identity(item) in parents, depth=0)
        return self._made

    def _item(self, document: Document, where: str) -> Item | None:
        """The object with all of its metadata."""
        gvk = GroupVersionKind.of(document["apiVersion"], document["kind"])
        resource = resource_for(gvk.api_version, gvk.kind)
        metadata = document["metadata"]
        if resource is None or resource.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self._namespace
        metadata["uid"] = self._uid(gvk.api_version, gvk.kind, metadata.get("namespace", ""), metadata["name"])
        metadata["creationTimestamp"] = self._created
        for reference in metadata.get("ownerReferences") or []:
            if isinstance(reference, dict):
                reference.setdefault("uid", "")
        try:
            document = strip_nulls(document)
            item = Item(document, Owner.untyped(gvk, document), self._find)
        except msgspec.ValidationError as error:
            raise ExpansionError(f"{where}: {gvk.kind} {metadata['name']}: {error}") from error
        identity = _identity(item)
        if identity in self._items:
            raise ExpansionError(f"{where}: {item.owner} is there twice")
        self._items[identity] = item
        self._made.owners[identity] = item.owner
        return item

    def _uid(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        """In the order in which objects come: what was created first is served first, where nothing else decides."""
        self._number += 1
        if self._number > _MOST_OBJECTS:
            raise ExpansionError(f"{kind} {namespace}/{name}: the files come to more than {_MOST_OBJECTS} objects")
        digest = hashlib.sha256(f"{api_version}/{kind}/{namespace}/{name}".encode()).hexdigest()
        return f"{self._number:08x}-{digest[:4]}-4{digest[4:7]}-8{digest[7:10]}-{digest[10:22]}"

    def _find(self, kind: str, name: str) -> Document | None:
        return next(
            (item.document for item in self._items.values() if (item.gvk.kind, item.name) == (kind, name)), None
        )

    def _resolve(self, item: Item) -> set[Identity]:
        """Gives owner references their uids; whose child the object is."""
        references = item.document["metadata"].get("ownerReferences") or []
        found: set[Identity] = set()
        for number, reference in enumerate(references):
            kind = GroupVersionKind.of(str(reference.get("apiVersion", "")), str(reference.get("kind", "")))
            identity = (kind.group, kind.kind, item.namespace, str(reference.get("name", "")))
            owner = self._items.get(identity) or self._items.get((kind.group, kind.kind, "", identity[3]))
            if owner is None:
                raise ExpansionError(
                    f"{item.owner}: metadata.ownerReferences[{number}] names {kind.kind} {identity[3]}, "
                    "which isn't in the files"
                )
            reference["uid"] = owner.owner.metadata.uid
            reference.setdefault("controller", True)
            found.add(_identity(owner))
        if references:
            self._made.owners[_identity(item)] = Owner.untyped(item.gvk, item.document)
        return found

    def _bindings(self, given: Iterable[Item]) -> Iterator[ClusterTopologyBinding]:
        for item in given:
            if (item.gvk.group, item.gvk.kind) == ("grove.io", "ClusterTopologyBinding"):
                yield _read(item, ClusterTopologyBinding)

    def _place(self, item: Item, bindings: tuple[Any, ...], *, has_children: bool, depth: int) -> None:
        gvk = item.gvk
        key = (gvk.group, gvk.kind)
        if gvk.kind == "Pod" and not gvk.group:
            self._add_pods(item, [item.document])
            return
        resource = resource_for(gvk.api_version, gvk.kind)
        if resource is not None and resource.struct in _PLAIN:
            self._made.objects.append(_read(item, resource.struct))
            return
        if resource is not None and resource.struct is ResourceClaimTemplate:
            self._made.claim_templates.append(_read(item, ResourceClaimTemplate))
            return
        if has_children:
            return
        if key == POD_CLIQUE_SET:
            self._place_set(item, bindings)
            return
        if gvk.kind == "DaemonSet":
            self._made.notes.append(f"{item.owner}: pods of DaemonSets belong to their nodes and are left out")
            return
        rule = RULES.get(key)
        if rule is None:
            self._refuse_workload(item, is_known=resource is not None or key in WITHOUT_PODS)
            return
        if depth > _DEEPEST:
            raise ExpansionError(f"{item.owner}: has more than {_DEEPEST} levels below it")
        try:
            # Each level multiplies: a rule that makes more than can be placed is not followed to its end.
            children = list(islice(rule(item), _MOST_OBJECTS - self._number + 1))
        except GroupingError as error:
            raise ExpansionError(str(error)) from error
        # A rule may have written into the object's status, as the controller does.
        self._made.owners[_identity(item)] = Owner.untyped(gvk, item.document)
        for document in children:
            below = self._item(document, str(item.owner))
            if below is not None:
                self._resolve(below)
                self._place(below, bindings, has_children=False, depth=depth + 1)

    def _place_set(self, item: Item, bindings: tuple[Any, ...]) -> None:
        try:
            parts = pod_clique_set(item, bindings, self._uid)
        except GroupingError as error:
            raise ExpansionError(str(error)) from error
        for group in parts.pod_groups:
            uid = self._uid("scheduling.run.ai/v2alpha2", "PodGroup", item.namespace, group.metadata.name)
            metadata = msgspec.structs.replace(group.metadata, uid=uid, creationTimestamp=self._created)
            self._made.pod_groups.append(msgspec.structs.replace(group, metadata=metadata))
        documents = [as_document(pod) for pod in parts.pods]
        for document in documents:
            metadata_ = document["metadata"]
            metadata_["uid"] = self._uid("v1", "Pod", item.namespace, metadata_["name"])
            metadata_["creationTimestamp"] = self._created
        self._add_pods(item, documents)

    def _add_pods(self, item: Item, documents: list[Document]) -> None:
        if len(self._made.pods) + len(documents) > MOST_PODS:
            raise ExpansionError(f"{item.owner}: with it the files come to more than {MOST_PODS} pods")
        self._made.pods += documents

    def _refuse_workload(self, item: Item, *, is_known: bool) -> None:
        if (item.gvk.group, item.gvk.kind) in GROUPED:
            raise ExpansionError(
                f"{item.owner}: spec doesn't say what pods {item.gvk.kind} of {item.gvk.api_version} makes; put them "
                "into the file, too, with metadata.ownerReferences that name it"
            )
        if not is_known:
            raise ExpansionError(
                f"{item.owner}: kind is {item.gvk.kind} of {item.gvk.api_version}, and Bosket doesn't know what pods "
                "its controller makes; put them into the file, too, with metadata.ownerReferences that name it"
            )


def _identity(item: Item) -> Identity:
    return (item.gvk.group, item.gvk.kind, item.namespace, item.name)


def _read(item: Item, kind: type[Any]) -> Any:
    try:
        found = msgspec.convert(item.document, kind)
    except msgspec.ValidationError as error:
        raise ExpansionError(f"{item.owner}: {error}") from error
    return msgspec.structs.replace(found, apiVersion="", kind="")
