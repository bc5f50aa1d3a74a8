"""HamiCore: the plugin hamicore, off by default: the memory limit of shared GPUs for HAMi-core.

Runs after gpusharing, which creates the ConfigMap and deletes it on rollback.
"""

from __future__ import annotations

from bosket.api.kai import ReceivedGPU
from bosket.api.keys import NODE_GPU_MEMORY_LABEL
from bosket.api.shared_gpu import CUDA_DEVICE_MEMORY_LIMIT
from bosket.kube.client import Client
from bosket.services.binder.gpu_sharing import check_pod
from bosket.services.binder.plugin import Attempt, BindPlugin
from bosket.services.binder.shared_gpu_map import SharedGpuMaps
from bosket.services.binder.verdict import FRACTION


class HamiCore(BindPlugin):
    """Writes the limit beside what gpusharing wrote."""

    name = "hamicore"
    priority = 50

    def __init__(self, client: Client) -> None:
        self._maps = SharedGpuMaps(client)

    async def pre_bind(self, attempt: Attempt) -> None:
        spec = attempt.request.spec
        if spec.receivedResourceType != FRACTION or spec.receivedGPU is None:
            return
        limit = memory_limit(attempt.node.metadata.labels.get(NODE_GPU_MEMORY_LABEL, ""), spec.receivedGPU)
        if limit is None:
            return  # as in KAI: what the node doesn't tell can't be limited
        _, names = check_pod(attempt.pod, spec.selectedGPUGroups)
        await self._maps.write(attempt.pod, names.capabilities, {CUDA_DEVICE_MEMORY_LIMIT: limit})


def memory_limit(memory_mib: str, received: ReceivedGPU) -> str | None:
    """The limit as HAMi-core reads it; None when the node's label says nothing that can be divided."""
    if not (memory_mib.isascii() and memory_mib.isdecimal()):
        return None
    limit = int(int(memory_mib) * float(received.portion))
    return f"{limit}m" if limit > 0 else None
