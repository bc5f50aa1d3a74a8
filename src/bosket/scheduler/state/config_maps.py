"""ConfigMaps: the names of existing ConfigMaps; their contents are never kept, because they may be large."""

from __future__ import annotations

from collections.abc import Container, Iterator

from bosket.api.core import ConfigMap
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.state.invalidation import Dirty


class ConfigMaps:
    """Their names."""

    def __init__(self, dirty: Dirty) -> None:
        self._dirty = dirty
        self._keys: Shared[ObjectKey, None] = Shared()

    def put(self, config_map: KubeObject) -> None:
        """Takes any object with the metadata of a ConfigMap."""
        if config_map.key not in self._keys:
            self._keys.put(config_map.key, None)
            self._dirty.other = True

    def drop(self, key: ObjectKey) -> None:
        self._keys.drop(key)
        self._dirty.other = True

    def freeze(self) -> Container[ObjectKey]:
        return self._keys.freeze()

    def get(self, key: ObjectKey) -> ConfigMap | None:
        """The ConfigMap without its contents."""
        return _empty(key) if key in self._keys else None

    def values(self) -> Iterator[ConfigMap]:
        """All of them without their contents."""
        return map(_empty, self._keys.freeze())


def _empty(key: ObjectKey) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(namespace=key.namespace, name=key.name))
