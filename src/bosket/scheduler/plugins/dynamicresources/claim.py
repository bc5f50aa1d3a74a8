"""ClaimState: one ResourceClaim during a cycle: its allocation and its users."""

from __future__ import annotations

from collections.abc import Collection

from bosket.api.resource_k8s import AllocationResult

#: Stands for the user of a claim that is allocated without a user.
NOBODY = ""
KEPT, UNUSED = frozenset({NOBODY}), frozenset[str]()


class ClaimState:
    """Users join and leave; the first allocates, the last releases. Each step and its reverse cancel out."""

    __slots__ = ("_going", "_joined", "_left", "_reserved", "allocation", "version")

    def __init__(self, allocation: AllocationResult | None, reserved: Collection[str], going: Collection[str]) -> None:
        """`reserved`: uids of those that had it when the cycle began; `going`: of those that leave anyway."""
        self.allocation = allocation
        self._reserved = frozenset(reserved) or (KEPT if allocation is not None else UNUSED)
        self._going = frozenset(going)
        self._joined: set[str] = set()
        self._left: set[str] = set()
        self.version = 0  #: changes with the allocation

    @property
    def users(self) -> int:
        if not self._reserved:
            return len(self._joined)
        return len(((self._reserved - self._left) | self._joined) - KEPT)

    @property
    def is_used(self) -> bool:
        return bool(self._joined) or not self._left.issuperset(self._reserved)

    @property
    def stays(self) -> bool:
        """Whether some user isn't terminating, so that the devices aren't free."""
        return bool(self._joined) or not (self._left | self._going).issuperset(self._reserved)

    def has(self, uid: str) -> bool:
        return uid in self._joined or (uid in self._reserved and uid not in self._left)

    def join(self, uid: str, *, again: bool) -> None:
        """`again`: it had left in this cycle, and is back where it was."""
        if again and uid in self._left:
            self._left.discard(uid)
        else:
            self._joined.add(uid)

    def leave(self, uid: str) -> None:
        if uid in self._joined:
            self._joined.discard(uid)
        else:
            self._left.add(uid)

    def allocate(self, allocation: AllocationResult | None) -> None:
        self.allocation = allocation
        self.version += 1
