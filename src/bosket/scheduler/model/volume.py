"""What a pod's claims ask of its node."""

from __future__ import annotations

from typing import NamedTuple

from bosket.api.core import NodeSelector
from bosket.api.object import ObjectKey


class Places(NamedTuple):
    """Nodes where one of several volumes can be reached, or be made."""

    everywhere: bool
    #: label and values, of which one must hold, or one of `selectors`
    by_label: tuple[tuple[str, frozenset[str]], ...]
    selectors: tuple[NodeSelector, ...]


class VolumeNeeds(NamedTuple):
    """All of it must hold. Equal for pods that can't be told apart by their claims."""

    reach: tuple[NodeSelector, ...]  #: of the volumes that the claims are bound to
    zones: tuple[tuple[str, frozenset[str]], ...]  #: topology label of such a volume, and the values it lists
    open: tuple[Places, ...]  #: for each claim that is bound when its pod has a node
    lost: bool  #: whether a claim is bound to a volume that isn't there


class PodStorage(NamedTuple):
    """A pod's claims as they stand."""

    needs: VolumeNeeds | None = None
    exclusive: tuple[ObjectKey, ...] = ()  #: claims that one pod at a time may use
    problem: str = ""  #: why the pod can't be placed anywhere


NO_STORAGE = PodStorage()
