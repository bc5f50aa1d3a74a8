"""Where the recorded cases are: `$BOSKET_SHARED/conformance`, or `../shared/conformance` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def conformance_folder(name: str) -> Path | None:
    """The folder with the cases of one component; None when this machine doesn't have them."""
    folder = _shared() / "conformance" / name
    return folder if folder.is_dir() else None


def shared_file(name: str) -> Path | None:
    """A file that is kept beside the cases; None when this machine doesn't have it."""
    file = _shared() / name
    return file if file.is_file() else None


def _shared() -> Path:
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    return Path(os.environ.get("BOSKET_SHARED", beside))
