"""The table of built-in kinds, with their behaviour and columns."""

from __future__ import annotations

import re
from collections.abc import Collection

from bosket.api.resource import AnyResource
from bosket.api.table import TABLE
from bosket.apiserver.kinds import (
    admission_policy,
    cluster,
    configuration,
    device,
    event,
    gang,
    job,
    namespace,
    network,
    pod,
    registration,
    role,
    workload,
)
from bosket.apiserver.kinds.builtin import Behaviour, BuiltinStrategy
from bosket.apiserver.objects.kind import VERBS, Kind, Registry, Scale, Strategy, Version
from bosket.apiserver.printers import COLUMNS
from bosket.apiserver.store.store import Store

_PLAIN = Behaviour()
_UNSTABLE = re.compile("alpha|beta")
_SCALE = Scale(selector="spec.selector")


def is_builtin(resource: AnyResource) -> bool:
    """Kubernetes' own groups have no dot, or end in k8s.io; all others are custom resources."""
    return "." not in resource.group or resource.group.endswith(".k8s.io")


def register_builtin_kinds(
    registry: Registry,
    store: Store,
    *,
    scheduler_name: str,
    special: dict[tuple[str, str], Behaviour],
    enabled: Collection[str],
) -> None:
    """Serve every built-in kind that has a Struct; pods that name no scheduler get `scheduler_name`.

    `special` holds the behaviours that need to know other parts of the server. Versions that are not stable yet are
    served only if they are `enabled` (`scheduling.k8s.io/v1beta1`), as in Kubernetes.
    """
    behaviours = {
        **namespace.BEHAVIOURS,
        **cluster.BEHAVIOURS,
        **configuration.BEHAVIOURS,
        **event.BEHAVIOURS,
        **gang.BEHAVIOURS,
        **network.behaviours(),
        **device.BEHAVIOURS,
        **admission_policy.BEHAVIOURS,
        **registration.BEHAVIOURS,
        **role.BEHAVIOURS,
        **pod.behaviours(scheduler_name),
        **workload.behaviours(scheduler_name),
        **job.behaviours(scheduler_name),
        **special,
    }
    for resource in TABLE:
        if not is_builtin(resource) or (_UNSTABLE.search(resource.version) and resource.api_version not in enabled):
            continue
        behaviour = behaviours.get((resource.group, resource.kind), _PLAIN)
        version = Version(
            resource.version,
            BuiltinStrategy(resource, behaviour),
            frozenset(resource.subresources),
            columns=COLUMNS.get((resource.group, resource.kind), ()),
            scale=_SCALE if "scale" in resource.subresources else None,
        )
        if (resource.group, resource.kind) == ("events.k8s.io", "Event"):
            _share_events(registry, store, resource, version)
            continue
        known = registry.at(resource.group, resource.plural)
        if known is not None:
            known.versions[resource.version] = version
            continue
        resource_store = store.resource(
            resource.group,
            resource.plural,
            namespaced=resource.namespaced,
            selectable=behaviour.fields(),
            index=behaviour.index,
        )
        registry.add(
            Kind(
                group=resource.group,
                kind=resource.kind,
                plural=resource.plural,
                namespaced=resource.namespaced,
                objects=resource_store,
                storage_version=resource.version,
                versions={resource.version: version},
                verbs=tuple(each for each in VERBS if behaviour.deletes_many or each != "deletecollection"),
                singular=resource.singular,
                short_names=resource.short_names,
                categories=resource.categories,
            )
        )
    _add_bindings(registry, store)


def _add_bindings(registry: Registry, store: Store) -> None:
    """The older way to bind: a POST to a resource that has no objects. `ApiServer` sends it on to the pod."""
    registry.add(
        Kind(
            group="",
            kind="Binding",
            plural="bindings",
            namespaced=True,
            objects=store.resource("", "bindings"),
            storage_version="v1",
            versions={"v1": Version("v1", Strategy())},
            verbs=("create",),
        )
    )


def _share_events(registry: Registry, store: Store, resource: AnyResource, version: Version) -> None:
    """Events of either group are the same objects."""
    version.to_storage, version.from_storage = event.to_core, event.from_core
    registry.add(
        Kind(
            group=resource.group,
            kind=resource.kind,
            plural=resource.plural,
            namespaced=True,
            objects=store.resource("", "events"),
            storage_version=resource.version,
            versions={resource.version: version},
            short_names=resource.short_names,
        )
    )
