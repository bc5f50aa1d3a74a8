"""Where the recorded cases are: `$BOSKET_SHARED/conformance`, or `../shared/conformance` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def conformance_folder(name: str) -> Path | None:
    """The folder with the cases of one component; None when this machine doesn't have them."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    folder = Path(os.environ.get("BOSKET_SHARED", beside)) / "conformance" / name
    return folder if folder.is_dir() else None
