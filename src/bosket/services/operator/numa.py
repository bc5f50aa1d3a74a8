"""The DaemonSet of the NUMA placement exporter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from bosket.api.kai.config import ConfigSpec, NumaPlacementExporterConfig
from bosket.api.kai.operand import ServiceConfig
from bosket.api.kai.shard import SchedulingShard
from bosket.api.time import parse_duration
from bosket.services.operator.common import Common
from bosket.services.operator.flag import flags
from bosket.services.operator.manifest import Manifest
from bosket.services.operator.operand import amounts
from bosket.services.operator.workload import Workload, daemon_set, service_account

NAME: Final = "numa-placement-exporter"
_KUBELET: Final = "/var/lib/kubelet/pod-resources"
_SYSFS_MOUNT: Final = "/host/sys"
_SELECTOR: Final = {"feature.node.kubernetes.io/memory-numa": "true"}
#: The kubelet's socket is root's; nothing else is needed of root.
_ROOT: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": False,
    "runAsUser": 0,
}


def objects(spec: ConfigSpec, common: Common, shards: Iterable[SchedulingShard]) -> list[Manifest]:
    """Nothing, if it isn't wanted: by the Config, or where that doesn't say, by a shard that looks at NUMA zones."""
    section = spec.numaPlacementExporter or NumaPlacementExporterConfig()
    settings = section.service or ServiceConfig()
    wanted = settings.enabled if settings.enabled is not None else any(map(_looks_at_zones, shards))
    if not wanted:
        return []
    directory = section.podResourcesHostPath or _KUBELET
    workload = Workload(
        name=NAME,
        service="numa-exporter",
        arguments=flags(
            podresources_socket=section.podResourcesSocket or str(PurePosixPath(directory, "kubelet.sock")),
            sysfs_root=_SYSFS_MOUNT,
            poll_interval=_seconds(section.pollInterval),
            drift_resync_interval=_seconds(section.driftResyncInterval),
        ),
        settings=settings,
        resources=amounts("20m", "64Mi", "256Mi"),
        health_port=0,
        environment=[{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        volumes=[
            {"name": "podresources", "hostPath": {"path": directory, "type": "Directory"}},
            {"name": "sysfs", "hostPath": {"path": section.sysfsHostPath or "/sys", "type": "Directory"}},
        ],
        mounts=[
            {"name": "podresources", "mountPath": directory, "readOnly": True},
            {"name": "sysfs", "mountPath": _SYSFS_MOUNT, "readOnly": True},
        ],
        security_context=_ROOT,
    )
    selector = section.nodeSelector or _SELECTOR
    return [service_account(common, NAME), daemon_set(common, workload, selector, section.tolerations)]


def _looks_at_zones(shard: SchedulingShard) -> bool:
    chosen = shard.spec.plugins.get("numa")
    return chosen is not None and chosen.enabled is not False


def _seconds(duration: str | None) -> float | None:
    return parse_duration(duration) if duration is not None else None
