"""What events touched since the last snapshot.

Every part of the live state marks here what its objects have changed for others; `ClusterState.snapshot` renews it.
"""

from __future__ import annotations

from bosket.api.object import ObjectKey


class Touched:
    """Marks. The sets stay the same objects, so that a part can be given one of them alone."""

    def __init__(self) -> None:
        self.pods: set[ObjectKey] = set()  #: something that they refer to changed: they may stand differently
        self.jobs: set[ObjectKey] = set()  #: they are built anew
        self.rest = True  #: whether anything changed that a snapshot shows and no part keeps track of
