"""Priority class and preemptibility of workloads that don't say, by kind; from an administrator's ConfigMap."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from bosket.services.podgrouper.owner import GroupVersionKind

_log = logging.getLogger(__name__)


class KindDefault(msgspec.Struct, frozen=True, rename={"type_name": "typeName", "priority_name": "priorityName"}):
    """One entry of the list."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


_ENTRIES = msgspec.json.Decoder(tuple[KindDefault, ...])
_NOTHING = KindDefault()


@dataclass(frozen=True, slots=True)
class KindDefaults:
    """All entries, by `Kind.group` or, where an entry names no group, by `Kind`."""

    by_kind: Mapping[str, KindDefault] = field(default_factory=dict)

    def of(self, gvk: GroupVersionKind) -> KindDefault:
        return self.by_kind.get(f"{gvk.kind}.{gvk.group}") or self.by_kind.get(gvk.kind) or _NOTHING


def parse_kind_defaults(text: str) -> KindDefaults:
    """Read the ConfigMap's key `types`. What can't be read is as good as absent: workloads must not wait for it."""
    if not text:
        return KindDefaults()
    try:
        entries = _ENTRIES.decode(text)
    except msgspec.MsgspecError as error:
        _log.warning("defaults by kind can't be read, going without", extra={"key": "types", "error": str(error)})
        return KindDefaults()
    return KindDefaults({f"{each.type_name}.{each.group}" if each.group else each.type_name: each for each in entries})
