"""Columns of the built-in kinds, as kubectl's users know them.

`COLUMNS` maps (group, kind) to columns; a kind that isn't there has a name and an age.
"""

from __future__ import annotations

from bosket.apiserver.objects.kind import Column
from bosket.apiserver.printers import cluster, pod, storage, workload

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **pod.COLUMNS,
    **workload.COLUMNS,
    **cluster.COLUMNS,
    **storage.COLUMNS,
}
