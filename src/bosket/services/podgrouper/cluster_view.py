"""ClusterView: what groupers may ask about the cluster, from informers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from bosket.api.core import ConfigMap, Namespace, Pod
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.informer import Change, Informer, Informers
from bosket.services.podgrouper.kind_default import KindDefaults, parse_kind_defaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.workload import POD_LABELS

_BY_LABEL: Final = "podgrouper/label"
_BY_UID_IN_NAME: Final = "podgrouper/uid-in-name"
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ClusterView:
    """Implements `bosket.services.podgrouper.workload.Cluster`; watches only what the options ask for."""

    def __init__(self, informers: Informers, options: Options) -> None:
        self.pod_groups: Informer[PodGroup] = informers.of(PodGroup)
        self.pod_groups.add_index(_BY_UID_IN_NAME, _uids_in_name)
        self._pods = informers.of(Pod)
        self._pods.add_index(_BY_LABEL, _index_labels)
        self._priority_classes = informers.of(PriorityClass)
        self._namespaces: Informer[Namespace] | None = None
        if options.namespace_label_selector:
            self._namespaces = informers.of(Namespace)
        self._defaults_key = ObjectKey(
            options.default_priorities_configmap_namespace, options.default_priorities_configmap_name
        )
        self._config_maps: Informer[ConfigMap] | None = None
        if options.reads_kind_defaults:
            self._config_maps = informers.of(
                ConfigMap, namespace=self._defaults_key.namespace, fields=f"metadata.name={self._defaults_key.name}"
            )
        self._parsed: tuple[ConfigMap | None, KindDefaults] = (None, KindDefaults())

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All that must be in sync before a question is asked."""
        found = (self.pod_groups, self._pods, self._priority_classes, self._namespaces, self._config_maps)
        return tuple(each for each in found if each is not None)

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` when an answer that any pod may have got is no longer true."""

        def came_or_went(change: Change[PriorityClass]) -> None:
            if change.old is None or change.new is None:
                changed()

        def was_relabelled(change: Change[Namespace]) -> None:
            old, new = change
            if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
                changed()

        self._priority_classes.subscribe(came_or_went)
        if self._namespaces is not None:
            self._namespaces.subscribe(was_relabelled)
        if self._config_maps is not None:
            self._config_maps.subscribe(lambda _: changed())

    def priority_class_exists(self, name: str) -> bool:
        return self._priority_classes.store.get(ObjectKey("", name)) is not None

    def pod_group(self, key: ObjectKey) -> PodGroup | None:
        return self.pod_groups.store.get(key)

    def pods_labelled(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        return self._pods.store.by_index(_BY_LABEL, f"{namespace}/{label}={value}")

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterable[PodGroup]:
        found = self.pod_groups.store.by_index(_BY_UID_IN_NAME, uid)
        return (each for each in found if each.metadata.namespace == namespace)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        found = self._namespaces.store.get(ObjectKey("", name)) if self._namespaces is not None else None
        return found.metadata.labels if found is not None else {}

    def kind_defaults(self) -> KindDefaults:
        if self._config_maps is None:
            return self._parsed[1]
        found = self._config_maps.store.get(self._defaults_key)
        if found is not self._parsed[0]:
            self._parsed = (found, parse_kind_defaults(found.data.get("types", "") if found is not None else ""))
        return self._parsed[1]


def _index_labels(pod: Pod) -> Iterator[str]:
    for label in POD_LABELS:
        value = pod.metadata.labels.get(label)
        if value is not None:
            yield f"{pod.metadata.namespace}/{label}={value}"


def _uids_in_name(group: PodGroup) -> Iterable[str]:
    return set(_UID.findall(group.metadata.name))
