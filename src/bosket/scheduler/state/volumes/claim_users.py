"""ClaimUsers: which pods use which volume claims."""

from __future__ import annotations

from collections.abc import Collection

from bosket.api.object import ObjectKey


class ClaimUsers:
    """Kept by `Volumes`, pod by pod."""

    def __init__(self) -> None:
        self._users: dict[ObjectKey, dict[ObjectKey, None]] = {}  # claim → pods
        self._claims: dict[ObjectKey, tuple[ObjectKey, ...]] = {}  # pod → claims

    @property
    def pods(self) -> Collection[ObjectKey]:
        """All that use some claim."""
        return self._claims.keys()

    def of(self, claim: ObjectKey) -> Collection[ObjectKey]:
        return self._users.get(claim, {}).keys()

    def are_several(self, claim: ObjectKey) -> bool:
        return len(self._users.get(claim, ())) > 1

    def put(self, pod: ObjectKey, claims: tuple[ObjectKey, ...]) -> set[ObjectKey]:
        """The pod uses these claims; pods that had one to themselves and no longer do, or the other way round."""
        before = self._claims.get(pod, ())
        if before == claims:
            return set()
        dirty: set[ObjectKey] = set()
        for claim in set(before).difference(claims):
            users = self._users[claim]
            del users[pod]
            if len(users) == 1:
                dirty.update(users)
            if not users:
                del self._users[claim]
        for claim in set(claims).difference(before):
            users = self._users.setdefault(claim, {})
            if len(users) == 1:
                dirty.update(users)
            users[pod] = None
        if claims:
            self._claims[pod] = claims
        else:
            del self._claims[pod]
        return dirty
