"""ByteBudget: limits the memory of concurrent large writes.

The documents that a write is worked out with take about 25 times the memory of their JSON: some 70 MiB for a body of
3 MB. `ApiServer` holds a part of the budget from before a body is decoded until the answer is made, and refuses what is
beyond it (429, as kube-apiserver does when it has too many requests): clients come back. Nobody waits for the budget,
because a webhook that is asked about one write may have to make another before it answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bosket.apiserver.status import too_many_requests

#: Of JSON; four of the largest bodies, so that documents take about 300 MiB at once.
LIMIT_BYTES: Final = 12 * 1024 * 1024
#: After which a refused client should come back.
_RETRY_SECONDS: Final = 1


class ByteBudget:
    """Bytes of large writes under way, of all users and of each."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes: Counter[str] = Counter()

    @contextmanager
    def hold(self, user: str, size_bytes: int) -> Iterator[None]:
        """Hold a part of the budget; raises a `StatusError` where there is too little left.

        One user gets half of it, so that others have something left. A write that is larger than that is let in when it
        is the only one.
        """
        own, all_users = self._held_bytes[user], self._held_bytes.total()
        if (own and own + size_bytes > self._limit_bytes // 2) or (
            all_users and all_users + size_bytes > self._limit_bytes
        ):
            raise too_many_requests(
                "too many large requests at once, please try again later.", retry_after_seconds=_RETRY_SECONDS
            )
        self._held_bytes[user] += size_bytes
        try:
            yield
        finally:
            self._held_bytes[user] -= size_bytes
            if not self._held_bytes[user]:
                del self._held_bytes[user]
