"""Deletion: at once, or by deletionTimestamp with grace period and finalizers.

A second DELETE may shorten the grace, and the last finalizer to go takes the object with it (`Writer` sees to that).
Dependents are the garbage collector's business; here they only leave a finalizer behind.
"""

from __future__ import annotations

from typing import Any

from bosket.api.field_error import invalid_value, not_supported
from bosket.api.meta import DeleteOptions
from bosket.api.time import format_time
from bosket.apiserver.objects.kind import Kind, Version
from bosket.apiserver.request.body import decode_order
from bosket.apiserver.request.executor import LargeObjectExecutor
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import bad_request, conflict, forbidden, invalid_options, not_found
from bosket.apiserver.store.entry import Doc, Entry
from bosket.runtime.clock import Clock

#: These can't be deleted.
IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")


async def delete_options(request: ResourceRequest, executor: LargeObjectExecutor) -> DeleteOptions:
    """From the body, or, if there is none, from the query as some clients have it."""
    if request.body:
        options = await decode_order(request, executor, DeleteOptions, "a DeleteOptions object")
    else:
        options = _options_from_query(request)
    if options.dryRun not in ((), ("All",)):
        raise invalid_options("DeleteOptions", not_supported("dryRun", list(options.dryRun), ("All",)))
    if options.propagationPolicy is not None:
        policy = options.propagationPolicy
        if options.orphanDependents is not None:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            raise invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, detail))
        if policy not in _POLICIES:
            raise invalid_options("DeleteOptions", not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    return options


def _options_from_query(request: ResourceRequest) -> DeleteOptions:
    query = request.query
    changes: dict[str, Any] = {}
    if text := query.get("gracePeriodSeconds"):
        try:
            changes["gracePeriodSeconds"] = int(text)
        except ValueError:
            raise bad_request(f"parameter gracePeriodSeconds: {text!r} is not a number") from None
    if policy := query.get("propagationPolicy"):
        changes["propagationPolicy"] = policy
    if text := query.get("orphanDependents"):
        changes["orphanDependents"] = text.lower() == "true"
    if dry_run := query.get("dryRun"):
        changes["dryRun"] = (dry_run,)
    return DeleteOptions(**changes)


#: A time that can still be written down; what is asked beyond it never comes anyway.
_LONGEST_GRACE = 2**31


class Deleter:
    """Carries deletions out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def delete(
        self, kind: Kind, version: Version, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Entry, bool]:
        """The object as it is afterwards, and whether it is gone."""
        resource_store = kind.objects
        entry = resource_store.get(namespace, name)
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        if kind.kind == "Namespace" and name in IMMORTAL_NAMESPACES:
            raise forbidden("", "namespaces", name, "this namespace may not be deleted")
        check_preconditions(kind, entry, options)
        doc = entry.decode()
        self._mark(kind, version, doc, options)
        if "All" in options.dryRun:
            return resource_store.preview(doc), False
        if version.strategy.may_go(doc):
            return resource_store.remove(entry, doc), True
        if doc == entry.decode():
            return entry, False
        return resource_store.replace(entry, doc), False

    def _mark(self, kind: Kind, version: Version, doc: Doc, options: DeleteOptions) -> None:
        """Write into the metadata that the object is to go, when, and what must happen before."""
        metadata = doc["metadata"]
        _mark_propagation(version, metadata, options)
        grace = _grace_seconds(kind, doc, options)
        if "deletionTimestamp" in metadata:
            if grace >= metadata.get("deletionGracePeriodSeconds", 0):
                return
        elif version.strategy.has_generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["deletionTimestamp"] = format_time(int(self._clock.now()) + min(grace, _LONGEST_GRACE))
        metadata["deletionGracePeriodSeconds"] = grace
        if kind.kind == "Namespace" and not kind.group:
            doc.setdefault("status", {})["phase"] = "Terminating"


def check_preconditions(kind: Kind, entry: Entry, options: DeleteOptions) -> None:
    """Raise unless the object is the one, and in the state, that the client means."""
    wanted = options.preconditions
    if wanted is None:
        return
    if wanted.uid is not None and wanted.uid != entry.uid:
        detail = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({entry.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind.group, kind.plural, entry.name, detail)
    if wanted.resourceVersion is not None and wanted.resourceVersion != str(entry.version):
        detail = (
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match the ResourceVersion in "
            f"record ({entry.version}). The object might have been modified"
        )
        raise conflict(kind.group, kind.plural, entry.name, detail)


def _mark_propagation(version: Version, metadata: dict[str, Any], options: DeleteOptions) -> None:
    """Dependents are orphaned or deleted first by leaving the garbage collector a finalizer."""
    finalizers = metadata.get("finalizers", [])
    policy = options.propagationPolicy
    if policy is None and options.orphanDependents is not None:
        policy = "Orphan" if options.orphanDependents else "Background"
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return
        policy = version.strategy.default_propagation
    kept = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _grace_seconds(kind: Kind, doc: Doc, options: DeleteOptions) -> int:
    """Only pods have someone to wait for: the kubelet of the node that they are on."""
    if kind.kind != "Pod" or kind.group:
        return 0
    spec = doc["spec"]
    if not spec.get("nodeName") or doc.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.gracePeriodSeconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    return 1 if grace < 0 else grace
