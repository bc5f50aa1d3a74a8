"""The columns of volumes and of devices."""

from __future__ import annotations

from bosket.apiserver.objects.kind import Column
from bosket.apiserver.printers.cell import UNSET, WIDE, at, cell, field
from bosket.apiserver.printers.table import AGE, NAME
from bosket.apiserver.store.entry import Doc

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(path: str) -> Column:
    return cell("Access Modes", lambda doc: ",".join(_MODES.get(mode, mode) for mode in at(doc, path, ())))


def _phase(doc: Doc) -> str:
    return "Terminating" if "deletionTimestamp" in doc["metadata"] else str(at(doc, "status.phase", ""))


def _claim(doc: Doc) -> str:
    reference = at(doc, "spec.claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _claim_state(doc: Doc) -> str:
    states = []
    if "deletionTimestamp" in doc["metadata"]:
        states.append("deleted")
    if at(doc, "status.allocation") is None:
        return ",".join([*states, "pending"])
    states.append("allocated")
    if at(doc, "status.reservedFor"):
        states.append("reserved")
    return ",".join(states)


_RESOURCE = "resource.k8s.io"

COLUMNS = {
    ("", "PersistentVolumeClaim"): (
        NAME,
        cell("Status", _phase),
        field("Volume", "spec.volumeName", ""),
        field("Capacity", "status.capacity.storage", ""),
        _modes("status.accessModes"),
        field("StorageClass", "spec.storageClassName", ""),
        field("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        field("VolumeMode", "spec.volumeMode", UNSET, priority=WIDE),
    ),
    ("", "PersistentVolume"): (
        NAME,
        field("Capacity", "spec.capacity.storage", ""),
        _modes("spec.accessModes"),
        field("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", ""),
        cell("Status", _phase),
        cell("Claim", _claim),
        field("StorageClass", "spec.storageClassName", ""),
        field("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        field("Reason", "status.reason", ""),
        AGE,
        field("VolumeMode", "spec.volumeMode", UNSET, priority=WIDE),
    ),
    ("storage.k8s.io", "StorageClass"): (
        NAME,
        field("Provisioner", "provisioner"),
        field("ReclaimPolicy", "reclaimPolicy"),
        field("VolumeBindingMode", "volumeBindingMode"),
        field("AllowVolumeExpansion", "allowVolumeExpansion", False, type="boolean"),
        AGE,
    ),
    (_RESOURCE, "ResourceClaim"): (NAME, cell("State", _claim_state), AGE),
    (_RESOURCE, "ResourceSlice"): (
        NAME,
        field("Node", "spec.nodeName", ""),
        field("Driver", "spec.driver"),
        field("Pool", "spec.pool.name"),
        AGE,
    ),
}
