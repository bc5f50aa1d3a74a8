"""Work on large objects in threads, so that the event loop serves other requests meanwhile.

What is asked about a small object is done between two turns of the loop, and nobody waits for it. A large one (a body
may have 3 MiB), or a list of many, takes seconds in Python: it is decoded, checked, merged and compared in a thread,
one request after another, while the loop gets its turn every few milliseconds. A server has two such threads, for
writes and for reads, so that a list doesn't wait behind large writes. What runs there is given documents that nobody
else has, and must not look at the store, which only the loop may read and change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from bosket.kube.codec import gc_paused

#: From this size on, an object is worked on in the thread. At the worst, apply, this is some 40 ms of work.
LARGE_BYTES: Final = 32 * 1024

P = ParamSpec("P")
T = TypeVar("T")


def _without_collections(work: Callable[[], T]) -> T:
    """`work()`, while the garbage collector rests: a collection looks at every part of what is being worked on, for a
    large object a quarter of a second in which nobody has a turn."""
    with gc_paused():
        return work()


class LargeObjectExecutor:
    """Where a server's larger work of one kind is done."""

    def __init__(self, name: str = "large-objects", *, threads: bool) -> None:
        """Without `threads`, on the loop: where the loop's time is virtual, it would not wait for them."""
        # One thread: with several, the loop would have to wait for each of them to give up the interpreter's lock.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name) if threads else None

    async def run(self, size_bytes: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns or raises; `size_bytes` is the size of what it is about."""
        if self._thread is None or size_bytes < LARGE_BYTES:
            return work(*args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, _without_collections, lambda: work(*args, **kwargs)
        )

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
