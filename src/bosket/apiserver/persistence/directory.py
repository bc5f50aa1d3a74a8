"""A data directory: the one place where an embedded cluster keeps what must survive its process.

`bosket up --data DIR` opens one; the API server keeps its objects in it, the cluster around it its keys. It belongs to
one process at a time, by a lock that ends with the process however that ends, and only its owner may read it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from bosket.apiserver.persistence.database import Database, StorageError
from bosket.apiserver.persistence.progress import ProgressFile

DATABASE: Final = "state.db"
LOCK: Final = "lock"
#: What the lock file says once the database is complete. A directory that says so and has no database is damaged.
_IN_USE: Final = b"bosket data directory\n"


def was_in_use(path: Path) -> bool:
    """Whether a directory holds, or once held, the state of a cluster."""
    file, lock = path / DATABASE, path / LOCK
    if file.is_file() and (file.stat().st_size > 0 or ProgressFile.beside(file).exists):
        return True
    return lock.is_file() and lock.read_bytes() == _IN_USE


class DataDirectory:
    """An open data directory; raises `StorageError` where it can't be one."""

    def __init__(self, path: Path, *, accept_loss: bool = False) -> None:
        """With `accept_loss`, a directory that lost something is used as far as it can be read."""
        self.path = path
        self._accept_loss = accept_loss
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"data directory {path}: {error.strerror}") from error
        try:
            self._take()
            self.database = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(
                f"data directory {self.path}: another server is using it; stop that one, or name another directory"
            ) from None

    def _open(self) -> Database:
        file = self.path / DATABASE
        was_complete = os.pread(self._lock, len(_IN_USE), 0) == _IN_USE
        database = Database(file, accept_loss=self._accept_loss, in_use=was_complete)
        if not was_complete:
            os.pwrite(self._lock, _IN_USE, 0)
            os.fsync(self._lock)
        return database

    def remembered(self, name: str, make: Callable[[], bytes]) -> bytes:
        """What is kept under a name: a key, a token; made when first asked for."""
        known = self.database.memo(name)
        if known is None:
            known = make()
            self.database.put_memo(name, known)
        return known

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others use the directory."""
        self.database.close()
        os.close(self._lock)
