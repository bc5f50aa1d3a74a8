"""Where the recorded cases are: `$BOSKET_SHARED/conformance`, or `../shared/conformance` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def shared_folder() -> Path:
    """Where recorded cases and facts are that the repository doesn't have; it need not exist."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    return Path(os.environ.get("BOSKET_SHARED", beside))


def conformance_folder(name: str) -> Path | None:
    """The folder with the cases of one component; None when this machine doesn't have them."""
    folder = shared_folder() / "conformance" / name
    return folder if folder.is_dir() else None


def shared_file(name: str) -> Path | None:
    """A file that is kept beside the cases; None when this machine doesn't have it."""
    file = shared_folder() / name
    return file if file.is_file() else None
